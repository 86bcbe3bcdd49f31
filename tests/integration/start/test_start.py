"""The composition root with real stores in a temporary folder: it opens without contacting what is away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.bootstrap import App, build, evaluation_settings, local_server, make_embedder
from core.errors import InvalidSettings
from core.settings import Settings, load
from core.stores import ConsoleQuery


def settings(folder: Path, **sections: object) -> Settings:
    return load(
        environ={},
        milvus={"uri": str(folder / "milvus.db")},
        database={"url": f"sqlite:///{folder}/console.sqlite3"},
        embedding={"provider": "use", "calibration": str(folder / "calibration.json")},
        audit={"outbox": str(folder / "outbox")},
        **sections,
    )


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    built = build(settings(tmp_path))
    yield built
    built.close()
    local_server(built.settings).stop()


def test_questions_older_than_their_days_are_forgotten_at_the_start(app: App) -> None:
    now = datetime.now(UTC)
    app.history.add(ConsoleQuery("old", "redis pool", now - timedelta(days=31)))
    app.history.add(ConsoleQuery("new", "kafka lag", now - timedelta(days=29)))
    app.start()
    end = time.monotonic() + 60
    while app.history.get("old") is not None and time.monotonic() < end:
        time.sleep(0.05)
    assert app.history.get("old") is None
    assert app.history.get("new") is not None


def test_nothing_of_a_store_is_contacted_by_building(tmp_path: Path) -> None:
    away = settings(tmp_path, rerank={"enabled": True, "url": "http://127.0.0.1:9/rerank"})
    away = away.model_copy(update={"milvus": away.milvus.model_copy(update={"uri": "http://127.0.0.1:9"})})
    built = build(away)
    assert built.problems == ()
    built.close()
    built.close()


def test_a_database_that_is_away_is_a_problem_and_no_failure(tmp_path: Path) -> None:
    away = load(
        environ={},
        milvus={"uri": str(tmp_path / "milvus.db")},
        database={"url": "mysql+pymysql://kb:CANARY-9@127.0.0.1:9/x"},
        audit={"outbox": str(tmp_path / "outbox")},
    )
    built = build(away)
    assert len(built.problems) == 1
    assert "CANARY-9" not in built.problems[0]
    built.close()


def test_the_evaluation_has_an_index_and_sources_of_its_own(tmp_path: Path) -> None:
    own = evaluation_settings(settings(tmp_path))
    assert own.milvus.collection == "biz_eval"
    assert own.knowledge.source.endswith("seed-docs")
    assert own.milvus.uri == settings(tmp_path).milvus.uri


def test_an_endpoint_without_address_or_model_is_refused_by_name() -> None:
    with pytest.raises(InvalidSettings, match=r"embedding\.base_url and embedding\.model"):
        make_embedder(load(environ={}, embedding={"provider": "openai"}))


def test_a_cluster_has_no_local_server() -> None:
    with pytest.raises(InvalidSettings, match="server of its own"):
        local_server(load(environ={}, milvus={"uri": "http://milvus.invalid:19530"}))
