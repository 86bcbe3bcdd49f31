"""Byte limits, checked before anything is sent (cases 122 and 123)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.errors import BadInput
from core.model import Chunk
from core.store_limits import check_rows, finite, fits, oversize
from tests.contract.generations import row


def chunk(**facts: object) -> Chunk:
    base = {"evidence_key": "a#chunk-0", "doc_id": "a", "chunk_index": 0, "content": "text"}
    return Chunk(**(base | facts))  # type: ignore[arg-type]


def test_a_chinese_chunk_within_its_characters_fits() -> None:
    assert oversize(chunk(content="汉" * 1400, title="题" * 90), "词 " * 1400) is None


@pytest.mark.parametrize(
    ("made", "text", "line"),
    [
        (chunk(content="汉" * 21_846), "", "content of 'a#chunk-0': 65,538 bytes, the field holds 65,535"),
        (chunk(content="😀" * 16_384), "", "content of 'a#chunk-0': 65,536 bytes, the field holds 65,535"),
        (chunk(), "x" * 65_536, "search_text of 'a#chunk-0': 65,536 bytes, the field holds 65,535"),
        (chunk(category="类" * 90), "", "category of 'a#chunk-0': 270 bytes, the field holds 256"),
        (chunk(doc_id="d" * 1001), "", "doc_id of 'a#chunk-0': 1,001 bytes, the field holds 1,000"),
        (chunk(evidence_key=""), "", "id: empty"),
        (chunk(title="x\ud800"), "", "metadata of 'a#chunk-0': holds half a surrogate pair"),
    ],
)
def test_case_122_the_line_names_field_size_and_limit(made: Chunk, text: str, line: str) -> None:
    assert (oversize(made, text) or "").startswith(line)


def test_case_123_metadata_holds_known_keys_and_is_bounded() -> None:
    line = oversize(chunk(breadcrumb="长" * 22_000)) or ""
    assert line.startswith("metadata of 'a#chunk-0': 66,1")
    assert "the field holds 65,536" in line


def test_a_long_key_is_shortened_in_the_message() -> None:
    line = oversize(chunk(evidence_key="k" * 2000)) or ""
    assert line.startswith("id of 'kkk")
    assert len(line) < 250


@pytest.mark.parametrize("vector", [(1, 2, 3), (1, 2, 3, math.nan), (1, 2, 3, math.inf), (1, 2, 3, 1e39)])
def test_a_vector_of_another_size_or_not_finite_as_float32_is_refused(vector: tuple[float, ...]) -> None:
    with np.errstate(over="ignore"), pytest.raises(BadInput, match="vector of 'a#chunk-0': want 4 finite numbers"):
        check_rows([row("a", vector=vector)], 4)


def test_no_rows_are_fine() -> None:
    check_rows([], 4)


def test_fits_wants_one_row_of_numbers() -> None:
    assert fits([0, 0, 0, 0], 4)
    assert not fits([[0, 0, 0, 0]], 4)
    assert not fits([], 4)


@pytest.mark.parametrize(
    ("number", "kept"), [(None, None), (math.nan, None), (-math.inf, None), (-1.5, -1.5), (0, 0.0)]
)
def test_a_score_that_is_no_finite_number_is_none(number: float | None, kept: float | None) -> None:
    assert finite(number) == kept
