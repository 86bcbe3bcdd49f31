"""A MariaDB of the test's own, which may be killed and started again: own folder, own port."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

HINT = "no mariadbd: apt-get install mariadb-server"
SECONDS = 60


def _binary(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/usr/local/mysql/bin")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(HINT)
        pytest.skip(HINT)
    return found


class PrivateServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._user = ["--user=root"] if os.geteuid() == 0 else []
        self._server: subprocess.Popen[bytes] | None = None
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self._port = taken.getsockname()[1]
        options = ["--no-defaults", *self._user, f"--datadir={folder}/data", "--skip-test-db"]
        subprocess.run(
            [_binary("mariadb-install-db"), *options, "--auth-root-authentication-method=normal"],
            check=True,
            capture_output=True,
            timeout=SECONDS * 2,
        )

    @property
    def url(self) -> str:
        return f"mysql+pymysql://root@127.0.0.1:{self._port}/console"

    def start(self) -> None:
        """Returns when it answers."""
        with open(self._folder / "server.log", "ab") as log:
            self._server = subprocess.Popen(
                [
                    _binary("mariadbd"),
                    "--no-defaults",
                    *self._user,
                    f"--datadir={self._folder}/data",
                    f"--socket={self._folder}/sock",
                    f"--pid-file={self._folder}/pid",
                    "--bind-address=127.0.0.1",
                    f"--port={self._port}",
                    "--innodb-buffer-pool-size=32M",
                ],
                stdout=log,
                stderr=log,
            )
        engine = sa.create_engine(self.url.rpartition("/")[0], isolation_level="AUTOCOMMIT")
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                with engine.connect() as connection:
                    connection.execute(sa.text("CREATE DATABASE IF NOT EXISTS console CHARACTER SET utf8mb4"))
                    break
            except sa.exc.OperationalError:
                if self._server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail((self._folder / "server.log").read_text(errors="replace")[-2000:])
                time.sleep(0.1)
        engine.dispose()

    def kill(self) -> None:
        """At once, as a crash."""
        if self._server is not None:
            self._server.send_signal(signal.SIGKILL)
            self._server.wait(SECONDS)
            self._server = None
