"""``core.ports.GenerationStore``: generations, their documents and chunks, the revisions of all times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import IntegrityError

from core.adapters.sql.engine import Database
from core.adapters.sql.rows import add_new, batches, cut, fetch, key_hash, put
from core.adapters.sql.tables import CHUNK, DOCUMENT, GENERATION, REVISION
from core.codec import from_json, to_json
from core.errors import CheckFailed, NotFound
from core.model import Document, EmbeddingProfile, Generation, GenerationState
from core.ports import StoredChunk

_COLUMNS: Final = (
    "collection",
    "analysis_version",
    "chunking_version",
    "corpus_snapshot",
    "documents",
    "chunks",
    "built_at",
    "activated_at",
    "built_by",
    "fingerprint",
)
_JSON: Final = ("index_params", "search_params", "profile")
_TRIES: Final = 5


class SqlGenerations:
    def __init__(self, database: Database) -> None:
        self._db = database

    # ---------------------------------------------------------------------------------------- generations

    def active(self, alias: str) -> Generation | None:
        row = self._db.read(lambda c: c.execute(select(GENERATION).where(GENERATION.c.active_alias == alias)).first())
        return _generation(row) if row else None

    def active_number(self, alias: str) -> int | None:
        query = select(GENERATION.c.number).where(GENERATION.c.active_alias == alias)
        return self._db.read(lambda c: c.execute(query).scalar_one_or_none())

    def get(self, alias: str, number: int) -> Generation | None:
        row = self._db.read(lambda c: _row(c, alias, number))
        return _generation(row) if row else None

    def all(self, alias: str) -> list[Generation]:
        """Newest first."""
        query = select(GENERATION).where(GENERATION.c.alias == alias).order_by(GENERATION.c.number.desc())
        return [_generation(row) for row in self._db.read(lambda c: c.execute(query).all())]

    def facts(self, alias: str, number: int) -> dict[str, Any]:
        """What was recorded of a generation beside its own fields (reasons, measurements)."""
        row = self._db.read(lambda c: _row(c, alias, number))
        return dict(json.loads(row.facts)) if row else {}

    def plan(self, generation: Generation) -> Generation:
        """PLANNED, numbered (largest ever + 1), its collection named ``{alias}_g{number}``."""

        def work(connection: Connection) -> Generation:
            largest = select(func.max(GENERATION.c.number)).where(GENERATION.c.alias == generation.alias)
            number = (connection.execute(largest).scalar_one_or_none() or 0) + 1
            now = self._db.now(connection)
            row: dict[str, Any] = {name: getattr(generation, name) for name in _COLUMNS}
            row |= {name: to_json(getattr(generation, name)) for name in _JSON}
            row |= {
                "alias": generation.alias,
                "number": number,
                "collection": f"{generation.alias}_g{number}",
                "state": GenerationState.PLANNED.value,
                "facts": "{}",
                "created_at": now,
                "changed_at": now,
            }
            connection.execute(GENERATION.insert().values(row))
            return _generation(_need(connection, generation.alias, number))

        for _ in range(_TRIES):  # on a server two planners may read the same largest number
            try:
                return self._db.write(work)
            except CheckFailed as exc:
                if not isinstance(exc.__cause__, IntegrityError):
                    raise
        raise CheckFailed(f"no generation number of {generation.alias!r} was free in {_TRIES} tries; try again")

    def set_state(self, alias: str, number: int, state: str, **facts: Any) -> Generation:
        """Only ``switch`` makes a generation ACTIVE (ValueError). Raises NotFound for an unknown number."""
        if GenerationState(state) is GenerationState.ACTIVE:
            raise ValueError("a generation becomes ACTIVE by switch()")

        def work(connection: Connection) -> Generation:
            row = _need(connection, alias, number)
            values: dict[str, Any] = {name: facts[name] for name in _COLUMNS if name in facts}
            values |= {name: to_json(facts[name]) for name in _JSON if name in facts}
            other = {name: value for name, value in facts.items() if name not in values}
            values |= {"state": state, "active_alias": None, "changed_at": self._db.now(connection)}
            values["facts"] = to_json({**json.loads(row.facts), **other})
            connection.execute(GENERATION.update().where(*_is(alias, number)).values(values))
            return _generation(_need(connection, alias, number))

        return self._db.write(work)

    def switch(self, alias: str, number: int) -> Generation:
        """Raises NotFound for an unknown number. Switching to the active one changes nothing."""

        def work(connection: Connection) -> Generation:
            row = _need(connection, alias, number)
            if row.active_alias == alias:
                return _generation(row)
            now = self._db.now(connection)
            retired = {"state": GenerationState.RETIRED.value, "active_alias": None, "changed_at": now}
            connection.execute(GENERATION.update().where(GENERATION.c.active_alias == alias).values(retired))
            moment = now.isoformat(timespec="microseconds")
            active = {"state": GenerationState.ACTIVE.value, "active_alias": alias, "activated_at": moment}
            connection.execute(GENERATION.update().where(*_is(alias, number)).values(active | {"changed_at": now}))
            return _generation(_need(connection, alias, number))

        return self._db.write(work)

    # ---------------------------------------------------------------------------------------- documents and chunks

    def documents(self, alias: str, number: int) -> list[Document]:
        """By document id."""
        query = select(DOCUMENT.c.document).where(DOCUMENT.c.alias == alias, DOCUMENT.c.generation == number)
        texts = self._db.read(lambda c: c.execute(query).scalars().all())
        return sorted((from_json(Document, text) for text in texts), key=lambda d: d.doc_id)

    def put_documents(self, alias: str, number: int, documents: Iterable[Document]) -> None:
        """Also raises the revisions that are remembered for all time."""
        for batch in batches(documents):
            rows = [_document_row(alias, number, document) for document in batch]
            self._db.write(partial(_put_documents, alias=alias, rows=rows))

    def put_chunks(self, alias: str, number: int, chunks: Iterable[StoredChunk]) -> None:
        for batch in batches(chunks):
            rows = [_chunk_row(alias, number, chunk) for chunk in batch]
            self._db.write(partial(put, table=CHUNK, rows=rows))

    def chunks(self, alias: str, number: int, doc_id: str | None = None) -> list[StoredChunk]:
        """By document, then in order of the text."""
        query = select(CHUNK).where(CHUNK.c.alias == alias, CHUNK.c.generation == number)
        if doc_id is not None:
            query = query.where(CHUNK.c.doc_hash == key_hash(doc_id))
        rows = self._db.read(lambda c: c.execute(query).all())
        return sorted(map(_chunk, rows), key=lambda chunk: (chunk.doc_id, chunk.chunk_index))

    def chunks_of(self, alias: str, number: int, doc_ids: Sequence[str]) -> dict[str, list[StoredChunk]]:
        found: dict[str, list[StoredChunk]] = {}
        for batch in batches(doc_ids):
            hashes = [key_hash(doc_id) for doc_id in batch]
            where = (CHUNK.c.alias == alias, CHUNK.c.generation == number, CHUNK.c.doc_hash.in_(hashes))
            query = select(CHUNK).where(*where).order_by(CHUNK.c.doc_hash, CHUNK.c.chunk_index)
            for row in self._db.read(partial(fetch, query=query)):
                found.setdefault(row.doc_id, []).append(_chunk(row))
        return found

    def chunk_pages(self, alias: str, number: int, size: int = 500) -> Iterator[list[StoredChunk]]:
        last = ""
        while True:
            where = (CHUNK.c.alias == alias, CHUNK.c.generation == number, CHUNK.c.key_hash > last)
            query = select(CHUNK).where(*where).order_by(CHUNK.c.key_hash).limit(size)
            rows = self._db.read(partial(fetch, query=query))
            if rows:
                yield [_chunk(row) for row in rows]
            if len(rows) < size:
                return
            last = rows[-1].key_hash

    def read_back(self, alias: str, number: int, keys: Sequence[str]) -> dict[str, StoredChunk]:
        """Chunks of a recorded generation by evidence key; what is no longer there is absent."""
        found: dict[str, StoredChunk] = {}
        for batch in batches(keys):
            hashes = [key_hash(key) for key in batch]
            where = (CHUNK.c.alias == alias, CHUNK.c.generation == number, CHUNK.c.key_hash.in_(hashes))
            rows = self._db.read(partial(fetch, query=select(CHUNK).where(*where)))
            found |= {row.evidence_key: _chunk(row) for row in rows}
        return found

    def revisions(self, alias: str) -> dict[str, tuple[int, str]]:
        query = select(REVISION.c.doc_id, REVISION.c.revision, REVISION.c.content_hash).where(REVISION.c.alias == alias)
        rows = self._db.read(lambda c: c.execute(query).all())
        return {doc_id: (revision, content_hash) for doc_id, revision, content_hash in rows}

    def discard(self, alias: str, number: int) -> None:
        """The generation's row and the revisions stay, as history. The active one is refused (CheckFailed)."""

        def work(connection: Connection) -> None:
            row = _row(connection, alias, number)
            if row is not None and row.active_alias is not None:
                raise CheckFailed(f"generation {number} of {alias!r} is active and cannot be discarded")
            for table in (CHUNK, DOCUMENT):
                connection.execute(table.delete().where(table.c.alias == alias, table.c.generation == number))

        self._db.write(work)

    def remember_revisions(self, alias: str, revisions: Mapping[str, tuple[int, str]]) -> None:
        """Adds revisions that are not known yet (from an import)."""
        rows = [
            {"alias": alias, "doc_hash": key_hash(d), "doc_id": cut(d, 1000), "revision": r, "content_hash": h}
            for d, (r, h) in revisions.items()
        ]
        for batch in batches(rows):
            self._db.write(partial(add_new, table=REVISION, rows=batch))


def _is(alias: str, number: int) -> tuple[Any, Any]:
    return GENERATION.c.alias == alias, GENERATION.c.number == number


def _row(connection: Connection, alias: str, number: int) -> Row[Any] | None:
    return connection.execute(select(GENERATION).where(*_is(alias, number))).first()


def _need(connection: Connection, alias: str, number: int) -> Row[Any]:
    row = _row(connection, alias, number)
    if row is None:
        raise NotFound(f"there is no generation {number} of {alias!r}; see the rebuild page or `doctor`")
    return row


def _generation(row: Row[Any]) -> Generation:
    plain = {name: getattr(row, name) for name in _COLUMNS}
    return Generation(
        number=row.number,
        alias=row.alias,
        state=GenerationState(row.state),
        profile=from_json(EmbeddingProfile, row.profile),
        index_params=json.loads(row.index_params),
        search_params=json.loads(row.search_params),
        **plain,
    )


def _put_documents(connection: Connection, alias: str, rows: Sequence[Mapping[str, Any]]) -> None:
    put(connection, DOCUMENT, rows)
    hashes = [row["doc_hash"] for row in rows]
    known = select(REVISION.c.doc_hash, REVISION.c.revision).where(
        REVISION.c.alias == alias, REVISION.c.doc_hash.in_(hashes)
    )
    highest = {row.doc_hash: row.revision for row in fetch(connection, known)}
    names = ("alias", "doc_hash", "doc_id", "revision", "content_hash")
    raised = [{name: row[name] for name in names} for row in rows if row["revision"] > highest.get(row["doc_hash"], -1)]
    put(connection, REVISION, raised)


def _document_row(alias: str, number: int, document: Document) -> dict[str, Any]:
    return {
        "alias": alias,
        "generation": number,
        "doc_hash": key_hash(document.doc_id),
        "doc_id": cut(document.doc_id, 1000),
        "source": cut(document.source, 1024),
        "title": cut(document.title, 1024),
        "category": cut(document.category, 64),
        "kb_scope": cut(document.kb_scope, 64),
        "revision": document.revision,
        "content_hash": document.content_hash,
        "chunk_count": document.chunk_count,
        "document": to_json(document),
    }


def _chunk_row(alias: str, number: int, chunk: StoredChunk) -> dict[str, Any]:
    return {
        "alias": alias,
        "generation": number,
        "key_hash": key_hash(chunk.evidence_key),
        "doc_hash": key_hash(chunk.doc_id),
        "evidence_key": cut(chunk.evidence_key, 1024),
        "doc_id": cut(chunk.doc_id, 1000),
        "chunk_index": chunk.chunk_index,
        "content_hash": chunk.content_hash,
        "revision": chunk.revision,
        "span_start": chunk.span_start,
        "span_end": chunk.span_end,
        "breadcrumb": chunk.breadcrumb,
        "content": chunk.content,
    }


def _chunk(row: Row[Any]) -> StoredChunk:
    return StoredChunk(
        generation=row.generation,
        evidence_key=row.evidence_key,
        doc_id=row.doc_id,
        chunk_index=row.chunk_index,
        content_hash=row.content_hash,
        revision=row.revision,
        span_start=row.span_start,
        span_end=row.span_end,
        breadcrumb=row.breadcrumb,
        content=row.content,
    )
