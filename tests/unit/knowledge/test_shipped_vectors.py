"""Shipped vectors fill an empty cache, once, and a bad file only costs the time to embed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.knowledge.shipped import WithShippedVectors, file_name, read_vectors, write_vectors

PROFILE = "maker/model-small/3"
KEYS = [f"{n:064x}" for n in (2, 1)]


@dataclass
class Cache:
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    puts: int = 0

    def get(self, profile_id: str, keys: Sequence[str]) -> dict[str, Any]:
        found = self.held.get(profile_id, {})
        return {key: found[key] for key in keys if key in found}

    def put(self, profile_id: str, vectors: Mapping[str, Any]) -> None:
        self.puts += 1
        self.held.setdefault(profile_id, {}).update(vectors)

    def count(self, profile_id: str) -> int:
        return len(self.held.get(profile_id, {}))


def vectors() -> dict[str, Any]:
    return {key: np.array([n, 0.5, 1], dtype=np.float32) for n, key in enumerate(KEYS)}


def test_an_empty_cache_is_filled_once_when_the_profile_is_first_asked_for(tmp_path: Path) -> None:
    write_vectors(tmp_path, PROFILE, vectors())
    inner = Cache()
    cache = WithShippedVectors(inner, tmp_path)
    assert cache.count(PROFILE) == 0
    found = cache.get(PROFILE, KEYS)
    assert {key: list(vector) for key, vector in found.items()} == {KEYS[0]: [0, 0.5, 1], KEYS[1]: [1, 0.5, 1]}
    cache.get(PROFILE, KEYS)
    assert inner.puts == 1


def test_a_cache_that_holds_something_of_the_profile_is_left_alone(tmp_path: Path) -> None:
    write_vectors(tmp_path, PROFILE, vectors())
    inner = Cache({PROFILE: {"other": np.zeros(3, np.float32)}})
    assert WithShippedVectors(inner, tmp_path).get(PROFILE, KEYS) == {}


def test_without_a_file_the_cache_answers_by_itself(tmp_path: Path) -> None:
    inner = Cache()
    assert WithShippedVectors(inner, tmp_path / "missing").get(PROFILE, KEYS) == {}
    assert inner.puts == 0


def test_vectors_of_another_profile_are_not_taken(tmp_path: Path) -> None:
    write_vectors(tmp_path, PROFILE, vectors()).rename(tmp_path / file_name("maker/other/3"))
    assert WithShippedVectors(Cache(), tmp_path).get("maker/other/3", KEYS) == {}


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "nan", "keys", "pickle"])
def test_a_damaged_file_gives_nothing_and_says_so(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = write_vectors(tmp_path, PROFILE, vectors())
    rows = np.stack(list(vectors().values()))
    if damage == "empty":
        file.write_bytes(b"")
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-40])
    elif damage == "text":
        file.write_text("version https://git-lfs.example.invalid", encoding="utf-8")
    elif damage == "nan":
        np.savez(file, keys=np.array(KEYS), vectors=rows * np.nan, profile=np.array(PROFILE))
    elif damage == "keys":
        np.savez(file, keys=np.array([*KEYS, "zz"]), vectors=rows, profile=np.array(PROFILE))
    else:
        np.savez(file, keys=np.array([{}], dtype=object), vectors=rows, profile=np.array(PROFILE))
    with caplog.at_level(logging.WARNING):
        assert read_vectors(file, PROFILE) == {}
    assert "embedded instead" in caplog.text


def test_no_vectors_make_a_file_that_gives_none(tmp_path: Path) -> None:
    assert read_vectors(write_vectors(tmp_path, PROFILE, {}), PROFILE) == {}
