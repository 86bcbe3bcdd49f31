import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from core.audit.export import COLUMNS, Format, csv_lines, export, json_lines
from core.audit.query import AuditFilter, AuditRecordView, AuditRow
from core.errors import BadInput

MOMENT = datetime(2026, 3, 1, 20, 15, 30, 5, tzinfo=UTC)


def row(**values: Any) -> AuditRow:
    return AuditRow("i1", MOMENT, "lookup_knowledge", "agent", "ok", "READY", **values)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


class Log:
    """A record of two rows that knows what it was asked."""

    def __init__(self) -> None:
        self.asked: list[AuditFilter] = []

    def export(self, where: AuditFilter) -> Iterator[AuditRow]:
        self.asked.append(where)
        yield row(query_text="断路器")
        yield row(query_text=None)

    def export_records(self, where: AuditFilter) -> Iterator[AuditRecordView]:
        self.asked.append(where)
        yield AuditRecordView(row(), {"invocation_id": "i1"})


def test_a_file_without_records_has_its_header() -> None:
    assert "".join(csv_lines([])) == "\ufeff" + ",".join(f'"{name}"' for name in COLUMNS) + "\r\n"
    assert list(json_lines([])) == []


@pytest.mark.parametrize(
    "text",
    ['=HYPERLINK("https://kb.example.invalid")', "+1+1", "@SUM(1)", "-2", "\t=1", "\r=1", "\n=1", " =1", "＝1"],
)
def test_case_121_a_formula_opens_as_text(text: str) -> None:
    (line,) = read("".join(csv_lines([row(query_text=text, session_id=text, error_message=text)])))
    assert line["query_text"] == line["session_id"] == line["error_message"] == "'" + text


def test_case_121_quotes_lines_and_chinese_come_back_as_they_were() -> None:
    text = '断路器 "跳闸"\n第二行, 逗号; 𠮷📅'
    whole = "".join(csv_lines([row(query_text=text)]))
    assert whole.startswith("\ufeff")
    assert read(whole)[0]["query_text"] == text


def test_case_121_numbers_stay_numbers_and_nothing_stays_empty() -> None:
    lines = list(csv_lines([row(quality_gap=-0.25, generation=3, top_quality=float("nan"), degraded=True)]))
    cells = dict(zip(COLUMNS, next(csv.reader([lines[1]], quoting=csv.QUOTE_NONNUMERIC)), strict=True))
    assert (cells["quality_gap"], cells["generation"]) == (-0.25, 3.0)
    assert (cells["top_quality"], cells["relevance_level"], cells["degraded"]) == ("", "", "true")
    assert '"-0.25"' not in lines[1]


def test_case_77_the_zone_of_the_shown_time_is_named() -> None:
    (line,) = read("".join(csv_lines([row()], zone="Asia/Shanghai")))
    assert line["created_at"] == "2026-03-01T20:15:30.000005Z"
    assert line["shown_at"] == "2026-03-02 04:15:30.000005 Asia/Shanghai"
    with pytest.raises(BadInput, match="IANA"):
        list(csv_lines([], zone="Nowhere"))


def test_a_json_line_is_the_whole_record_with_its_data() -> None:
    columns = {
        "id": 7,
        "created_at": MOMENT,
        "top_quality": float("inf"),
        "agent_result": '{"evidence": [{"title": "=1+1"}]}',
        "raw_result": None,
        "search_text": "internal",
    }
    (line,) = json_lines([AuditRecordView(row(), columns)])
    assert line.count("\n") == 1
    assert json.loads(line) == {
        "id": 7,
        "created_at": "2026-03-01T20:15:30.000005Z",
        "top_quality": None,
        "agent_result": {"evidence": [{"title": "=1+1"}]},
        "raw_result": None,
    }


def test_a_file_is_of_the_filter_that_was_asked_for() -> None:
    log, where = Log(), AuditFilter(status="error")
    text = "".join(export(log, where, Format.CSV))  # type: ignore[arg-type]
    assert [line["query_text"] for line in read(text)] == ["断路器", ""]
    assert [json.loads(line) for line in export(log, where, Format.JSONL)] == [{"invocation_id": "i1"}]  # type: ignore[arg-type]
    assert log.asked == [where, where]
