"""Database URLs, read carefully: a password with @, / or # must not move the host, and no message shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from core.errors import InvalidSettings, redact

HINT: Final = "write sqlite:///FILE or mysql+pymysql://user:password@host:3306/name"
ENCODE: Final = (
    "percent-encode @ / # ? : % in the password (@ is %40) or give database.host, user, password and name instead"
)
_DRIVERS: Final = {"mysql+pymysql": "pymysql", "sqlite+pysqlite": "sqlite3"}


@dataclass(frozen=True, slots=True)
class DatabaseParts:
    """A MySQL or MariaDB database by its parts; each is taken literally, nothing is percent-encoded."""

    host: str
    name: str
    user: str = ""
    password: str = ""
    port: int = 3306

    def __repr__(self) -> str:
        return f"DatabaseParts({self.user}@{self.host}:{self.port}/{self.name})"


def parse(url: str | DatabaseParts) -> URL:
    """A URL that this package can serve. Raises InvalidSettings whose message keeps host and name, not the password."""
    if isinstance(url, DatabaseParts):
        if not url.host or not url.name:
            raise InvalidSettings("database.host and database.name: both are needed when the parts are given")
        return URL.create("mysql+pymysql", url.user or None, url.password or None, url.host, url.port, url.name)
    shown = _shown(url)
    try:
        parsed = make_url(url)
        drivername = parsed.drivername
        port = parsed.port
    except (ArgumentError, ValueError) as exc:
        raise InvalidSettings(f"database.url: cannot be read ({shown}); {HINT}; {ENCODE}") from exc
    backend = drivername.partition("+")[0]
    if backend == "sqlite":
        return _sqlite(parsed, shown)
    if backend not in {"mysql", "mariadb"}:
        raise InvalidSettings(f"database.url: {backend} is not supported ({shown}); {HINT}")
    driver = drivername.partition("+")[2] or "pymysql"
    if driver != "pymysql":
        raise InvalidSettings(f"database.url: driver {driver} is not supported ({shown}); use mysql+pymysql://…")
    if find_spec("pymysql") is None:
        raise InvalidSettings(f"database.url: PyMySQL is not installed ({shown}); pip install PyMySQL")
    if not parsed.host or not parsed.database:
        raise InvalidSettings(f"database.url: host or database name is missing ({shown}); {HINT}")
    if re.search(r"[@#/\\]", parsed.database) or re.search(r"[@#/?\s]", parsed.host):
        raise InvalidSettings(f"database.url: host and name cannot be told apart ({shown}); {ENCODE}")
    return parsed.set(drivername="mysql+pymysql", port=port or 3306)


def _sqlite(parsed: URL, shown: str) -> URL:
    if parsed.host or not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise InvalidSettings(f"database.url: SQLite needs a file ({shown}); write sqlite:///FILE")
    return parsed.set(drivername="sqlite+pysqlite")


def _shown(url: str) -> str:
    """``url`` without any part of its password: everything from the first ``:`` after the user to the last ``@``. Of a
    text that is no URL only what stands before its first ``:``, since nobody knows what the rest is."""
    if "://" not in url and not re.match(r"(?i)sqlite", url):
        return f"{url.partition(':')[0][:40]}:…" if ":" in url else "no URL"
    return redact(re.sub(r"(?s)^([\w+.-]*:{0,2}//[^:@/]*):.*@", r"\1:***@", url))[:200]
