"""Where real parts meet: settings → adapters → services. The only module that knows the adapters.

Nothing here contacts a store or loads a model, except the schema of the database, which is brought up to date at once
when the database can be reached.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from core.adapters import milvus_server
from core.adapters.embedders import E5Embedder, EndpointEmbedder, UseEmbedder
from core.adapters.milvus import MilvusIndex
from core.adapters.rerank import EndpointReranker
from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.audit_log import SqlAuditLog
from core.adapters.sql.embeddings import SqlEmbeddingCache
from core.adapters.sql.engine import Database, connect
from core.adapters.sql.evals import SqlEvals
from core.adapters.sql.generations import SqlGenerations
from core.adapters.sql.queries import SqlConsoleQueries
from core.adapters.sql.runs import SqlRuns
from core.adapters.sql.schema import upgrade
from core.adapters.sql.search_texts import SqlSearchTexts
from core.adapters.sql.snapshots import SqlSettingsSnapshots
from core.adapters.sql.traces import SqlTraces
from core.adapters.sql.urls import DatabaseParts
from core.adapters.telemetry import TelemetrySink
from core.analysis import ANALYSIS_VERSION
from core.audit.sink import SqlAuditSink
from core.clock import SystemClock
from core.documents import Documents, Restored
from core.errors import InvalidSettings, RagError, Unavailable, redact
from core.evaluation.calibration_file import CalibrationFile
from core.evaluation.desk import EvaluationDesk, LiveEvaluation
from core.knowledge.l0 import DocumentL0
from core.knowledge.rebuild import RebuildService
from core.knowledge.snapshots import Snapshots
from core.lookup import LookupService
from core.ports import AuditSink, Embedder, Reranker
from core.replay import Replayer
from core.settings import Settings
from core.stores import StoredTrace

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class App:
    """Everything a page or a command works with. Build it by ``build``; ``close`` it at the end."""

    settings: Settings
    database: Database
    index: MilvusIndex
    embedder: Embedder
    reranker: Reranker | None
    generations: SqlGenerations
    cache: SqlEmbeddingCache
    runs: SqlRuns
    traces: SqlTraces
    history: SqlConsoleQueries
    settings_snapshots: SqlSettingsSnapshots
    evaluations: SqlEvals
    ledger: SqlLedger
    audit: SqlAuditSink
    audit_log: SqlAuditLog
    snapshots: Snapshots
    lookup: LookupService
    rebuild: RebuildService
    documents: Documents
    replayer: Replayer
    problems: tuple[str, ...] = ()
    _closing: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def alias(self) -> str:
        return self.settings.milvus.collection

    def restored(self, stored: StoredTrace) -> Restored:
        """See ``Documents.restored``."""
        return self.documents.restored(stored)

    def start(self) -> None:
        """What a long-running process does beside its first page: finishes or discards what a crash left, delivers
        waiting records, warms model and collection. In the background; a failure is logged and shows in ``doctor``."""
        threading.Thread(target=self._start, name="start", daemon=True).start()

    def close(self) -> None:
        """Idempotent. Local Milvus servers go on and end by themselves when idle."""
        while self._closing:
            try:
                self._closing.pop()()
            except Exception as exc:  # noqa: BLE001 - the rest must still be closed
                log.warning("closing: %s", redact(exc, self.settings.secrets()))

    def _start(self) -> None:
        work: dict[str, Callable[[], object]] = {
            "recovery": self.rebuild.recover,
            "warming": self.lookup.warm,
            "old console questions": self._forget_questions,
        }
        for name, step in work.items():
            try:
                step()
            except RagError as exc:
                log.warning("%s: %s", name, redact(exc, self.settings.secrets()))

    def _forget_questions(self) -> int:
        """Console questions live for ``audit.console_query_days``."""
        return self.history.prune(days=self.settings.audit.console_query_days, now=SystemClock().now())


def build(settings: Settings) -> App:
    """The application over the stores and models that ``settings`` name. Raises InvalidSettings for what cannot be
    meant; stores that are away are found later, by whoever needs them."""
    closing: list[Callable[[], None]] = []
    secrets = settings.secrets()
    database = open_database(settings)
    closing.append(database.close)
    problems: list[str] = []
    try:
        upgrade(database)
    except Unavailable as exc:
        problems.append(f"database: {redact(exc, secrets)}")
    index = open_index(settings)
    closing.append(index.close)
    embedder, reranker = make_embedder(settings), make_reranker(settings)
    clock, alias = SystemClock(), settings.milvus.collection
    generations, runs, cache = SqlGenerations(database), SqlRuns(database), SqlEmbeddingCache(database)
    history, kept = SqlConsoleQueries(database), SqlSettingsSnapshots(database)
    ledger = SqlLedger(database, key=settings.audit.hmac_key.get_secret_value())
    audit = SqlAuditSink(
        ledger,
        settings.path(settings.audit.outbox),
        content=settings.audit.content,
        secrets=secrets,
        console_queries=settings.audit.console_queries,
    )
    closing.append(audit.close)
    recorder: AuditSink = audit
    if settings.telemetry.endpoint:
        telemetry = TelemetrySink(audit, settings.telemetry)
        closing.append(telemetry.close)
        recorder = telemetry
    snapshots = Snapshots(generations, index, alias, DocumentL0, lambda: (embedder.profile, ANALYSIS_VERSION))
    lookup = LookupService(
        index=index,
        embedder=embedder,
        reranker=reranker,
        snapshots=snapshots,
        audit=recorder,
        clock=clock,
        settings=settings,
    )
    closing.append(lookup.close)
    gate = None
    if settings.knowledge.golden_gate:
        gate = LiveEvaluation(
            EvaluationDesk(settings.path(settings.evaluation.rebuild_gate)),
            alias=alias,
            lookups=lookup,
            index=index,
            embedder=embedder,
            snapshots=snapshots,
            generations=generations,
        ).failing
    rebuild = RebuildService(
        alias=alias,
        settings=settings,
        generations=generations,
        runs=runs,
        cache=cache,
        search_texts=SqlSearchTexts(database),
        admin=index,
        index=index,
        embedder=embedder,
        snapshots=snapshots,
        clock=clock,
        gate=gate,
    )
    documents = Documents(generations, generations, alias)
    return App(
        settings=settings,
        database=database,
        index=index,
        embedder=embedder,
        reranker=reranker,
        generations=generations,
        cache=cache,
        runs=runs,
        traces=SqlTraces(database, content=settings.audit.content, secrets=secrets),
        history=history,
        settings_snapshots=kept,
        evaluations=SqlEvals(database),
        ledger=ledger,
        audit=audit,
        audit_log=SqlAuditLog(database),
        snapshots=snapshots,
        lookup=lookup,
        rebuild=rebuild,
        documents=documents,
        replayer=Replayer(lookup, history, kept, documents, settings.public()),
        problems=tuple(problems),
        _closing=closing,
    )


def evaluation_settings(settings: Settings) -> Settings:
    """The same stores and models, but the evaluation's own alias over its seed documents; production scopes and L0
    never meet them."""
    folder = settings.path(settings.evaluation.folder)
    return settings.model_copy(
        update={
            "milvus": settings.milvus.model_copy(update={"collection": settings.evaluation.collection}),
            "knowledge": settings.knowledge.model_copy(
                update={
                    "source": str(folder / "seed-docs"),
                    "uploads": str(folder / ".uploads"),
                    "shipped_vectors": str(folder / ".vectors"),
                }
            ),
        }
    )


def evaluation_desk(settings: Settings) -> EvaluationDesk:
    """The offline half of the evaluation: files only."""
    return EvaluationDesk(settings.path(settings.evaluation.folder), max_drop=settings.evaluation.max_drop)


def build_evaluation(settings: Settings) -> tuple[App, EvaluationDesk, LiveEvaluation]:
    """The application over the evaluation's own index, and both halves of the evaluation. ``close`` the application."""
    desk, app = evaluation_desk(settings), build(evaluation_settings(settings))
    live = LiveEvaluation(
        desk,
        alias=app.alias,
        lookups=app.lookup,
        index=app.index,
        embedder=app.embedder,
        snapshots=app.snapshots,
        generations=app.generations,
        demands=lambda: app.rebuild.drift().demands,
    )
    return app, desk, live


def open_database(settings: Settings) -> Database:
    """Not contacted before its first use. Relative SQLite files are taken from the folder of ``settings.toml``."""
    given = settings.database
    if given.host:
        where: str | DatabaseParts = DatabaseParts(
            given.host, given.name, given.user, given.password.get_secret_value(), given.port
        )
    else:
        where = given.url.get_secret_value()
        head, slashes, file = where.partition(":///")
        if head.partition("+")[0] == "sqlite" and slashes and file and not file.startswith(("/", ":memory:")):
            where = f"{head}:///{settings.path(file)}"
    return connect(where, connect_timeout=given.connect_timeout, secrets=settings.secrets())


def open_index(settings: Settings) -> MilvusIndex:
    given = settings.milvus
    return MilvusIndex(
        str(settings.path(given.uri)) if is_local(settings) else given.uri,
        given.token.get_secret_value(),
        connect_timeout=given.connect_timeout,
        idle_seconds=given.idle_seconds,
        secrets=settings.secrets(),
    )


def make_embedder(settings: Settings) -> Embedder:
    """The embedder that ``embedding.provider`` names, with its saved calibration. Loads nothing yet."""
    given = settings.embedding
    made: Any
    if given.provider == "openai":
        if not given.base_url.startswith(("http://", "https://")) or not given.model:
            raise InvalidSettings("embedding.base_url and embedding.model: both are needed with provider openai")
        made = EndpointEmbedder(
            given.base_url,
            given.model,
            api_key=given.api_key.get_secret_value(),
            dimension=given.dimension,
            query_prefix=given.query_prefix,
            passage_prefix=given.passage_prefix,
            send_input_type=given.send_input_type,
            batch_size=given.batch_size,
        )
        known = given.dimension > 0
    else:
        made = _PACKAGED[given.provider](threads=given.threads)
        known = True
    if known:  # an endpoint whose dimension has to be asked for is calibrated when it has answered
        saved = CalibrationFile(settings.path(given.calibration)).get(made.profile.profile_id)
        if saved is not None:
            made.recalibrated(saved.applied_to(made.profile))
    embedder: Embedder = made
    return embedder


_PACKAGED: Final[dict[str, Callable[..., Any]]] = {"e5": E5Embedder, "use": UseEmbedder}


def make_reranker(settings: Settings) -> Reranker | None:
    given = settings.rerank
    if not given.enabled:
        return None
    return EndpointReranker(given.url, given.model, api_key=given.api_key.get_secret_value(), dialect=given.dialect)


# --------------------------------------------------------------------------------------------- the local server


def is_local(settings: Settings) -> bool:
    """Whether ``milvus.uri`` is a Milvus Lite file, served by a process of this machine."""
    return settings.milvus.uri.endswith(".db") and "://" not in settings.milvus.uri


@dataclass(frozen=True, slots=True)
class LocalServer:
    """The one server of a Milvus Lite file."""

    path: Path
    idle_seconds: float

    def ensure(self) -> str:
        """Its address; started when it does not run."""
        return milvus_server.ensure(self.path, self.idle_seconds)

    def status(self) -> milvus_server.ServerStatus:
        return milvus_server.status(self.path)

    def stop(self) -> bool:
        """False when none was running."""
        return milvus_server.stop(self.path)


def local_server(settings: Settings) -> LocalServer:
    """Raises InvalidSettings when ``milvus.uri`` is a cluster, which is not ours to start or stop."""
    if not is_local(settings):
        raise InvalidSettings(
            f"milvus.uri: {redact(settings.milvus.uri)} is a server of its own; there is none to serve here"
        )
    return LocalServer(settings.path(settings.milvus.uri), settings.milvus.idle_seconds)
