"""Typed settings: ``settings.toml`` beside ``app.py``, every key overridable as ``RAG__SECTION__KEY``.

A wrong key or value is an ``InvalidSettings`` that names the key and what is allowed. Relative paths and SQLite files
are taken from the folder of ``settings.toml``. Read once; the parts are frozen.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from core.errors import InvalidSettings, redact
from core.model import Fusion, Mode

PREFIX = "RAG__"
ROOT = Path(__file__).resolve().parent.parent


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class MilvusSettings(_Part):
    uri: str = Field(
        "data/milvus.db", description="a path ending in .db (Milvus Lite, served locally) or http(s)://host:port"
    )
    token: SecretStr = Field(SecretStr(""), description="of a cluster that asks for one; a secret")
    collection: str = Field(
        "biz", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$", description="letters, digits and _; names the alias"
    )
    idle_seconds: float = Field(
        1800, ge=5, description="the local server ends after this many seconds without a client"
    )
    connect_timeout: float = Field(10.0, gt=0, le=120, description="seconds to open a connection")

    @field_validator("uri")
    @classmethod
    def _uri(cls, value: str) -> str:
        if not (value.endswith(".db") or value.startswith(("http://", "https://", "tcp://", "unix:"))):
            raise ValueError("give a path that ends in .db or a URI that starts with http:// or https://")
        return value


class DatabaseSettings(_Part):
    url: SecretStr = Field(
        SecretStr("sqlite:///data/console.sqlite3"),
        description="sqlite:///FILE or mysql+pymysql://user:password@host:3306/name?charset=utf8mb4",
    )
    host: str = Field("", description="with user, password and name instead of url: joined and escaped here")
    port: int = Field(3306, ge=1, le=65535, description="with host")
    user: str = Field("", description="with host")
    password: SecretStr = Field(SecretStr(""), description="with host, taken literally; a secret")
    name: str = Field("", description="with host: the database")
    connect_timeout: float = Field(3.0, gt=0, le=60, description="seconds to open a connection to a server")


class EmbeddingSettings(_Part):
    provider: Literal["e5", "use", "openai"] = Field(
        "e5", description="e5 (quality), use (speed, any platform) or openai (an endpoint)"
    )
    base_url: str = Field("", description="of an OpenAI-compatible endpoint, without /embeddings: http://host:port/v1")
    model: str = Field("", description="the name that the endpoint knows its model by")
    api_key: SecretStr = Field(SecretStr(""), description="of the endpoint; a secret")
    dimension: int = Field(0, ge=0, le=32768, description="of the endpoint's vectors; 0 asks the endpoint once")
    query_prefix: str = Field("", description="put before each query, for models that want one ('query: ')")
    passage_prefix: str = Field("", description="put before each passage ('passage: ')")
    send_input_type: bool = Field(False, description="send input_type query/passage to the endpoint")
    batch_size: int = Field(16, ge=1, le=512, description="passages in one request or one run of the model")
    timeout: float = Field(3.0, gt=0, le=120, description="seconds for one query")
    batch_timeout: float = Field(120.0, gt=0, le=3600, description="seconds for one batch of passages")
    threads: int = Field(2, ge=1, le=64, description="of the packaged e5 engine")
    query_cache: int = Field(256, ge=0, le=100_000, description="query vectors kept in memory")
    calibration: str = Field("data/calibration.json", description="saved distance scales, by profile")


class RerankSettings(_Part):
    enabled: bool = Field(False, description="order the first candidates by a cross-encoder behind rerank.url")
    url: str = Field("", description="the endpoint in full: http://host:port/rerank or …/v1/rerank")
    model: str = Field("", description="the name that the endpoint knows its model by")
    dialect: Literal["standard", "tei"] = Field("standard", description="standard (Jina, Cohere, vLLM) or tei")
    api_key: SecretStr = Field(SecretStr(""), description="of the endpoint; a secret")
    top_n: int = Field(20, ge=1, le=200, description="candidates given to the reranker; those beyond drop out")
    timeout: float = Field(2.0, gt=0, le=60, description="seconds; then the fusion order stays")

    @model_validator(mode="after")
    def _needs_url(self) -> RerankSettings:
        if self.enabled and not self.url.startswith(("http://", "https://")):
            raise ValueError("rerank.enabled needs rerank.url, an http(s) address")
        return self


class SearchSettings(_Part):
    mode: Mode = Field(Mode.HYBRID, description="hybrid (production) or dense (comparison, troubleshooting)")


class HybridSettings(_Part):
    rrf_k: int = Field(60, ge=1, le=10_000, description="k of reciprocal rank fusion: w / (k + rank)")
    fusion: Fusion = Field(Fusion.CLIENT, description="client (fused here) or server (Milvus's own RRF); one order")
    dense_weight: float = Field(1.0, ge=0, le=100, description="weight of the dense branch in the fusion")
    bm25_weight: float = Field(1.0, ge=0, le=100, description="weight of the BM25 branch in the fusion")
    rank_window_size: int | None = Field(
        None, ge=1, le=1000, description="fused candidates kept; empty: rag.retrieve_k"
    )

    @model_validator(mode="after")
    def _weights(self) -> HybridSettings:
        if self.dense_weight == 0 and self.bm25_weight == 0:
            raise ValueError("dense_weight and bm25_weight cannot both be 0")
        if self.fusion is Fusion.SERVER and self.dense_weight != self.bm25_weight:
            raise ValueError("the server's RRF has equal weights only: set both alike or fusion = 'client'")
        return self


class RetrievalSettings(_Part):
    search: SearchSettings = SearchSettings()
    hybrid: HybridSettings = HybridSettings()
    kb_scope: str | tuple[str, ...] = Field("", description="'' is default; '*' is all, explicitly; or a list of names")
    branch_timeout: float = Field(2.0, gt=0, le=60, description="seconds for one branch's search")
    warming_timeout: float = Field(30.0, gt=0, le=600, description="the same while the collection is cold")
    lookup_timeout: float = Field(8.0, gt=0, le=600, description="seconds for a whole lookup")


class RagSettings(_Part):
    retrieve_k: int = Field(20, ge=1, le=200, description="hits asked of each branch")
    return_n: int = Field(5, ge=1, le=100, description="pieces of evidence")
    max_chunks_per_document: int = Field(2, ge=1, le=100, description="pieces of evidence from one document")


class QualitySettings(_Part):
    """Null: the value of the embedding profile."""

    min_distance: float | None = Field(None, ge=0, le=4, description="squared L2 at which quality is 1")
    max_distance: float | None = Field(None, gt=0, le=4, description="squared L2 at which quality is 0")
    precise_threshold: float | None = Field(
        None, ge=0, le=1, description="quality from which a lookup is PRECISE; higher is stricter"
    )
    reference_threshold: float | None = Field(
        None, ge=0, le=1, description="quality from which a lookup is REFERENCE; higher is stricter"
    )
    bm25_only: Literal["dense_exact", "lexical", "rank"] = Field(
        "dense_exact", description="basis for a hit that only BM25 found; 'rank' disarms the gate"
    )

    @model_validator(mode="after")
    def _order(self) -> QualitySettings:
        if self.min_distance is not None and self.max_distance is not None and self.min_distance >= self.max_distance:
            raise ValueError("min_distance must be below max_distance")
        if (
            self.precise_threshold is not None
            and self.reference_threshold is not None
            and self.precise_threshold < self.reference_threshold
        ):
            raise ValueError("precise_threshold must not be below reference_threshold")
        return self


class PackSettings(_Part):
    char_budget: int = Field(4000, ge=1, le=1_000_000, description="characters of the packed text, separators included")


class ProjectionSettings(_Part):
    max_query_chars: int = Field(500, ge=1, le=8000, description="of the query as the agent gets it back")
    max_excerpt_chars: int = Field(1200, ge=1, le=100_000, description="of one excerpt")
    max_evidence: int = Field(8, ge=1, le=100, description="pieces of evidence for the agent")
    max_bytes: int = Field(16_384, ge=256, le=4_194_304, description="of the whole answer as UTF-8 JSON")


class AuditSettings(_Part):
    content: Literal["redacted", "full", "none"] = Field(
        "redacted", description="redacted: hashes and lengths; full: raw and agent result too; none: neither"
    )
    outbox: str = Field("data/outbox", description="folder of records that wait for the database")
    timeout: float = Field(0.05, gt=0, le=60, description="seconds the database may take before the outbox serves")
    hmac_key: SecretStr = Field(SecretStr(""), description="keys the chain of records; a secret, kept elsewhere")
    console_queries: bool = Field(True, description="keep the text of console lookups (history, replay, promotion)")
    console_query_days: int = Field(30, ge=1, le=3650, description="days that such a text is kept")
    timezone: str = Field("UTC", description="in which pages show times, by IANA name")

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as exc:
            raise ValueError("no time zone of this name; give an IANA name such as UTC or Asia/Shanghai") from exc
        return value


class KnowledgeSettings(_Part):
    source: str = Field("knowledge_base", description="folder of markdown files; never written to")
    uploads: str = Field("data/uploads", description="second folder, for documents added by command or page")
    shipped_vectors: str = Field(
        "knowledge_base/.vectors", description="folder of vectors imported into an empty cache"
    )
    chunk_target: int = Field(800, ge=100, le=10_000, description="characters that a chunk aims at")
    chunk_max: int = Field(1200, ge=200, le=20_000, description="characters that no chunk exceeds")
    min_document_ratio: float = Field(
        0.5, ge=0, le=1, description="a rebuild below this share of the old documents is refused"
    )
    golden_gate: bool = Field(
        False, description="before a switch: the new generation must pass each reviewed case that the old one passes"
    )
    lease_seconds: float = Field(
        30.0, ge=2, le=3600, description="a rebuild whose holder is silent for so long is taken over"
    )
    drop_after_seconds: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="an older generation is dropped when it has not served for so long; at least as long as a lookup "
        "may take, or 0 for at once",
    )

    @model_validator(mode="after")
    def _sizes(self) -> KnowledgeSettings:
        if self.chunk_target > self.chunk_max:
            raise ValueError("chunk_target must not exceed chunk_max")
        return self


class AuthSettings(_Part):
    mode: Literal["local", "header"] = Field(
        "local", description="local: whoever reaches the loopback console; header: a proxy names the user"
    )
    user_header: str = Field("X-Forwarded-User", description="with mode = header: set by the proxy, and only by it")
    operators: tuple[str, ...] = Field(
        (), description="with mode = header: who may rebuild, roll back, accept a baseline"
    )
    viewers: tuple[str, ...] = Field((), description="with mode = header: who may look; empty: every named user")


class EvaluationSettings(_Part):
    folder: str = Field(
        "eval/rag-retrieval", description="of cases/, fixtures/, seed-docs/ and reports/; baselines stand in reports/"
    )
    collection: str = Field(
        "biz_eval", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$", description="alias of the evaluation's own index"
    )
    max_drop: float = Field(0.4, ge=0, le=1, description="how far one reviewed case may fall before the gate closes")
    depth: int = Field(100, ge=1, le=1000, description="of the branches that a snapshot probes beside the lookup")
    rebuild_gate: str = Field(
        "eval/smoke", description="folder of the golden cases over knowledge.source that knowledge.golden_gate asks"
    )


class TelemetrySettings(_Part):
    endpoint: str = Field("", description="OTLP/HTTP endpoint; empty: off")
    sample_rate: float = Field(1.0, ge=0, le=1, description="share of lookups that are exported")
    content: bool = Field(False, description="also export query and evidence text")


class Settings(_Part):
    milvus: MilvusSettings = MilvusSettings()
    database: DatabaseSettings = DatabaseSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    rerank: RerankSettings = RerankSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    rag: RagSettings = RagSettings()
    quality: QualitySettings = QualitySettings()
    pack: PackSettings = PackSettings()
    projection: ProjectionSettings = ProjectionSettings()
    audit: AuditSettings = AuditSettings()
    knowledge: KnowledgeSettings = KnowledgeSettings()
    auth: AuthSettings = AuthSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    root: Path = Field(ROOT, exclude=True)

    @model_validator(mode="after")
    def _grace(self) -> Settings:
        grace, longest = (
            self.knowledge.drop_after_seconds,
            max(self.retrieval.lookup_timeout, self.retrieval.warming_timeout),
        )
        if 0 < grace < longest:
            raise ValueError(
                f"knowledge.drop_after_seconds is {grace:g}, but a lookup may hold a generation for {longest:g} s "
                "(retrieval.lookup_timeout, retrieval.warming_timeout): raise it, or set 0"
            )
        return self

    def path(self, value: str) -> Path:
        """``value`` as an absolute path, taken from the folder of ``settings.toml`` when relative."""
        return (self.root / Path(value).expanduser()).absolute()

    @property
    def rank_window(self) -> int:
        return self.retrieval.hybrid.rank_window_size or self.rag.retrieve_k

    def public(self) -> dict[str, Any]:
        """Every effective value as JSON data, secrets left out."""
        data = self.model_dump(mode="json")
        for section, key in (
            ("milvus", "token"),
            ("embedding", "api_key"),
            ("rerank", "api_key"),
            ("audit", "hmac_key"),
            ("database", "password"),
        ):
            data[section].pop(key, None)
        data["database"]["url"] = redact_url(self.database.url.get_secret_value())
        return data

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the canonical JSON of ``public()``: the identity of the settings a record was made with."""
        text = json.dumps(self.public(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def secrets(self) -> tuple[str, ...]:
        """Literal values that no message, log or record may hold."""
        values = (
            self.milvus.token,
            self.database.password,
            self.embedding.api_key,
            self.rerank.api_key,
            self.audit.hmac_key,
        )
        return tuple(v.get_secret_value() for v in values if v.get_secret_value())


def redact_url(url: str) -> str:
    """``url`` without its password; host and database name remain for diagnosis."""
    return redact(url)


def load(path: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings from ``path``, else the file that ``RAG_SETTINGS`` names, else ``settings.toml`` (missing: the defaults),
    then ``RAG__…``, then ``overrides`` (sections as dicts).

    Raises InvalidSettings naming the key, the offending value (never a secret) and what is allowed.
    """
    environ = os.environ if environ is None else environ
    named = path or environ.get("RAG_SETTINGS")
    file = Path(named or ROOT / "settings.toml")
    data: dict[str, Any] = {}
    if file.exists():
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise InvalidSettings(f"{file.name}: not valid TOML ({redact(exc)}); mend the file") from exc
        except OSError as exc:
            raise InvalidSettings(f"{file}: cannot be read ({exc.strerror}); name a file that can") from exc
    elif named:
        raise InvalidSettings(f"{file}: no such settings file; name an existing one or leave it out")
    for name in sorted(environ):
        if name.startswith(PREFIX):
            _put(data, name, environ[name])
    for section, values in overrides.items():
        data[section] = {**data.get(section, {}), **values} if isinstance(values, Mapping) else values
    data.pop("root", None)
    try:
        return Settings(**data, root=file.resolve().parent if file.exists() else ROOT)
    except ValidationError as exc:
        raise InvalidSettings(_explain(exc)) from None


def _put(data: dict[str, Any], name: str, value: str) -> None:
    keys = [part.lower() for part in name[len(PREFIX) :].split("__")]
    if len(keys) < 2 or not all(keys):
        raise InvalidSettings(f"{name}: write it as RAG__SECTION__KEY, for example RAG__RETRIEVAL__SEARCH__MODE=dense")
    node = data
    for key in keys[:-1]:
        child = node.setdefault(key, {})
        if not isinstance(child, dict):
            raise InvalidSettings(f"{name}: {'.'.join(keys[:-1])} is a value, not a section")
        node = child
    node[keys[-1]] = _parse(value)


def _parse(value: str) -> Any:
    """Lists and null may be given as JSON; all else is text that the field's type reads."""
    text = value.strip()
    if text in {"null", "none", "None"}:
        return None
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return value
    return value


_SECRET_KEYS = {"token", "password", "api_key", "hmac_key", "url"}


def _explain(exc: ValidationError) -> str:
    """The first error as one line: key, value, what is allowed, and how many more there are."""
    errors = exc.errors(include_url=False)
    first = errors[0]
    keys = [str(part) for part in first["loc"]]
    name = ".".join(keys)
    if first["type"] == "extra_forbidden":
        section: Any = Settings
        for key in keys[:-1]:
            field = section.model_fields.get(key) if hasattr(section, "model_fields") else None
            section = field.annotation if field else None
        allowed = sorted(k for k in getattr(section, "model_fields", {}) if k != "root")
        text = f"{name}: no such setting; allowed here: {', '.join(allowed)}"
    else:
        secret = not keys or keys[-1] in _SECRET_KEYS or isinstance(first["input"], dict)
        shown = "" if secret else f" (got {first['input']!r})"
        text = (f"{name}: " if name else "") + first["msg"].removeprefix("Value error, ") + shown
        hint = _description(keys)
        text += f"; {hint}" if hint else ""
    more = len(errors) - 1
    return redact(text + (f" [and {more} more]" if more else ""))


def _description(keys: list[str]) -> str:
    section: Any = Settings
    field = None
    for key in keys:
        field = getattr(section, "model_fields", {}).get(key)
        if field is None:
            return ""
        section = field.annotation
    return (field.description or "") if field else ""


def describe() -> str:
    """The reference of every key as Markdown: name, default, meaning. ``docs/SETTINGS.md`` is this text."""
    lines = [
        "# Settings",
        "",
        "`settings.toml` beside `app.py`; every key may be given as `RAG__SECTION__KEY`, with `__` for each dot:",
        "`RAG__RETRIEVAL__SEARCH__MODE=dense`. A wrong key or value stops the start with its name and what is allowed.",
        "",
        "| key | default | meaning |",
        "|---|---|---|",
    ]
    _describe(Settings, "", lines)
    return "\n".join(lines)


def _describe(section: Any, prefix: str, lines: list[str]) -> None:
    for name, field in section.model_fields.items():
        if name == "root":
            continue
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            _describe(field.annotation, f"{prefix}{name}.", lines)
            continue
        default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
        shown = "" if default in (None, "", ()) else f"`{getattr(default, 'value', default)}`"
        lines.append(f"| `{prefix}{name}` | {shown} | {(field.description or '').replace('|', '/')} |")
