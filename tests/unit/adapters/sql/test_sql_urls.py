import pytest

from core.adapters.sql.engine import connect
from core.adapters.sql.urls import DatabaseParts, parse
from core.errors import InvalidSettings


@pytest.mark.parametrize("password", ["p@ss/w#rd", "100%25", "汉字", "a:b?c=d&e", "/", "@@"])
def test_case_84_parts_are_taken_literally_whatever_the_password_holds(password: str) -> None:
    url = parse(DatabaseParts("db.example", "console", "kb", password))
    assert (url.host, url.port, url.database, url.password) == ("db.example", 3306, "console", password)
    assert parse(url.render_as_string(hide_password=False)).password == password


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://kb:p@ss/w#rd@db:3306/x",
        "mysql+pymysql://kb:p#ss/w@rd@db:3306/x",
        "mysql+pymysql:://kb:S3cr3t-CANARY@db:3306/x",
        "mysql+pymysql://kb:S3cr3t/CANARY@db:port/x",
    ],
)
def test_case_84_and_119_a_url_that_cannot_be_read_is_refused_without_any_part_of_its_password(url: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        connect(url)
    said = str(caught.value)
    assert "db:" in said  # host and name stay for diagnosis
    assert "/x" in said
    assert "%40" in said or "percent-encode" in said
    for part in ("S3cr3t", "CANARY", "p@ss", "ss/w", "w#rd", "p#ss", "@rd"):
        assert part not in said


def test_a_percent_encoded_password_is_decoded_once() -> None:
    assert parse("mysql+pymysql://kb:100%2525@db/x").password == "100%25"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "cannot be read"),
        ("console.sqlite3", "cannot be read"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite://host/x", "needs a file"),
        ("postgresql://u:S3cr3t-CANARY@db/x", "postgresql is not supported"),
        ("mysql+mysqldb://u:S3cr3t-CANARY@db/x", "driver mysqldb is not supported"),
        ("mysql+pymysql://u:S3cr3t-CANARY@/x", "host or database name is missing"),
        ("mysql+pymysql://u:S3cr3t-CANARY@db:3306", "host or database name is missing"),
    ],
)
def test_what_cannot_serve_is_refused_by_name_and_without_its_password(url: str, says: str) -> None:
    with pytest.raises(InvalidSettings, match=says) as caught:
        connect(url)
    assert str(caught.value).startswith("database.url: ")
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["mysql+pymysql:kb:S3cr3t-CANARY@db/x", "kb:S3cr3t-CANARY", "S3cr3t-CANARY", "mysql:/kb:S3cr3t-CANARY@db:3306/x"],
)
def test_a_text_that_is_no_url_is_not_repeated(text: str) -> None:
    with pytest.raises(InvalidSettings, match=r"cannot be read|not supported") as caught:
        connect(text)
    assert "CANARY" not in str(caught.value)


def test_parts_without_a_host_or_a_name_are_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"database\.host and database\.name"):
        parse(DatabaseParts("", "console"))


def test_a_missing_driver_is_named_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.adapters.sql.urls.find_spec", lambda _name: None)
    with pytest.raises(InvalidSettings, match="PyMySQL is not installed") as caught:
        connect("mysql+pymysql://kb:S3cr3t-CANARY@db:3306/x")
    assert "CANARY" not in str(caught.value)
    assert "db:3306/x" in str(caught.value)


def test_parts_never_show_their_password() -> None:
    assert "S3cr3t" not in repr(DatabaseParts("db", "x", "kb", "S3cr3t"))
