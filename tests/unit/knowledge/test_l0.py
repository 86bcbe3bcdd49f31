"""What documents call themselves, held against a query: narrowing only where one domain is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.analysis import normalize
from core.knowledge.l0 import MAX_DOCUMENTS, MAX_TITLES, DocumentL0
from core.model import Document, L0Match, Scopes

DEFAULT = Scopes(frozenset({"default"}))
EVERYTHING = Scopes(frozenset(), everything=True)


def document(
    doc_id: str,
    category: str = "",
    keywords: Sequence[str] = (),
    *,
    title: str = "",
    aliases: Mapping[str, str] | None = None,
    scope: str = "default",
) -> Document:
    return Document(doc_id, f"{doc_id}.md", title or doc_id, category, scope, 1, "hash", tuple(keywords), aliases or {})


DOCUMENTS = [
    document("d1", "redis", ["redis", "连接池", "大 key"], title="缓存连接耗尽", aliases={"CP": "ConnectionPool"}),
    document(
        "d2",
        "jvm",
        ["heap dump", "内存", "池"],
        title="堆溢出",
        aliases={"OOM": "OutOfMemory", "内存溢出": "OutOfMemory"},
    ),
    document("d3", "mysql", ["mysql", "连接池", "slow query"], title="慢查询排查"),
    document("d4", "kafka", ["连接池", "lag", "ES集群"], title="消费积压"),
    document("d5", "", ["散件"], title="没有分类的一篇"),
    document("s1", "vault", ["redis", "密钥轮换"], title="内部密钥手册", aliases={"KMS": "KeyService"}, scope="secret"),
]


def matched(query: str, scopes: Scopes = DEFAULT, documents: Sequence[Document] = DOCUMENTS) -> L0Match:
    return DocumentL0(documents).match(normalize(query), scopes)


# --------------------------------------------------------------------------------------------- the filter


@pytest.mark.parametrize(
    ("query", "category"),
    [
        ("redis 大key 怎么查", "redis"),
        ("慢查询排查", "mysql"),
        ("kafka 为什么慢", "kafka"),
        ("内存 不够", "jvm"),
        ("mysql slow query", "mysql"),
    ],
    ids=["keywords", "title", "category", "chinese", "two that agree"],
)
def test_words_that_leave_one_domain_set_the_filter(query: str, category: str) -> None:
    found = matched(query)
    assert found.category_filter == category
    assert found.domain_hints == (category,)


@pytest.mark.parametrize("query", ["redis 与 mysql 谁慢", "redis lag 内存"])
def test_words_of_several_domains_are_hints_and_no_filter(query: str) -> None:
    found = matched(query)
    assert found.category_filter is None
    assert len(found.domain_hints) > 1


def test_a_word_that_stands_in_most_domains_narrows_nothing() -> None:
    everywhere = matched("连接池 满了")
    assert (everywhere.category_filter, everywhere.domain_hints) == (None, ())
    assert everywhere.matched_keywords == ("连接池",)
    assert everywhere.l0_titles == ()
    assert matched("redis 连接池 满了").category_filter == "redis"


def test_a_word_in_another_spelling_is_the_same_word_when_its_domains_are_counted() -> None:
    documents = [document(str(n), f"c{n}", [word]) for n, word in enumerate(["Lag", "lag", "LAG", "other"])]
    found = matched("consumer lag", documents=documents)
    assert (found.category_filter, found.domain_hints) == (None, ())
    assert len(found.matched_keywords) == 1


def test_two_domains_that_share_a_word_leave_the_one_they_share_with_another_word() -> None:
    documents = [
        document("a", "x", ["alpha", "beta"]),
        document("b", "y", ["beta", "gamma"]),
        *(document(c, c, [c * 3]) for c in "cde"),
    ]
    assert matched("beta", documents=documents).category_filter is None
    assert matched("beta", documents=documents).domain_hints == ("x", "y")
    assert matched("alpha beta", documents=documents).category_filter == "x"


def test_documents_without_a_category_are_no_filter_and_prevent_one() -> None:
    assert matched("散件").category_filter is None
    assert matched("散件").domain_hints == ()
    assert matched("散件").l0_titles == ("没有分类的一篇",)
    assert matched("散件 redis").category_filter is None


@pytest.mark.parametrize("query", ["", "zzz", "🔥", "怎么办"])
def test_a_query_that_meets_nothing_narrows_nothing(query: str) -> None:
    assert matched(query) == L0Match(documents_in_scope=matched("redis").documents_in_scope)
    assert matched(query, documents=[]) == L0Match(documents_in_scope=0)


# --------------------------------------------------------------------------------------------- how words match


@pytest.mark.parametrize(
    ("query", "keywords"),
    [
        ("服务器内存告急", ("内存",)),
        ("服務器記憶體 內存", ("内存",)),
        ("内\u200b存", ("内存",)),
        ("内 存", ("内存",)),
        ("水池漏了", ()),
        ("大key 与 大 KEY", ("大 key",)),
    ],
    ids=["inside", "traditional", "invisible", "spaced", "one character", "mixed"],
)
def test_chinese_words_match_inside_a_text_from_two_characters_on(query: str, keywords: tuple[str, ...]) -> None:
    assert matched(query).matched_keywords == keywords


@pytest.mark.parametrize(
    ("query", "keywords"),
    [
        ("redis挂了", ("redis",)),
        ("REDIS", ("redis",)),
        ("ｒｅｄｉｓ", ("redis",)),
        ("predis redisson", ()),
        ("flag and lagoon", ()),
        ("many slow queries", ("slow query",)),
        ("slow big query", ()),
        ("query slow", ()),
        ("heap", ()),
        ("the heap dumps", ("heap dump",)),
        ("heap.dump", ()),
    ],
)
def test_latin_words_match_whole_and_in_their_order(query: str, keywords: tuple[str, ...]) -> None:
    assert matched(query).matched_keywords == keywords


@pytest.mark.parametrize(
    ("query", "hit"), [("ES集群 红了", True), ("es集群", True), ("AES集群", False), ("es 集群", True)]
)
def test_the_latin_end_of_a_mixed_word_stands_alone(query: str, hit: bool) -> None:
    assert matched(query).matched_keywords == (("ES集群",) if hit else ())


@pytest.mark.parametrize(
    ("word", "query", "hit"),
    [
        ("CVE-2024-1234", "受 cve-2024-1234 影响", True),
        ("CVE-2024-1234", "受 CVE-2024-12345 影响", False),
        ("v2.3.1", "升级到V2.3.1后", True),
        ("v2.3.1", "升级到 v2.3.10 后", False),
        ("KubePodCrashLooping", "kubepodcrashlooping", True),
        ("node_exporter", "NODE_EXPORTER 掉线", True),
    ],
)
def test_case_41_an_identifier_matches_whole_in_any_case(word: str, query: str, hit: bool) -> None:
    found = matched(query, documents=[document("a", "x", [word]), document("b", "y", ["zzz"])])
    assert found.category_filter == ("x" if hit else None)


def test_entities_are_the_identifiers_of_the_query_itself() -> None:
    assert matched("E-1024 与 KubePodCrashLooping、v2.3.1，redis 的 OOM").entities == (
        "E-1024",
        "KubePodCrashLooping",
        "v2.3.1",
        "OOM",
    )


# --------------------------------------------------------------------------------------------- aliases


@pytest.mark.parametrize("query", ["OOM 了", "oom", "发生内存溢出时"])
def test_an_alias_names_its_canonical_term(query: str) -> None:
    found = matched(query)
    assert found.canonical_terms == ("OutOfMemory",)
    assert [canonical for _, canonical in found.aliases] == ["OutOfMemory"]
    assert found.category_filter == "jvm"


def test_a_canonical_term_itself_is_no_alias() -> None:
    found = matched("OutOfMemory")
    assert (found.aliases, found.canonical_terms) == ((), ())
    assert found.category_filter == "jvm"


@pytest.mark.parametrize("query", ["OOME", "boom", "zoom"])
def test_an_alias_is_no_part_of_another_word(query: str) -> None:
    assert matched(query).aliases == ()


def test_one_alias_of_two_terms_gives_both() -> None:
    documents = [
        document("a", "x", aliases={"CP": "ConnectionPool"}),
        document("b", "y", aliases={"CP": "ControlPlane"}),
    ]
    found = matched("cp", documents=documents)
    assert found.canonical_terms == ("ConnectionPool", "ControlPlane")
    assert found.category_filter is None


# --------------------------------------------------------------------------------------------- scopes


def test_documents_outside_the_scopes_are_not_seen_in_any_field() -> None:
    for query in ("密钥轮换", "内部密钥手册", "vault", "KMS", "KeyService"):
        found = matched(query)
        assert (found.category_filter, found.domain_hints, found.matched_keywords) == (None, (), ())
        assert (found.l0_titles, found.l0_doc_ids, found.aliases, found.canonical_terms) == ((), (), (), ())
    assert matched("密钥轮换", Scopes(frozenset({"secret"}))).category_filter == "vault"
    assert matched("密钥轮换", EVERYTHING).category_filter == "vault"


def test_a_hidden_document_does_not_even_make_a_word_ambiguous() -> None:
    assert matched("redis").category_filter == "redis"
    assert matched("redis", EVERYTHING).category_filter is None
    assert matched("redis", EVERYTHING).domain_hints == ("redis", "vault")


def test_no_scope_at_all_sees_nothing() -> None:
    assert matched("redis", Scopes(frozenset())) == L0Match(documents_in_scope=0)


WORDS = st.sampled_from(
    [
        "redis",
        "REDIS",
        "Lag",
        "oome",
        "OOME",
        "内存",
        "池",
        "OOM",
        "es集群",
        "v2.3.1",
        "lag",
        "大 key",
        "",
        "-",
        "题",
        "redis 内存",
    ]
)


@given(
    st.lists(
        st.tuples(WORDS, st.lists(WORDS, max_size=3), st.dictionaries(WORDS, WORDS, max_size=2), st.sampled_from("ab")),
        max_size=6,
    ),
    st.lists(WORDS, max_size=4).map(" ".join),
)
def test_a_scope_alone_gives_what_its_documents_alone_give(
    drawn: list[tuple[str, list[str], dict[str, str], str]], query: str
) -> None:
    documents = [
        document(f"d{n}", category, keywords, aliases=aliases, scope=scope)
        for n, (category, keywords, aliases, scope) in enumerate(drawn)
    ]
    own = [d for d in documents if d.kb_scope == "a"]
    scopes = Scopes(frozenset({"a"}))
    found = matched(query, scopes, documents)
    assert found == matched(query, scopes, own)
    assert found == matched(query, scopes, documents[::-1])
    assert found.category_filter is None or found.category_filter in {d.category for d in own}


def test_lists_are_bounded() -> None:
    documents = [document(f"d{n:04}", f"c{n % 10}", ["lag"], title=f"题{n}") for n in range(500)]
    documents += [document(f"e{n}", f"z{n}", ["other"]) for n in range(30)]
    found = matched("lag", documents=documents)
    assert len(found.l0_titles) == MAX_TITLES
    assert len(found.l0_doc_ids) == MAX_DOCUMENTS
