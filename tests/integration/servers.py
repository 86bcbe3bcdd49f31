"""The MariaDB or MySQL server that tests use, or the reason why there is none."""

from __future__ import annotations

import os
from functools import lru_cache

import pytest
import sqlalchemy as sa

SERVER = os.environ.get("RAG_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1:3306").rstrip("/")
HINT = "no MariaDB or MySQL: apt-get install mariadb-server, start it, or set RAG_TEST_MARIADB_URL=mysql+pymysql://user@host:port"


@lru_cache(maxsize=1)
def _server() -> sa.Engine | None:
    engine = sa.create_engine(SERVER, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3})
    try:
        with engine.connect():
            return engine
    except sa.exc.OperationalError:
        return None


def server() -> sa.Engine:
    engine = _server()
    if engine is None:
        if os.environ.get("CI") == "true":
            pytest.fail(HINT)
        pytest.skip(HINT)
    return engine


def run_on_server(*statements: str) -> None:
    with server().connect() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
