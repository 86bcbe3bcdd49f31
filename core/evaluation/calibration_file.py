"""Saved calibrations by embedding profile: ``embedding.calibration`` of the settings, a JSON file with its history."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from core.errors import BadInput, InvalidSettings, redact
from core.evaluation.baseline import write_text
from core.evaluation.calibrate import Suggestion
from core.evaluation.report import plain, to_json
from core.model import EmbeddingProfile

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SavedScale:
    """The scale of one profile as saved. Null: the profile's own value stays."""

    profile_id: str
    min_distance: float | None = None
    max_distance: float | None = None
    precise_threshold: float | None = None
    reference_threshold: float | None = None
    lexical_reference_threshold: float | None = None
    who: str = ""
    when: str = ""
    why: str = ""

    def applied_to(self, profile: EmbeddingProfile) -> EmbeddingProfile:
        """``profile`` with the saved values, marked calibrated. Raises BadInput for another profile."""
        if profile.profile_id != self.profile_id:
            raise BadInput(f"a calibration of {self.profile_id} does not fit {profile.profile_id}; calibrate that one")
        values = {name: value for name in _VALUES if (value := getattr(self, name)) is not None}
        calibrated = profile.calibrated or self.max_distance is not None
        return replace(profile, **values, calibrated=calibrated)


_VALUES = (
    "min_distance",
    "max_distance",
    "precise_threshold",
    "reference_threshold",
    "lexical_reference_threshold",
)


class CalibrationFile:
    """The file at ``path``; a missing one holds nothing. Written in one step under a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, profile_id: str) -> SavedScale | None:
        """The newest scale of a profile. Raises InvalidSettings when the file cannot be read."""
        found = self._read()["profiles"].get(profile_id)
        return _scale(found) if found is not None else None

    def history(self, profile_id: str) -> tuple[SavedScale, ...]:
        """Every scale that was ever saved for a profile, oldest first."""
        return tuple(_scale(e) for e in self._read()["history"] if e["profile_id"] == profile_id)

    def save(self, scale: SavedScale, *, now: datetime | None = None) -> SavedScale:
        """Makes ``scale`` the one of its profile. Values it leaves null are taken over from the scale before.

        Raises BadInput without who and why, or for a scale that is none.
        """
        if not scale.who.strip() or not scale.why.strip():
            raise BadInput("a calibration is saved only with a name and a reason: say what it was measured on")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock"):
            data = self._read()
            before = data["profiles"].get(scale.profile_id, {})
            kept = {name: before.get(name) for name in _VALUES if getattr(scale, name) is None}
            when = (now or datetime.now(UTC)).isoformat(timespec="seconds")
            saved = replace(scale, **kept, when=when, who=scale.who.strip(), why=" ".join(scale.why.split()))
            _check(saved)
            data["profiles"][scale.profile_id] = asdict(saved)
            data["history"].append(asdict(saved))
            write_text(self.path, to_json(plain(data)))
        return saved

    def _read(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"version": VERSION, "profiles": {}, "history": []}
        if not self.path.exists():
            return empty
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["version"] != VERSION:
                raise ValueError(f"version {data['version']}")
            for entry in (*data["profiles"].values(), *data["history"]):
                _check(_scale(entry))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadInput) as exc:
            raise InvalidSettings(
                f"{self.path}: not a calibration file ({redact(exc)}); restore it or remove it and calibrate again"
            ) from exc
        return {**empty, **data}


def scale_of(suggestion: Suggestion, profile_id: str, *, who: str, why: str) -> SavedScale:
    """The scale that a suggestion asks for: distances and thresholds of the dense basis, or the lexical threshold."""
    if suggestion.max_distance is None:
        if suggestion.basis != "lexical":
            raise BadInput(f"thresholds of the basis {suggestion.basis!r} are settings (quality.*), not of a profile")
        threshold = suggestion.reference_threshold
        return SavedScale(profile_id, lexical_reference_threshold=threshold, who=who, why=why)
    return SavedScale(
        profile_id,
        min_distance=suggestion.min_distance,
        max_distance=suggestion.max_distance,
        precise_threshold=suggestion.precise_threshold,
        reference_threshold=suggestion.reference_threshold,
        who=who,
        why=why,
    )


def _scale(data: Mapping[str, Any]) -> SavedScale:
    return SavedScale(**data)


def _check(scale: SavedScale) -> None:
    for name in _VALUES:
        value = getattr(scale, name)
        top = 4.0 if name.endswith("distance") else 1.0
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= top):
            raise BadInput(f"{name}: {value!r} is no number from 0 to {top:g}")
    low, high = scale.min_distance, scale.max_distance
    if high is not None and (low or 0.0) >= high:
        raise BadInput(f"min_distance {low or 0.0:g} must be below max_distance {high:g}")
    precise, reference = scale.precise_threshold, scale.reference_threshold
    if precise is not None and reference is not None and precise < reference:
        raise BadInput(f"precise_threshold {precise:g} must not be below reference_threshold {reference:g}")
