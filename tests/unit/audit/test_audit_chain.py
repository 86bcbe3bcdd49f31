import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.audit.chain import GENESIS, LONG_CHARS, Hasher, Head, canonical, link, rows_hash, writer_of

AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
ROW = {"invocation_id": "i", "status": "ok", "actor": None, "total_ms": 1.5, "found": True, "created_at": AT}


def test_a_hash_is_over_sorted_json_with_utc_times_and_without_nulls() -> None:
    expected = json.dumps(
        {
            "created_at": "2026-01-02T03:04:05.678901+00:00",
            "found": True,
            "invocation_id": "i",
            "status": "ok",
            "total_ms": 1.5,
        },
        separators=(",", ":"),
    )
    assert Hasher().row(ROW) == hashlib.sha256(b"row\0" + expected.encode()).hexdigest()
    assert Hasher("k").row(ROW) == hmac.new(b"k", b"row\0" + expected.encode(), hashlib.sha256).hexdigest()


def test_the_row_number_of_the_database_and_the_hash_itself_are_not_hashed() -> None:
    assert Hasher().row({**ROW, "id": 7, "row_hash": "x"}) == Hasher().row(ROW)


def test_a_null_column_of_a_later_version_changes_nothing_a_value_does() -> None:
    assert Hasher().row({**ROW, "later": None}) == Hasher().row(ROW)
    assert Hasher().row({**ROW, "later": 0}) != Hasher().row(ROW)


def test_the_same_moment_in_another_zone_is_the_same() -> None:
    shanghai = AT.astimezone(timezone(timedelta(hours=8)))
    assert Hasher().row({**ROW, "created_at": shanghai}) == Hasher().row(ROW)


def test_a_long_text_stands_by_its_own_hash() -> None:
    long = "x" * (LONG_CHARS + 1)
    assert Hasher().row({"a": long}) == Hasher().row({"a": ["sha256", hashlib.sha256(long.encode()).hexdigest()]})
    assert Hasher().row({"a": long + "y"}) != Hasher().row({"a": long})


def test_rows_follow_each_other_by_number_and_hash() -> None:
    first = link(ROW, writer="main", seq=1, prev_hash=GENESIS, hasher=Hasher())
    second = link(ROW, writer="main", seq=2, prev_hash=first["row_hash"], hasher=Hasher())
    assert first["row_hash"] != second["row_hash"]
    assert Hasher().row(second) == second["row_hash"]
    assert Hasher().row({**second, "seq": 3}) != second["row_hash"]
    assert "row_hash" not in ROW


@pytest.mark.parametrize("key", ["", "a key", "ключ"])
def test_a_head_fits_only_as_it_was_sealed(key: str) -> None:
    hasher = Hasher(key)
    head = Head("main", 4, "h" * 64, hasher.seal("main", 4, "h" * 64), hasher.key_id)
    assert hasher.fits(head)
    assert not hasher.fits(replace(head, seq=3))
    assert not hasher.fits(replace(head, row_hash="g" * 64))
    assert not Hasher("another").fits(head)


def test_keys_have_names_that_do_not_tell_them_and_chains_of_their_own() -> None:
    assert (Hasher().key_id, writer_of(Hasher())) == ("", "main")
    one, two = Hasher("one"), Hasher("two")
    assert len({one.key_id, two.key_id}) == 2
    assert "one" not in one.key_id
    assert writer_of(one) == f"main-{one.key_id}"


def test_the_hash_of_rows_knows_their_order_their_columns_and_their_absence() -> None:
    a, b = {"x": 1, "y": None}, {"x": 2, "y": None}
    assert rows_hash([a, b]) == rows_hash([{"x": 1}, {"x": 2, "z": None}])
    assert len({rows_hash([a, b]), rows_hash([b, a]), rows_hash([a]), rows_hash([]), rows_hash([{"y": 1}])}) == 5


def test_what_is_no_plain_value_is_no_part_of_a_record() -> None:
    with pytest.raises(TypeError):
        canonical({"a": object()})


numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.sampled_from([1e-4, 9.9e-5, 1e16, -0.0])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.none() | st.booleans() | numbers | texts | st.datetimes(timezones=st.just(UTC))


@given(st.lists(st.dictionaries(texts, values, max_size=5), max_size=4))
def test_rows_are_hashed_as_standard_json_of_their_columns(rows: list[dict[str, object]]) -> None:
    names = sorted({name for row in rows for name, value in row.items() if value is not None})
    plain = canonical([names, [[row.get(name) for name in names] for row in rows]])
    assert rows_hash(rows) == hashlib.sha256(plain).hexdigest()
    for row in rows:
        named = {name: value for name, value in row.items() if value is not None and name not in {"id", "row_hash"}}
        assert Hasher().row(row) == hashlib.sha256(b"row\0" + canonical(named)).hexdigest()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_has_no_hash_of_any_other_value(value: float) -> None:
    for other in (None, 0.0, 1.7e308, "Infinity", "NaN"):
        assert rows_hash([{"a": value}, {"a": 1.0}]) != rows_hash([{"a": other}, {"a": 1.0}])
        assert Hasher().row({"a": value}) != Hasher().row({"a": other})
