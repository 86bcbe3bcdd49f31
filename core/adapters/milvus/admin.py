"""``core.ports.IndexAdmin`` over Milvus: building a generation, its alias, and what else lies in the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from core.adapters.milvus import schema
from core.adapters.milvus.connection import Connection, Deadline
from core.adapters.milvus.errors import Kind, kind_of, message_of
from core.adapters.milvus.loading import Collections, check, create_indexes, indexed_fields
from core.adapters.milvus.rows import entity_of
from core.errors import BadInput, CheckFailed, RagError, RebuildRefused, SchemaMismatch, StoreUnavailable, redact
from core.model import Generation, IndexRow
from core.ports import CollectionInfo
from core.store_limits import check_rows

BATCH: Final = 500  # rows a call: the rate is flat from 100 on, and a cluster takes at most 64 MB
_PAGE: Final = 5_000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_SAMPLE: Final = ("差动", "保护", "redis")
_OLDEST: Final = (2, 5)  # the first cluster with BM25


class MilvusAdmin:
    """The write side. Repeating any call after a failure is safe: rows are upserted by their evidence key."""

    def __init__(
        self,
        connection: Connection,
        collections: Collections,
        describe: Callable[[Generation], Mapping[str, str]],
    ) -> None:
        self._connection = connection
        self._collections = collections
        self._describe = describe

    def create(self, generation: Generation, *, timeout: float) -> None:
        """An empty collection, in one step and without indexes: ``seal`` builds those over all rows at once."""
        name = _checked(generation.collection)
        what = f"creating collection {name}"

        def create(client: Any, deadline: Deadline) -> None:
            if _exists(client, name, deadline):
                raise RebuildRefused(f"collection {name!r} exists already; plan another generation")
            client.create_collection(
                name,
                schema=schema.build(client, generation.profile.dimension),
                properties=dict(self._describe(generation)),
                consistency_level="Strong",
                timeout=deadline.left(what),
            )
            check(self._collections.describe(client, name, deadline), generation)

        self._connection.call(what, create, timeout=timeout)

    def insert(self, generation: Generation, rows: Sequence[IndexRow], *, timeout: float) -> None:
        """Upserts ``rows``; sizes and vectors are checked before the first is sent."""
        check_rows(rows, generation.profile.dimension)
        what = f"writing to {generation.collection}"

        def insert(client: Any, deadline: Deadline) -> None:
            for start in range(0, len(rows), BATCH):
                batch = [entity_of(row) for row in rows[start : start + BATCH]]
                client.upsert(generation.collection, batch, timeout=deadline.left(what))

        self._connection.call(what, insert, timeout=timeout)

    def seal(self, generation: Generation, *, timeout: float) -> None:
        """Flushes, builds every index over the whole, loads, and tries BM25 on a stored text.

        Raises SchemaMismatch when that text does not find itself: its analyzer is not the one that was asked for.
        """
        name = generation.collection
        what = f"sealing {name}"

        def seal(client: Any, deadline: Deadline) -> None:
            self._collections.forget(name)
            client.flush(name, timeout=deadline.left(what))
            present = indexed_fields(client, name, deadline)
            rows = int(client.get_collection_stats(name, timeout=deadline.left(what))["row_count"])
            wanted = schema.vector_index(generation.index_params, is_file=self._connection.is_file, rows=rows)
            indexes = schema.index_params(client, wanted)
            indexes[:] = [index for index in indexes if index.field_name not in present]
            create_indexes(client, name, indexes, deadline)
            self._collections.ready(client, generation, deadline)
            self._try_bm25(client, name, deadline)

        self._connection.call(what, seal, timeout=timeout)

    def ids(self, generation: Generation, *, timeout: float) -> frozenset[str]:
        """Every id of a sealed generation, read page by page."""
        what = f"listing {generation.collection}"

        def read(client: Any, deadline: Deadline) -> frozenset[str]:
            self._collections.ready(client, generation, deadline)
            pages = client.query_iterator(
                generation.collection, batch_size=_PAGE, filter="", output_fields=["id"], timeout=deadline.left(what)
            )
            found: set[str] = set()
            try:
                while page := pages.next():
                    found.update(str(row["id"]) for row in page)
                    deadline.left(what)
            finally:
                pages.close()
            return frozenset(found)

        return self._connection.call(what, read, timeout=timeout)[0]

    def count(self, generation: Generation, *, timeout: float) -> int:
        """``count(*)`` of a sealed generation, strongly consistent."""
        what = f"counting {generation.collection}"

        def read(client: Any, deadline: Deadline) -> int:
            self._collections.ready(client, generation, deadline)
            rows = client.query(
                generation.collection,
                filter="",
                output_fields=["count(*)"],
                consistency_level="Strong",
                timeout=deadline.left(what),
            )
            return int(rows[0]["count(*)"])

        return self._connection.call(what, read, timeout=timeout)[0]

    def set_index(self, generation: Generation, params: Mapping[str, Any], *, timeout: float) -> None:
        """Replaces the vector index by ``{"index_type": …, "nlist": …}``; the collection cannot serve meanwhile."""
        name = generation.collection
        what = f"building the index of {name}"
        wanted = schema.normalized(params)

        def replace(client: Any, deadline: Deadline) -> None:
            self._collections.forget(name)
            client.release_collection(name, timeout=deadline.left(what))
            if "vector" in indexed_fields(client, name, deadline):
                client.drop_index(name, schema.index_name("vector"), timeout=deadline.left(what))
            create_indexes(client, name, schema.index_params(client, wanted, only_vector=True), deadline)
            self._collections.ready(client, generation, deadline)

        self._connection.call(what, replace, timeout=timeout)

    def point_alias(self, alias: str, collection: str, *, timeout: float) -> None:
        """``alias`` names ``collection`` from now on. Raises CheckFailed when a collection bears the alias' name."""
        _checked(alias)
        what = f"pointing {alias} at {collection}"

        def point(client: Any, deadline: Deadline) -> None:
            target = _target(client, alias, deadline)
            if target == collection:
                return
            client.describe_collection(collection, timeout=deadline.left(what))  # missing: said before anything moves
            if target is not None:
                client.alter_alias(collection, alias, timeout=deadline.left(what))
            elif _exists(client, alias, deadline):
                raise CheckFailed(f"a collection is named {alias!r}, where the alias belongs; rename or drop it")
            else:
                client.create_alias(collection, alias, timeout=deadline.left(what))
            now = _target(client, alias, deadline)
            if now != collection:
                raise CheckFailed(f"alias {alias!r} names {now!r} after it was pointed at {collection!r}; try again")

        self._connection.call(what, point, timeout=timeout)

    def alias_target(self, alias: str, *, timeout: float) -> str | None:
        return self._connection.call(
            f"reading alias {alias}", lambda client, deadline: _target(client, alias, deadline), timeout=timeout
        )[0]

    def names(self, prefix: str, *, timeout: float) -> tuple[str, ...]:
        def read(client: Any, deadline: Deadline) -> tuple[str, ...]:
            return tuple(sorted(name for name in self._names(client, deadline) if name.startswith(prefix)))

        return self._connection.call("listing the collections", read, timeout=timeout)[0]

    def collections(self, prefix: str, *, timeout: float) -> tuple[CollectionInfo, ...]:
        """Every collection whose name begins with ``prefix``; one that cannot be read is there with its problem.

        ``rows`` is the store's statistic, good for display only.
        """
        what = "listing the collections"

        def read(client: Any, deadline: Deadline) -> tuple[CollectionInfo, ...]:
            names = sorted(name for name in self._names(client, deadline) if name.startswith(prefix))
            return tuple(self._info(client, name, deadline) for name in names)

        return self._connection.call(what, read, timeout=timeout)[0]

    def drop(self, collection: str, *, timeout: float) -> None:
        """Drops a collection by its own name; a missing one is fine. Raises CheckFailed for an alias or an aliased one:
        Milvus Lite would follow the alias and drop what serves."""
        what = f"dropping {collection}"

        def drop(client: Any, deadline: Deadline) -> None:
            if _target(client, collection, deadline) is not None:
                raise CheckFailed(f"{collection!r} is an alias; name the collection behind it to drop it")
            aliases = _aliases(client, collection, deadline)
            if aliases:
                raise CheckFailed(f"{collection!r} serves under {aliases[0]!r}; point the alias elsewhere first")
            client.drop_collection(collection, timeout=deadline.left(what))
            self._collections.forget(collection)

        self._connection.call(what, drop, timeout=timeout)

    def health(self, *, timeout: float) -> str:
        """Version, kind and BM25 in one line. Raises StoreUnavailable for a server without BM25."""
        what = "asking Milvus for its version"

        def ask(client: Any, deadline: Deadline) -> str:
            version = str(client.get_server_version(timeout=deadline.left(what)))
            if self._connection.is_file or "lite" in version:
                return f"Milvus Lite {version.removeprefix('milvus_lite-')} at {self._connection.where}, BM25 available"
            number = _VERSION.search(version)
            if number is None or (int(number[1]), int(number[2])) < _OLDEST:
                raise StoreUnavailable(
                    f"Milvus {version} at {self._connection.where} has no BM25; upgrade it to 2.5 or newer"
                )
            return f"Milvus {version} at {self._connection.where}, BM25 available{_tried(client, deadline)}"

        return self._connection.call(what, ask, timeout=timeout)[0]

    # ----------------------------------------------------------------------------------------- parts

    def _names(self, client: Any, deadline: Deadline) -> list[str]:
        try:
            return [str(name) for name in client.list_collections(timeout=deadline.left("listing the collections"))]
        except Exception as exc:
            root = Path(self._connection.where) / "collections"
            if kind_of(exc) is not Kind.FAILED or not self._connection.is_file or not root.is_dir():
                raise
            return [entry.name for entry in root.iterdir() if entry.is_dir()]  # one broken collection hides them all

    def _info(self, client: Any, name: str, deadline: Deadline) -> CollectionInfo:
        try:
            found = self._collections.describe(client, name, deadline)
            stats = client.get_collection_stats(name, timeout=deadline.left("reading statistics"))
            aliases = _aliases(client, name, deadline)
        except RagError:
            raise
        except Exception as exc:
            if kind_of(exc) not in {Kind.FAILED, Kind.MISSING}:
                raise
            reason = redact(message_of(exc), self._connection.secrets)[:200]
            problem = f"cannot be read ({reason}); drop it and rebuild"
            return CollectionInfo(name, None, (), {}, False, None, None, (problem,))
        return CollectionInfo(
            name=name,
            rows=int(stats["row_count"]),
            aliases=aliases,
            properties=found.properties,
            has_bm25=found.has_bm25,
            dimension=found.dimension,
            metric=found.metric,
            problems=found.problems(),
        )

    def _try_bm25(self, client: Any, name: str, deadline: Deadline) -> None:
        what = f"trying BM25 in {name}"
        rows = client.query(name, filter="", output_fields=["search_text"], limit=1, timeout=deadline.left(what))
        text = str(rows[0]["search_text"]) if rows else ""
        tokens = " ".join(text.split()[:8])
        if not tokens:
            return
        answer = client.search(name, data=[tokens], anns_field="sparse_vector", limit=1, timeout=deadline.left(what))
        if not answer[0]:
            raise SchemaMismatch(f"collection {name}: BM25 does not find a stored text by its own words; rebuild it")


def _tried(client: Any, deadline: Deadline) -> str:
    """Has the server's analyzer cut a sample sentence, where the server can."""
    what = "trying the analyzer"
    try:
        tokens = client.run_analyzer(" ".join(_SAMPLE), analyzer_params=schema.ANALYZER, timeout=deadline.left(what))
    except Exception as exc:
        if kind_of(exc) is Kind.FAILED:
            return ", analyzer not tried (the server cannot)"
        raise
    cut = tuple(str(getattr(token, "token", token)) for token in getattr(tokens, "tokens", tokens))
    if cut != _SAMPLE:
        raise SchemaMismatch(f"the server's standard analyzer cuts {_SAMPLE} into {cut}; BM25 would not match")
    return ", analyzer tried"


def _target(client: Any, alias: str, deadline: Deadline) -> str | None:
    try:
        return str(client.describe_alias(alias, timeout=deadline.left(f"reading alias {alias}"))["collection_name"])
    except Exception as exc:
        if kind_of(exc) is Kind.MISSING or "not found" in message_of(exc).lower():
            return None
        raise


def _aliases(client: Any, name: str, deadline: Deadline) -> tuple[str, ...]:
    answer = client.list_aliases(name, timeout=deadline.left(f"reading the aliases of {name}"))
    return tuple(sorted(str(alias) for alias in answer.get("aliases", ())))


def _exists(client: Any, name: str, deadline: Deadline) -> bool:
    """A collection or alias of that name, a broken one included."""
    try:
        client.describe_collection(name, timeout=deadline.left(f"reading collection {name}"))
    except Exception as exc:
        if kind_of(exc) is Kind.MISSING:
            return False
        if kind_of(exc) is not Kind.FAILED:
            raise
    return True


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name for a collection; use letters, digits and _, not beginning with a digit")
    return name
