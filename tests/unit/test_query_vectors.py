"""Query vectors kept in memory, by profile and text; the one used longest ago goes first."""

from __future__ import annotations

from core.query_vectors import QueryVectors


def test_a_vector_belongs_to_its_profile_and_its_text() -> None:
    kept = QueryVectors(4)
    kept.put("e5", "redis", [1.0])
    assert kept.get("e5", "redis") == [1.0]
    assert kept.get("use", "redis") is None
    assert kept.get("e5", "mysql") is None


def test_the_one_used_longest_ago_goes_first() -> None:
    kept = QueryVectors(2)
    kept.put("p", "a", [1.0])
    kept.put("p", "b", [2.0])
    assert kept.get("p", "a") == [1.0]
    kept.put("p", "c", [3.0])
    assert (kept.get("p", "a"), kept.get("p", "b"), kept.get("p", "c")) == ([1.0], None, [3.0])


def test_a_cache_of_size_zero_keeps_nothing() -> None:
    kept = QueryVectors(0)
    kept.put("p", "a", [1.0])
    assert kept.get("p", "a") is None
