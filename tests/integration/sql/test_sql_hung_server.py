"""A server, or the proxy before it, that takes a connection and then says nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from core.adapters.sql import engine
from core.adapters.sql.engine import connect
from core.errors import StoreUnavailable


class Silent:
    """Accepts and keeps every connection; ``accepted`` counts them."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.accepted: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                self.accepted.append(self._socket.accept()[0])
        except OSError:
            return

    def close(self) -> None:
        self._socket.close()
        for connection in self.accepted:
            connection.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


def test_it_is_waited_for_once_and_spared_for_a_while(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    database = connect(f"mysql+pymysql://root:CANARY@127.0.0.1:{silent.port}/x", connect_timeout=1.0, read_timeout=60.0)
    try:
        for _ in range(3):  # the greeting has the time of a connection, not of a statement, and is not asked for again
            with pytest.raises(StoreUnavailable, match="takes connections and does not answer") as caught:
                database.read(lambda connection: connection.execute(sa.text("SELECT 1")).scalar_one())
            assert "CANARY" not in str(caught.value)
        assert len(silent.accepted) == 1
        monkeypatch.setattr(engine, "SPARED_SECONDS", 0.0)
        database._spared = None
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                database.write(lambda connection: connection.execute(sa.text("SELECT 1")))
        assert len(silent.accepted) == 3
    finally:
        database.close()
