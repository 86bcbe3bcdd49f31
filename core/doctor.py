"""What is up and what is down: every store, the model, the schema, the active index, and the mend of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from core.adapters.sql import schema
from core.bootstrap import App, build, is_local, local_server
from core.errors import RagError, redact
from core.model import Branch, Scopes, SearchFilter
from core.settings import Settings

SECONDS: Final = 10.0
_FIRST: Final = ("vector store", "database", "model")
_SAMPLE: Final = "connection timeout 连接超时"


@dataclass(frozen=True, slots=True)
class Finding:
    """One part: whether it serves, its state in words, and what to do when it does not (or should be looked at)."""

    part: str
    ok: bool
    state: str
    mend: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Every part, each tried for real and with a deadline; one that fails does not hide the others."""
    app = build(settings)
    try:
        parts: dict[str, Callable[[App], Finding]] = {
            "settings": _settings,
            "database": _database,
            "vector store": _milvus,
            "model": _model,
            "index": _index,
            "search": _search,
            "audit": _audit,
            "reranker": _reranker,
        }
        return _in_order([_tried(part, check, app) for part, check in parts.items()])
    finally:
        app.close()


def _in_order(findings: list[Finding]) -> list[Finding]:
    """A part that leans on another which is down is mended by mending that one: no rebuild helps a store that is away."""
    down = [f.part for f in findings if not f.ok and f.part in _FIRST]
    return [
        replace(f, mend=f"mend the {down[0]} first") if down and not f.ok and f.part in {"index", "search"} else f
        for f in findings
    ]


def _tried(part: str, check: Callable[[App], Finding], app: App) -> Finding:
    try:
        return check(app)
    except RagError as exc:
        return Finding(part, False, redact(exc, app.settings.secrets()), _MENDS.get(part, ""))
    except Exception as exc:  # noqa: BLE001 - a doctor reports what it meets
        return Finding(
            part, False, f"{type(exc).__name__}: {redact(exc, app.settings.secrets())}", _MENDS.get(part, "")
        )


_MENDS: Final = {
    "database": "start the server, correct database.url, or mend the rights of the file and its folder",
    "vector store": "start the cluster or correct milvus.uri; a local file is served by `python -m core serve`",
    "model": "install the packages again, or correct embedding.provider, base_url and model",
    "index": "python -m core rebuild --confirm REBUILD",
    "search": "python -m core rebuild --confirm REBUILD",
    "reranker": "start the endpoint of rerank.url, or set rerank.enabled = false",
}


def _settings(app: App) -> Finding:
    return Finding("settings", True, f"fingerprint {app.settings.fingerprint[:12]}, root {app.settings.root}")


def _database(app: App) -> Finding:
    found, wanted = schema.current(app.database), schema.newest()
    problems = schema.problems(app.database)
    state = f"{app.database.where}, schema {found or 'none'}"
    if found != wanted:
        return Finding(
            "database", False, f"{state}, {wanted} is needed", "start any command again: it upgrades the schema"
        )
    if problems:
        return Finding(
            "database", False, f"{state}; {'; '.join(problems)}", "mend what is named, or use another database"
        )
    damage = app.database.check(seconds=SECONDS)
    if damage is not None:
        return Finding(
            "database",
            False,
            f"{state}; its file is damaged: {damage}",
            "stop what uses it and put a copy back, or save what can be read with `sqlite3 FILE .recover`",
        )
    return Finding("database", True, state)


def _milvus(app: App) -> Finding:
    state = app.index.health(timeout=SECONDS)
    if is_local(app.settings):
        server = local_server(app.settings).status()
        state += f", local server pid {server.pid} on {server.uri}"
    broken = [
        f"{c.name}: {'; '.join(c.problems)}" for c in app.index.collections(app.alias, timeout=SECONDS) if c.problems
    ]
    if broken:
        return Finding("vector store", False, f"{state}; {', '.join(broken)}", _mend_of_broken(app))
    return Finding("vector store", True, state)


def _mend_of_broken(app: App) -> str:
    """A broken collection is replaced by a rebuild, as long as the store can still say which one serves."""
    try:
        app.index.alias_target(app.alias, timeout=SECONDS)
    except RagError:
        if is_local(app.settings):
            file = app.settings.milvus.uri
            return f"python -m core serve --stop; move {file} away; then rebuild: the vectors come from the cache"
        return "look at the server: it cannot read its own aliases"
    return "a rebuild makes a new collection; the next start drops leftovers"


def _model(app: App) -> Finding:
    profile = app.embedder.profile
    app.embedder.embed_query(_SAMPLE, timeout=SECONDS)
    scale = f"quality 1 at {profile.min_distance:.3g}, 0 at {profile.max_distance:.3g}"
    if profile.calibrated:
        return Finding("model", True, f"{profile.profile_id}, {scale}")
    return Finding(
        "model", True, f"{profile.profile_id}, uncalibrated ({scale})", "python -m core eval calibrate --save"
    )


def _index(app: App) -> Finding:
    snapshot = app.snapshots.current()
    generation = snapshot.generation
    held = app.index.count(generation, timeout=SECONDS)
    state = (
        f"generation {generation.number} in {generation.collection}, {generation.documents} documents, {held} chunks"
    )
    if held != generation.chunks:
        return Finding("index", False, f"{state}, {generation.chunks} were built", _MENDS["index"])
    if snapshot.degraded:
        return Finding("index", False, f"{state}; {snapshot.degraded}", _MENDS["database"])
    target = app.index.alias_target(app.alias, timeout=SECONDS)
    if target != generation.collection:  # lookups go by SQL: only others who use the alias are led elsewhere
        lags = f"{state}; alias {app.alias} still points at {target}"
        return Finding("index", True, lags, "start the console, or any rebuild: it repairs the alias")
    return Finding("index", True, state)


def _search(app: App) -> Finding:
    """Both branches on the active collection, for the words of a sample: an absent BM25 is found here."""
    from core.analysis import search_text

    generation = app.snapshots.current().generation
    everything = SearchFilter(Scopes(frozenset(), everything=True))
    vector = app.embedder.embed_query(_SAMPLE, timeout=SECONDS)
    dense = app.index.search_dense(generation, vector, everything, 1, timeout=SECONDS)
    bm25 = app.index.search_bm25(generation, search_text(_SAMPLE), everything, 1, timeout=SECONDS, with_vectors=False)
    took = f"{Branch.DENSE.value} {dense.ms:.0f} ms, {Branch.BM25.value} {bm25.ms:.0f} ms"
    return Finding("search", True, f"both branches answer: {took}")


def _audit(app: App) -> Finding:
    app.audit.check()
    waiting = app.audit.waiting()
    if waiting:
        return Finding(
            "audit",
            False,
            f"{waiting} records wait in the outbox",
            "they are delivered as soon as the database answers; start the console or any lookup",
        )
    return Finding("audit", True, f"nothing waits in the outbox, content {app.settings.audit.content}")


def _reranker(app: App) -> Finding:
    if app.reranker is None:
        return Finding("reranker", True, "off")
    app.reranker.rerank("ping", ["pong"], timeout=SECONDS)
    return Finding("reranker", True, app.reranker.model)
