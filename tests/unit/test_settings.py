"""Settings name the wrong key and what is allowed, never a secret, and have one fingerprint."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from core.errors import InvalidSettings, redact
from core.model import Mode
from core.settings import ROOT, describe, load


def test_the_environment_overrides_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[rag]\nretrieve_k = 30\nreturn_n = 4\n[retrieval.search]\nmode = "hybrid"\n', encoding="utf-8")
    settings = load(file, {"RAG__RETRIEVAL__SEARCH__MODE": "dense", "RAG__RAG__RETURN_N": "3"})
    assert settings.rag.retrieve_k == 30
    assert settings.rag.return_n == 3
    assert settings.rag.max_chunks_per_document == 2
    assert settings.retrieval.search.mode is Mode.DENSE
    assert settings.path("data/x.db") == tmp_path / "data/x.db"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RAG__RETRIEVAL__SEARCH__MODE": "dens"}, r"retrieval\.search\.mode: .*'hybrid' or 'dense' \(got 'dens'\)"),
        ({"RAG__FOO__BAR": "1"}, r"foo: no such setting; allowed here: .*retrieval"),
        ({"RAG__RAG__RETREIVE_K": "3"}, r"rag\.retreive_k: no such setting; allowed here: .*retrieve_k"),
        ({"RAG__RAG__RETRIEVE_K": "many"}, r"rag\.retrieve_k: .*integer.*'many'"),
        ({"RAG__RAG__RETRIEVE_K": "0"}, r"rag\.retrieve_k: .*greater than or equal to 1"),
        ({"RAG__PACK__CHAR_BUDGET": "-5"}, r"pack\.char_budget"),
        (
            {"RAG__QUALITY__REFERENCE_THRESHOLD": "2"},
            r"quality\.reference_threshold: .*less than or equal to 1.*higher is stricter",
        ),
        ({"RAG__QUALITY__REFERENCE_THRESHOLD": "-1"}, r"quality\.reference_threshold"),
        ({"RAG__QUALITY__PRECISE_THRESHOLD": "0.2", "RAG__QUALITY__REFERENCE_THRESHOLD": "0.4"}, "must not be below"),
        ({"RAG__MILVUS__URI": "somewhere"}, r"milvus\.uri: .*\.db"),
        ({"RAG__RERANK__ENABLED": "true"}, r"rerank: .*rerank\.url"),
        ({"RAG__RETRIEVAL__HYBRID__FUSION": "server", "RAG__RETRIEVAL__HYBRID__BM25_WEIGHT": "2"}, "equal weights"),
        ({"RAG__RETRIEVAL": "1"}, "RAG__SECTION__KEY"),
        ({"RAG__AUDIT__TIMEZONE": "Mars/X"}, r"audit\.timezone: .*Asia/Shanghai.*'Mars/X'"),
        ({"RAG__AUDIT__TIMEZONE": "../etc/passwd"}, r"audit\.timezone: .*IANA"),
    ],
)
def test_a_wrong_key_or_value_names_itself_and_what_is_allowed(
    environ: dict[str, str], words: str, tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("", encoding="utf-8")
    with pytest.raises(InvalidSettings, match=words):
        load(file, environ)


def test_a_file_that_is_no_toml_or_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[rag\n", encoding="utf-8")
    with pytest.raises(InvalidSettings, match="not valid TOML"):
        load(file, {})
    with pytest.raises(InvalidSettings, match="no such settings file"):
        load(tmp_path / "other.toml", {})
    with pytest.raises(InvalidSettings, match="no such settings file"):
        load(environ={"RAG_SETTINGS": str(tmp_path / "other.toml")})
    with pytest.raises(InvalidSettings, match="cannot be read"):
        load(tmp_path, {})


def test_the_fingerprint_is_sha256_over_canonical_json_and_knows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("", encoding="utf-8")
    url = "mysql+pymysql://kb:S3cr3t-CANARY@db:3306/rag"
    one = load(
        file, {"RAG__DATABASE__URL": url, "RAG__MILVUS__TOKEN": "TOKEN-CANARY", "RAG__EMBEDDING__API_KEY": "KEY-CANARY"}
    )
    text = json.dumps(one.public(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert one.fingerprint == hashlib.sha256(text.encode()).hexdigest()
    assert "CANARY" not in text
    assert "db:3306/rag" in text
    assert "CANARY" not in repr(one)
    other_secret = load(file, {"RAG__DATABASE__URL": url.replace("S3cr3t", "0ther"), "RAG__MILVUS__TOKEN": "x"})
    assert other_secret.fingerprint == one.fingerprint
    assert load(file, {"RAG__RAG__RETRIEVE_K": "21"}).fingerprint != load(file, {}).fingerprint


@pytest.mark.parametrize(
    "text",
    [
        "mysql+pymysql://kb:S3cr3t-CANARY@db:3306/x is away",
        "mysql+pymysql:://kb:S3cr3t-CANARY@db:3306/x",
        "mysql://kb:S3cr3t-CANARY@x/w#rd@db/x",
        "password=S3cr3t-CANARY host=db",
        '{"token": "S3cr3t-CANARY", "host": "db"}',
        "Authorization: Bearer S3cr3t-CANARY for db",
        "the server said S3cr3t-CANARY about db",
    ],
)
def test_case_119_no_message_holds_a_secret_but_the_host_stays(text: str) -> None:
    line = redact(text, secrets=("S3cr3t-CANARY",))
    assert "CANARY" not in line
    assert "db" in line


def test_the_reference_of_settings_is_up_to_date_and_explains_every_key() -> None:
    written = (ROOT / "docs" / "SETTINGS.md").read_text(encoding="utf-8")
    assert written == describe() + "\n", "write it anew: python -m core settings --markdown > docs/SETTINGS.md"
    assert "|  |\n" not in written


def test_an_older_generation_is_not_dropped_while_a_lookup_may_hold_it() -> None:
    with pytest.raises(InvalidSettings, match=r"^knowledge\.drop_after_seconds is 5, but .* 30 s"):
        load(None, {}, knowledge={"drop_after_seconds": 5})
    assert load(None, {}, knowledge={"drop_after_seconds": 0}).knowledge.drop_after_seconds == 0
