import json
import math

import numpy as np
import pytest

from core.codec import canonical_json, from_data, from_json, non_finite, to_data, to_json
from core.model import (
    AttemptName,
    AttemptTrace,
    Branch,
    Candidate,
    Chunk,
    DropReason,
    Fusion,
    Hit,
    Mode,
    RetrievalTrace,
    Scopes,
    Stage,
    StageStatus,
)


def candidate(**values: object) -> Candidate:
    return Candidate("redis/pool#chunk-0", "redis/pool", 0, **values)  # type: ignore[arg-type]


def test_what_is_written_is_read_back_equal() -> None:
    trace = RetrievalTrace(
        "t1",
        "2026-01-01T00:00:00.000001Z",
        Mode.HYBRID,
        Fusion.CLIENT,
        "default",
        None,
        attempts=(
            AttemptTrace(
                AttemptName.FILTERED_VECTOR,
                StageStatus.COMPLETE,
                candidates=(
                    candidate(dense_rank=1, hit_reasons=("dense",), drop_stage=Stage.PACK),
                    candidate(drop_reason=DropReason.PACK_BUDGET, title="连接池 🔥"),
                ),
            ),
        ),
        what_if={"mode": "dense"},
    )
    assert from_json(RetrievalTrace, to_json(trace)) == trace


def test_an_empty_list_and_a_missing_field_are_read_with_their_defaults() -> None:
    assert from_json(list[Candidate], "[]") == []
    read = from_json(Candidate, '{"evidence_key": "a#chunk-0", "doc_id": "a", "later_field": 1}')
    assert read == Candidate("a#chunk-0", "a")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"doc_id": "a"}',
        "NaN",
        '{"evidence_key": "a", "doc_id": "a", "rrf_score": NaN}',
        '{"evidence_key": 1, "doc_id": []}',
    ],
)
def test_what_does_not_fit_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(Candidate, text)


def test_case_70_non_finite_numbers_become_null_and_are_named() -> None:
    scores = [math.nan, math.inf, -math.inf, -0.0, float("1e400"), 0.5]
    assert json.loads(to_json({"scores": scores, "metric": {"mrr": math.nan, "hit": 1.0}})) == {
        "scores": [None, None, None, 0.0, None, 0.5],
        "metric": {"mrr": None, "hit": 1.0},
    }
    assert math.copysign(1, to_data(scores)[3]) == -1
    assert non_finite({"scores": scores, "metric": {"mrr": math.nan}}) == (
        "scores.0",
        "scores.1",
        "scores.2",
        "scores.4",
        "metric.mrr",
    )
    assert non_finite(candidate(bm25_score=math.inf, dense_distance=0.2)) == ("bm25_score",)


def test_case_69_ids_stay_strings() -> None:
    assert to_data(candidate())["evidence_key"] == "redis/pool#chunk-0"
    assert to_data(Candidate("vector:457901496685504801", ""))["evidence_key"] == "vector:457901496685504801"


def test_vectors_are_left_out_and_numpy_numbers_are_numbers() -> None:
    hit = Hit(Chunk("a#chunk-0", "a", 0, "x"), Branch.DENSE, 1, np.float32(0.5), vector=np.zeros(3, np.float32))  # type: ignore[arg-type]
    data = to_data(hit)
    assert data["vector"] is None
    assert data["score"] == 0.5


def test_half_a_surrogate_pair_does_not_lose_the_record() -> None:
    data = to_data({"query": "a\ud800b", "inner": candidate(title="\udfff"), "scopes": Scopes(frozenset({"default"}))})
    assert data["query"] == "a\ufffdb"
    assert data["inner"]["title"] == "\ufffd"
    assert data["scopes"]["names"] == ["default"]


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": 1, "a": "中"}) == canonical_json({"a": "中", "b": 1}) == '{"a":"\\u4e2d","b":1}'


def test_canonical_json_has_sets_in_order() -> None:
    assert canonical_json(Scopes(frozenset({"b", "a"}))) == '{"everything":false,"names":["a","b"]}'


def test_what_does_not_fit_is_named_by_its_place() -> None:
    with pytest.raises(ValueError, match=r"^Candidate\.doc_id: "):
        from_data(Candidate, {"evidence_key": "a", "doc_id": []})


def test_from_data_reads_plain_data() -> None:
    assert from_data(Scopes, {"names": ["default"]}) == Scopes(frozenset({"default"}))
