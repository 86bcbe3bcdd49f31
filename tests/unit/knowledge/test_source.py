"""The folder of runbooks: which files are documents, under which ids, and what is listed with its reason instead."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from core.analysis import tokens
from core.errors import BadInput
from core.knowledge import source
from core.knowledge.source import (
    MAX_FILE_BYTES,
    MAX_KEY_BYTES,
    Rejected,
    SourceDocument,
    doc_id_of,
    list_files,
    load_file,
    read_source,
    visible_text,
)


def folder(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    root.mkdir(exist_ok=True)
    return root


def only(root: Path, content: str | bytes, name: str = "a.md") -> SourceDocument | Rejected:
    (file,) = list_files(folder(root, {name: content})).files
    return load_file(file)


def document(root: Path, content: str | bytes, name: str = "a.md") -> SourceDocument:
    loaded = only(root, content, name)
    assert isinstance(loaded, SourceDocument), loaded
    return loaded


def reasons(entries: tuple[Rejected, ...]) -> dict[str, str]:
    return {entry.source: entry.reason for entry in entries}


# --------------------------------------------------------------------------------------------- which files


def test_markdown_files_at_any_depth_are_documents_in_order_of_their_ids(tmp_path: Path) -> None:
    root = folder(
        tmp_path / "kb", {"b.md": "x", "a/z.md": "x", "a/b/c.md": "x", "a.md": "x", "A.MD": "x", "x.txt": "x"}
    )
    listing = list_files(root)
    assert [file.doc_id for file in listing.files] == ["A", "a", "a/b/c", "a/z", "b"]
    assert [file.source for file in listing.files] == ["A.MD", "a.md", "a/b/c.md", "a/z.md", "b.md"]
    assert listing.rejected == ()
    assert [item.source for item in listing.skipped] == ["x.txt"]


def test_an_empty_folder_has_no_documents_but_a_missing_one_is_an_error(tmp_path: Path) -> None:
    assert list_files(folder(tmp_path / "kb", {})).files == ()
    with pytest.raises(BadInput, match="no such folder; set knowledge"):
        list_files(tmp_path / "unmounted")
    with pytest.raises(BadInput, match="no such folder"):
        list_files(folder(tmp_path, {"file.md": "x"}) / "file.md")


def test_every_readme_and_every_hidden_name_is_skipped_and_listed(tmp_path: Path) -> None:
    root = folder(
        tmp_path / "kb", {"README.md": "x", "a/ReadMe.md": "x", ".git/b.md": "x", "a/.c.md": "x", "a/readme-2.md": "x"}
    )
    listing = list_files(root)
    assert [file.doc_id for file in listing.files] == ["a/readme-2"]
    assert reasons(listing.skipped) == {
        ".git": "names that start with a dot are skipped",
        "README.md": "every README.md is skipped",
        "a/.c.md": "names that start with a dot are skipped",
        "a/ReadMe.md": "every README.md is skipped",
    }


def test_a_file_of_another_kind_is_listed_with_its_reason(tmp_path: Path) -> None:
    listing = list_files(folder(tmp_path / "kb", {"a.markdown": "x", "img/b.png": "x", "notes": "x", "c.MD": "x"}))
    assert [file.doc_id for file in listing.files] == ["c"]
    assert reasons(listing.skipped) == dict.fromkeys(
        ("a.markdown", "img/b.png", "notes"), "its name does not end in .md"
    )


def test_case_16_names_are_data_and_each_file_has_its_own_id(tmp_path: Path) -> None:
    names = ["操作说明.md", "扩容 手册.md", "C# 50%.md", "x&y (2).md", "-v.md", "a..b.md", "'\".md", "=1+1.md"]
    root = folder(tmp_path / "kb", {name: f"MARK-{i}" for i, name in enumerate(names)})
    scan = read_source(root)
    assert {d.doc_id: d.body for d in scan.documents} == {name[:-3]: f"MARK-{i}" for i, name in enumerate(names)}
    assert {d.source for d in scan.documents} == set(names)


def test_case_17_an_id_is_composed_while_the_path_still_opens_the_file(tmp_path: Path) -> None:
    decomposed, composed = (unicodedata.normalize(form, "café-检修.md") for form in ("NFD", "NFC"))
    root = folder(tmp_path / "kb", {f"one/{decomposed}": "# 检修\n\n同一篇。", f"two/{composed}": "# 检修\n\n同一篇。"})
    first, second = list_files(root).files
    assert (first.doc_id, first.source) == ("one/café-检修", "one/café-检修.md")
    assert first.path.name == decomposed
    left, right = load_file(first), load_file(second)
    assert isinstance(left, SourceDocument)
    assert isinstance(right, SourceDocument)
    assert left.content_hash == right.content_hash
    before = list_files(root).files
    os.rename(root / "one" / decomposed, root / "one" / composed)
    assert [f.doc_id for f in list_files(root).files] == [f.doc_id for f in before]


def test_case_17_two_forms_of_one_name_in_one_folder_are_a_clash(tmp_path: Path) -> None:
    decomposed, composed = (unicodedata.normalize(form, "é.md") for form in ("NFD", "NFC"))
    listing = list_files(folder(tmp_path / "kb", {composed: "second by name", decomposed: "first by name"}))
    (file,) = listing.files
    assert file.path.name == min(composed, decomposed)
    assert list(reasons(listing.rejected)) == [composed]
    assert "same id" in listing.rejected[0].reason


def test_ids_that_differ_in_case_are_two_documents_with_a_warning(tmp_path: Path) -> None:
    scan = read_source(folder(tmp_path / "kb", {"Redis/a.md": "x", "redis/a.md": "y", "b.md": "z"}))
    assert [d.doc_id for d in scan.documents] == ["Redis/a", "b", "redis/a"]
    assert scan.warnings == ("redis/a: differs from Redis/a only in case; rename one, for systems that ignore case",)


def test_the_listing_does_not_depend_on_the_order_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder(
        tmp_path / "kb", {"b.md": "x", "a.md": "x", "a.MD": "x", "c/README.md": "x", "c/d.md": "x", "c/.e": "x"}
    )
    before = list_files(root)
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: sorted(scandir(path), key=lambda e: e.name, reverse=True))
    assert list_files(root) == before
    assert reasons(before.rejected).keys() == {"a.md"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a\tb.md", "control characters"),
        ("a\nb.md", "control characters"),
        ("题" * 60 + "/" + "题" * 60 + "/" + "题" * 60 + ".md", f"545 bytes, at most {MAX_KEY_BYTES}"),
        (os.fsdecode(b"\xff\xfe.md"), "no UTF-8"),
    ],
)
def test_a_name_that_cannot_be_an_id_is_rejected(tmp_path: Path, name: str, reason: str) -> None:
    listing = list_files(folder(tmp_path / "kb", {name: "x", "ok.md": "x"}))
    assert [file.doc_id for file in listing.files] == ["ok"]
    (rejected,) = listing.rejected
    assert reason in rejected.reason
    assert rejected.source.encode()


def test_folders_without_end_are_rejected_as_a_whole(tmp_path: Path) -> None:
    root = folder(tmp_path / "kb", {"/".join(["d"] * 500) + "/deep.md": "x", "ok.md": "x"})
    listing = list_files(root)
    assert [file.doc_id for file in listing.files] == ["ok"]
    assert "nested too deep" in listing.rejected[0].reason


def test_what_is_named_like_a_document_but_is_no_file_is_listed(tmp_path: Path) -> None:
    root = folder(tmp_path / "kb", {"dir.md/inside.md": "x"})
    os.mkfifo(root / "pipe.md")
    listing = list_files(root)
    assert [file.doc_id for file in listing.files] == ["dir.md/inside"]
    assert reasons(listing.skipped) == {"pipe.md": "no regular file"}


# --------------------------------------------------------------------------------------------- links


def test_case_117_nothing_outside_the_source_is_read_and_every_link_is_listed(tmp_path: Path) -> None:
    root = folder(tmp_path / "kb", {"ok.md": "# 里\n\nINSIDE", "sub/more.md": "# 里\n\nMORE"})
    outside = folder(tmp_path / "outside", {"private.md": "# 外\n\nCANARY-PRIVATE"})
    (root / "leak.md").symlink_to("../outside/private.md")
    (root / "dirlink").symlink_to(outside)
    (root / "loop").symlink_to(".")
    (root / "twin.md").symlink_to("ok.md")
    (root / "dangling.md").symlink_to("nowhere.md")
    (root / "self.md").symlink_to("self.md")
    scan = read_source(root)
    assert [d.doc_id for d in scan.documents] == ["ok", "sub/more"]
    assert not any("CANARY" in d.body for d in scan.documents)
    assert reasons(scan.rejected) == {
        "dangling.md": "a link that leads nowhere; remove it",
        "dirlink": "a link that leads outside the source; copy the file in",
        "leak.md": "a link that leads outside the source; copy the file in",
        "self.md": "a link that leads nowhere; remove it",
    }
    inside = "a link inside the source: its target is read under its own name"
    assert reasons(scan.skipped) == {"loop": inside, "twin.md": inside}


def test_case_117_a_source_that_is_itself_a_link_or_has_dots_in_its_path_is_read(tmp_path: Path) -> None:
    root = folder(tmp_path / "kb", {"a/ok.md": "x"})
    (tmp_path / "current").symlink_to(root)
    for path in (tmp_path / "current", tmp_path / "kb" / ".." / "kb"):
        assert [d.doc_id for d in read_source(path).documents] == ["a/ok"]


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_case_117_a_link_put_in_place_after_the_listing_is_not_followed(tmp_path: Path, swapped: str) -> None:
    root = folder(tmp_path / "kb", {"sub/a.md": "x"})
    outside = folder(tmp_path / "outside", {"a.md": "CANARY-PRIVATE"})
    (file,) = list_files(root).files
    file.path.unlink()
    if swapped == "file":
        file.path.symlink_to(outside / "a.md")
    else:
        (root / "sub").rmdir()
        (root / "sub").symlink_to(outside)
    assert isinstance(load_file(file), Rejected)


# --------------------------------------------------------------------------------------------- uploads


def test_an_upload_stands_in_for_a_file_of_the_same_id_and_its_faults_are_its_own(tmp_path: Path) -> None:
    root = folder(tmp_path / "kb", {"a.md": "old", "b.md": "kept"})
    uploads = folder(tmp_path / "uploads", {"a.md": "new", "c.md": "more", "README.md": "x"})
    scan = read_source(root, uploads)
    assert [(d.doc_id, d.body, d.uploaded) for d in scan.documents] == [
        ("a", "new", True),
        ("b", "kept", False),
        ("c", "more", True),
    ]
    assert scan.rejected == ()
    assert len(list_files(root, tmp_path / "none yet").files) == 2


# --------------------------------------------------------------------------------------------- what is in a file


def test_a_document_says_what_its_file_says(tmp_path: Path) -> None:
    text = "---\ntitle: 连接池\ncategory: redis\nkeywords: 池\naliases: [CP, {}]\n---\n# 一\n\n文。\n".replace(
        ", {}", ""
    )
    found = document(tmp_path / "kb", text, "redis/pool.md")
    assert (found.doc_id, found.source, found.title, found.category) == (
        "redis/pool",
        "redis/pool.md",
        "连接池",
        "redis",
    )
    assert (found.kb_scope, found.keywords, found.aliases) == ("default", ("池",), {"CP": "连接池"})
    assert (found.body, found.body_line, found.encoding, found.warnings) == ("# 一\n\n文。\n", 7, "utf-8", ())


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: 甲\n---\n# 乙\n\n文", "甲"),
        ("导言\n\n# 乙 **丙** #\n\n文", "乙 丙"),
        ("乙\n===\n\n文", "乙"),
        ("## 乙\n\n文\n\n# 丁", "乙"),
        ("```sh\n# 注释\n```\n\n# 乙\n\n文", "乙"),
        ("<!--\n# 草稿\n-->\n\n# 乙\n\n文", "乙"),
        ("没有标题。\n\n```sh\n# 注释\n```", "a"),
        ("# \u200b\n\n文", "a"),
    ],
)
def test_the_title_is_the_stated_one_or_the_first_heading_or_the_file_name(
    tmp_path: Path, text: str, title: str
) -> None:
    assert document(tmp_path / "kb", text).title == title


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n\u3000\u3000\n\t\n",
        "---\ntitle: 只有元数据\ncategory: 空\n---\n",
        "<!-- 待补充 -->\n",
        "&nbsp;\n\n&nbsp;",
        "---",
        "—— ★ ——",
    ],
    ids=["empty", "blank", "metadata", "comment", "entities", "rule", "symbols"],
)
def test_case_13_a_file_with_nothing_to_index_is_rejected_as_such(tmp_path: Path, text: str) -> None:
    found = only(tmp_path / "kb", text)
    assert isinstance(found, Rejected)
    assert found.reason.startswith("no indexable text")


def test_case_10_one_bad_file_is_listed_and_the_others_go_on(tmp_path: Path) -> None:
    root = folder(
        tmp_path / "kb",
        {
            "a.md": "# 一\n\n文",
            "b.md": "---\ntitle: 制表符\nowner:\n\tname: ops\n---\n文",
            "c.md": b"x \xff\xff y",
            "d.md": "",
            "e.md": "# 二\n\n文",
        },
    )
    scan = read_source(root)
    assert [d.doc_id for d in scan.documents] == ["a", "e"]
    assert [(r.source, r.line) for r in scan.rejected] == [("b.md", 4), ("c.md", None), ("d.md", None)]


def test_cases_1_14_what_was_read_in_another_way_is_a_warning_and_no_rejection(tmp_path: Path) -> None:
    root = folder(
        tmp_path / "kb",
        {"gb.md": "# 题\n\n文 㐀".encode("gb18030"), "nul.md": "# 题\n\n前\0后", "open.md": "---\n\n没有结束的一篇"},
    )
    scan = read_source(root)
    assert len(scan.documents) == 3
    assert scan.rejected == ()
    assert scan.warnings == (
        "gb.md: read as gb18030",
        "nul.md: 1 NUL characters removed",
        "open.md: the first line is --- but no line closes the front matter; all of it is body",
    )


def test_case_14_an_invisible_character_stays_in_the_text_and_not_in_its_tokens(tmp_path: Path) -> None:
    body = document(tmp_path / "kb", "# 题\n\n断\u200b路\u200b器").body
    assert "断\u200b路" in body
    assert set(tokens("断路器")) <= set(tokens(body))


def test_case_1_the_content_hash_is_over_what_is_said_and_not_over_how_it_is_written(tmp_path: Path) -> None:
    text = "---\ntitle: 甲\nkeywords: [a, b]\naliases: {x: y, z: w}\n---\n# 题\n\n文。\n"
    base = document(tmp_path / "0", text).content_hash
    same = [
        b"\xef\xbb\xbf" + text.encode(),
        text.replace("\n", "\r\n"),
        text.encode("gb18030"),
        text.replace("[a, b]", "a，b"),
        text.replace("{x: y, z: w}", "{z: w, x: y}"),
        text.replace("title: 甲", "title:   '甲'"),
    ]
    for number, content in enumerate(same, 1):
        assert document(tmp_path / str(number), content).content_hash == base, number
    other = [
        text.replace(old, new) for old, new in [("甲", "乙"), ("[a, b]", "[b, a]"), ("文。", "文"), ("x: y", "x: v")]
    ]
    other.append(text.replace("title", "kb_scope: ops\ntitle"))
    hashes = [document(tmp_path / f"other{i}", content).content_hash for i, content in enumerate(other)]
    assert len({base, *hashes}) == 1 + len(other)


def test_case_122_a_category_too_long_for_the_store_is_refused_with_its_size(tmp_path: Path) -> None:
    found = only(tmp_path / "kb", f"---\ntitle: {'题' * 90}\ncategory: {'类' * 90}\n---\n文")
    assert found == Rejected("a.md", "category: 90 characters, at most 64 are allowed; shorten it", 3)
    assert document(tmp_path / "ok", f"---\ntitle: {'题' * 90}\n---\n文").title == "题" * 90


def test_a_file_over_the_size_limit_is_rejected_also_when_it_grew_after_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = list_files(folder(tmp_path / "kb", {"a.md": "0123456789"})).files
    large = load_file(replace(file, size=MAX_FILE_BYTES + 1))
    assert large == Rejected("a.md", f"{MAX_FILE_BYTES + 1} bytes, at most {MAX_FILE_BYTES}; split the document")
    monkeypatch.setattr(source, "MAX_FILE_BYTES", 9)
    grown = load_file(replace(file, size=9))
    assert isinstance(grown, Rejected)
    assert "split the document" in grown.reason


def test_a_file_that_vanished_is_rejected(tmp_path: Path) -> None:
    (file,) = list_files(folder(tmp_path / "kb", {"a.md": "x"})).files
    file.path.unlink()
    assert load_file(file) == Rejected("a.md", "cannot be read: No such file or directory")


def test_the_source_is_never_written_to(tmp_path: Path) -> None:
    root = folder(tmp_path / "kb", {"a.md": "# x\n\ny", "sub/b.md": b"\xff"})
    before = {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]}
    read_source(root)
    assert {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]} == before


def test_what_is_visible_is_all_but_comments_and_blank_entities() -> None:
    assert visible_text("a<!-- b\nc -->d&nbsp;e&#160;f &amp; <b>g</b>") == "ad e f &amp; <b>g</b>"


def test_an_id_is_the_path_without_its_suffix() -> None:
    assert doc_id_of("redis/连接池.v2.md") == "redis/连接池.v2"
