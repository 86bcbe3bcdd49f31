import multiprocessing
import threading
import time
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa

from core.adapters.sql.engine import Database, connect
from core.adapters.sql.schema import upgrade
from core.adapters.sql.tables import SETTINGS
from core.adapters.sql.urls import DatabaseParts
from core.errors import InvalidSettings, StoreUnavailable
from tests.integration.servers import SERVER, run_on_server


def put(database: Database, fingerprint: str) -> None:
    database.write(
        lambda c: c.execute(
            SETTINGS.insert().values(fingerprint=fingerprint, settings="{}", created_at=database.now(c))
        )
    )


def count(database: Database) -> int:
    return database.read(lambda c: c.execute(sa.select(sa.func.count()).select_from(SETTINGS)).scalar_one())


def test_what_fails_in_the_middle_leaves_nothing(database: Database) -> None:
    def work(connection: sa.Connection) -> None:
        connection.execute(
            SETTINGS.insert().values(fingerprint="a", settings="{}", created_at=database.now(connection))
        )
        raise InvalidSettings("no")

    with pytest.raises(InvalidSettings):
        database.write(work)
    assert count(database) == 0


def test_case_80_a_reader_sees_what_another_process_wrote_since(database: Database, database_url: str) -> None:
    other = connect(database_url)
    assert count(database) == 0
    put(other, "a")
    assert count(database) == 1
    other.close()


def test_case_82_threads_write_while_others_read(database: Database) -> None:
    errors: list[Exception] = []
    done = threading.Event()

    def writes(name: int) -> None:
        try:
            for number in range(50):
                put(database, f"{name}-{number}")
        except Exception as exc:  # noqa: BLE001 - it is what the test looks for
            errors.append(exc)

    def reads() -> None:
        try:
            while not done.is_set():
                count(database)
        except Exception as exc:  # noqa: BLE001 - it is what the test looks for
            errors.append(exc)

    reader = threading.Thread(target=reads)
    writers = [threading.Thread(target=writes, args=(n,)) for n in range(8)]
    reader.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert errors == []
    assert count(database) == 8 * 50


def test_sqlite_serves_in_wal_mode_with_a_busy_wait(tmp_path: Path) -> None:
    database = connect(f"sqlite:///{tmp_path}/deep/er/console.sqlite3")
    pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    read = database.read(lambda c: [c.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in pragmas])
    assert read == ["wal", 1, 1, 5000]
    assert database.health().startswith("SQLite 3.")
    database.close()


def _first_use(url: str, at: float) -> str:
    database = connect(url)
    time.sleep(max(0.0, at - time.time()))  # all at one moment
    try:
        return database.health()
    finally:
        database.close()


def test_case_80_a_new_file_that_many_processes_open_at_once_serves_all(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.starmap(_first_use, [(f"sqlite:///{tmp_path}/warm.sqlite3", 0.0)] * 4)
        for number in range(40):
            url = f"sqlite:///{tmp_path}/{number}.sqlite3"
            pool.starmap(_first_use, [(url, time.time() + 0.02)] * 4, chunksize=1)


def test_a_file_that_is_taken_away_is_missed_at_once_and_served_again_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    database = connect(f"sqlite:///{folder}/console.sqlite3")
    upgrade(database)
    put(database, "before")
    folder.rename(tmp_path / "elsewhere")
    for work in (count, lambda d: put(d, "lost")):
        with pytest.raises(StoreUnavailable, match=r"gone: put it back, or start again"):
            work(database)
    folder.mkdir()
    with pytest.raises(StoreUnavailable, match="gone"):  # no empty one in its place
        count(database)
    assert list(folder.iterdir()) == []
    folder.rmdir()
    (tmp_path / "elsewhere").rename(folder)
    put(database, "after")
    assert count(database) == 2
    database.close()


def test_a_file_that_another_one_replaced_is_the_one_that_is_read(tmp_path: Path) -> None:
    database, other = (connect(f"sqlite:///{tmp_path}/{name}.sqlite3") for name in ("a", "b"))
    for made in (database, other):
        upgrade(made)
    put(other, "theirs")
    other.close()
    assert count(database) == 0
    (tmp_path / "b.sqlite3").replace(tmp_path / "a.sqlite3")
    assert count(database) == 1
    database.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSettings, match="file"):
        connect(f"sqlite:///{tmp_path}/file/console.sqlite3")


def test_a_file_that_is_no_database_is_a_store_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite3").write_text("no database at all, but long enough to be looked at" * 100)
    database = connect(f"sqlite:///{tmp_path}/x.sqlite3")
    with pytest.raises(StoreUnavailable, match=r"x\.sqlite3"):
        count(database)
    database.close()


def test_a_missing_table_says_what_to_do(sql_url: str) -> None:
    database = connect(sql_url)
    with pytest.raises(StoreUnavailable, match="python -m core prepare"):
        count(database)
    database.close()


@pytest.mark.mariadb
def test_case_73_a_connection_that_the_server_closed_is_replaced(mariadb_url: str) -> None:
    database = connect(mariadb_url)
    put(database, "a")
    kill_all_of(mariadb_url)
    put(database, "b")
    assert count(database) == 2
    database.close()


@pytest.mark.mariadb
def test_case_73_a_connection_lost_between_two_statements_is_tried_once_more(mariadb_url: str) -> None:
    database = connect(mariadb_url)
    tries = []

    def work(connection: sa.Connection) -> None:
        tries.append(1)
        connection.execute(
            SETTINGS.insert().values(fingerprint="a", settings="{}", created_at=database.now(connection))
        )
        if len(tries) == 1:
            kill_all_of(mariadb_url)
        connection.execute(
            SETTINGS.insert().values(fingerprint="b", settings="{}", created_at=database.now(connection))
        )

    database.write(work)
    assert len(tries) == 2
    assert count(database) == 2

    tries.clear()
    with pytest.raises(StoreUnavailable):
        database.write(lambda c: (kill_all_of(mariadb_url), count_on(c)), again=False)
    assert count(database) == 2  # usable afterwards
    database.close()


@pytest.mark.mariadb
def test_case_73_idle_longer_than_the_servers_limit(mariadb_url: str) -> None:
    database = connect(mariadb_url)
    database.write(lambda c: c.execute(sa.text("SET SESSION wait_timeout = 1")))
    put(database, "a")
    time.sleep(2)  # the server's own clock is what is tested
    put(database, "b")
    assert count(database) == 2
    database.close()


def count_on(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(SETTINGS)).scalar_one()


def kill_all_of(url: str) -> None:
    name = url.rpartition("/")[2]
    admin = sa.create_engine(SERVER, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        ids = connection.execute(
            sa.text("SELECT id FROM information_schema.processlist WHERE db = :name"), {"name": name}
        ).scalars()
        for number in ids.all():
            connection.execute(sa.text(f"KILL {number}"))
    admin.dispose()


@pytest.mark.mariadb
@pytest.mark.parametrize("password", ["p@ss/w#rd", "100%25", "汉字"])
def test_case_84_such_passwords_open_the_database(password: str) -> None:
    user = f"t_sql_{uuid.uuid4().hex[:8]}"
    run_on_server(f"CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'", f"GRANT USAGE ON *.* TO '{user}'@'%'")
    try:
        host, port = SERVER.rpartition("@")[2].partition(":")[::2]
        parts = DatabaseParts(host, "information_schema", user, password, int(port or 3306))
        database = connect(parts)
        assert database.health().startswith("MySQL/MariaDB ")
        database.close()
        database = connect(DatabaseParts(host, "information_schema", user, "S3cr3t-CANARY", int(port or 3306)))
        with pytest.raises(StoreUnavailable) as caught:
            database.health()
        assert "CANARY" not in str(caught.value)
        assert "information_schema" in str(caught.value)
        database.close()
    finally:
        run_on_server(f"DROP USER '{user}'@'%'")


@pytest.mark.parametrize(
    "url", ["mysql+pymysql://kb:S3cr3t-CANARY@127.0.0.1:1/x", "mysql+pymysql://kb:S3cr3t-CANARY@db.invalid:3306/x"]
)
def test_case_119_a_server_that_is_away_is_named_without_the_password(url: str) -> None:
    database = connect(url, connect_timeout=1)
    with pytest.raises(StoreUnavailable) as caught:
        database.health()
    said = str(caught.value)
    assert "CANARY" not in said
    assert url.rpartition("@")[2] in said
    cause = caught.value.__cause__
    assert "CANARY" not in f"{cause!r} {cause}"
    database.close()
