"""Calibration: where answerable and unanswerable questions lie, where the gate switches, and where it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd
import streamlit as st

from core.errors import NotAllowed
from core.evaluation.calibrate import DENSE, Calibration, ErrorRate, OperatingPoint
from core.evaluation.calibration_file import CalibrationFile, SavedScale, scale_of
from core.model import EmbeddingProfile, Mode
from pages.parts import boxes, eval_address, eval_figures, eval_services, facts, look, notice, services
from pages.parts.access import User
from pages.parts.numbers import NONE, count, moment, score
from pages.parts.status import Fact
from pages.parts.text import cell, literal, visible

if TYPE_CHECKING:
    from core.bootstrap import App

BASES: Final = (DENSE, "lexical", "rerank")
UNITS: Final = {
    DENSE: "Squared distance of the nearest chunk: smaller is nearer, and the gate wants it small.",
    "lexical": "Share of the question's character bigrams in the best chunk: larger is better.",
    "rerank": "Best score of the reranker: larger is better.",
}


def draw(app: App, user: User, mode: Mode, page: str) -> None:
    """The distributions, the operating points, and what would be saved."""
    places = eval_services.desk().places
    profile: EmbeddingProfile | None = services.call(
        "The embedding profile cannot be read", lambda: app.embedder.profile
    )
    if profile is None:
        return
    _profile(profile)
    if not places.cases.is_file() or not places.has_fixtures(mode):
        boxes.empty(
            "Nothing to calibrate on",
            "Calibration learns from frozen lookups: `python -m core eval snapshot` takes them.",
        )
        return
    basis = eval_address.segments("Basis of the quality", page, eval_address.BASIS, BASES)
    st.caption(UNITS[basis])
    found: Calibration | None = services.call(
        "The frozen lookups cannot be calibrated on", eval_services.calibration, basis, mode, threshold(profile, basis)
    )
    if found is None:
        return
    if not found.answerable and not found.unanswerable:
        boxes.empty("No lookup has this basis", "Nothing was measured by it, so nothing can be said.")
        return
    facts.strip(found_facts(found))
    for warning in found.warnings:
        st.text(visible(f"⚠ {warning}", 600))
    _picture(found, page)
    st.dataframe(point_table(found), hide_index=True, placeholder=NONE, key=f"{page}.points")
    st.caption(
        "False fallback: an answerable question taken for low quality. Missed fallback: an unanswerable one that passes. "
        "Intervals are 95 % Wilson. The reference point is where quality is the reference threshold and the gate "
        "switches; the precise point is where it is the precise threshold."
    )
    _save(app, user, found, profile, page)


def threshold(profile: EmbeddingProfile, basis: str) -> float | None:
    """The value of ``basis`` at which the gate of ``profile`` switches today; None where the profile has none."""
    if basis == DENSE:
        return profile.min_distance + (1 - profile.reference_threshold) * (profile.max_distance - profile.min_distance)
    return profile.lexical_reference_threshold if basis == "lexical" else None


def _profile(profile: EmbeddingProfile) -> None:
    if not profile.calibrated:
        st.warning(
            "This profile is not calibrated: its scale is the papers' 0 to 2, so levels and gate are a guess.",
            icon=":material/rule:",
        )
    st.caption(
        f"Profile {literal(profile.profile_id, 100)} · distances {score(profile.min_distance)} to "
        f"{score(profile.max_distance)} · precise from quality {score(profile.precise_threshold)}, reference from "
        f"{score(profile.reference_threshold)} · {'calibrated' if profile.calibrated else 'not calibrated'}"
    )


def found_facts(found: Calibration) -> tuple[Fact, ...]:
    """How many questions, and how well the basis tells them apart."""
    return (
        Fact("Answerable", count(found.answerable), "Judged questions that have an answer."),
        Fact("Unanswerable", count(found.unanswerable), "Judged questions that have none."),
        Fact(
            "Separation", score(found.separation), "AUROC of best against best: 0.5 cannot tell them apart, 1 always."
        ),
        Fact("Gold against others", score(found.gold_separation), "AUROC of gold chunks against all other candidates."),
    )


def marks(found: Calibration) -> list[tuple[str, float, str]]:
    """The lines of the picture: where the gate switches now, and the suggested points."""
    lines = [] if found.current is None else [("now", found.current.threshold, look.DROPPED)]
    if found.suggestion is not None:
        lines.append(("reference", found.suggestion.reference.threshold, look.FAIR))
        lines.append(("precise", found.suggestion.precise.threshold, look.LINES[0]))
    return lines


def _picture(found: Calibration, page: str) -> None:
    groups = {group.label: group for group in found.distributions}
    st.plotly_chart(
        eval_figures.distributions(groups["answerable"], groups["unanswerable"], marks(found), dark=look.is_dark()),
        key=f"{page}.distributions.{found.basis}",
        config=look.CHART,
        alt="Answerable questions up, unanswerable ones down, by the value that the gate sees.",
    )


def point_table(found: Calibration) -> pd.DataFrame:
    """One row an operating point: now, and as suggested."""
    points: list[tuple[str, OperatingPoint]] = [] if found.current is None else [("now: reference", found.current)]
    if found.suggestion is not None:
        points += [
            ("suggested: reference", found.suggestion.reference),
            ("suggested: precise", found.suggestion.precise),
        ]
    return pd.DataFrame(
        {
            "Point": [name for name, _ in points],
            "At": [score(point.threshold, 4) for _, point in points],
            "False fallback": [rate_words(point.false_fallback) for _, point in points],
            "Missed fallback": [rate_words(point.missed_fallback) for _, point in points],
        }
    )


def rate_words(rate: ErrorRate) -> str:
    """``3 of 120, 2.5 % (0.9 to 7.1 %)``; a dash with nothing to count."""
    if rate.rate is None:
        return NONE
    told = f"{rate.count} of {rate.total}, {rate.rate * 100:.1f} %"
    if rate.interval is None:
        return told
    return f"{told} ({rate.interval.low * 100:.1f} to {rate.interval.high * 100:.1f} %)"


def _save(app: App, user: User, found: Calibration, profile: EmbeddingProfile, page: str) -> None:
    st.subheader("Save what is suggested", anchor=False)
    file = CalibrationFile(app.settings.path(app.settings.embedding.calibration))
    if found.suggestion is None:
        st.caption("Nothing is suggested: both answerable and unanswerable questions are needed.")
    elif found.basis == "rerank":
        st.caption("Thresholds of a reranker are settings (quality.*), not of an embedding profile.")
    elif not user.is_operator:
        st.caption("Saving needs the operator role.")
    else:
        told = scale_of(found.suggestion, profile.profile_id, who=user.name, why="")
        st.text(visible(scale_words(told), 400))
        with st.form(f"{page}.scale.form", clear_on_submit=True, border=False):
            st.text_input("Why (kept with the scale)", key=f"{page}.scale.why", max_chars=500)
            st.form_submit_button(
                "Save into the profile",
                icon=":material/save:",
                key=f"{page}.scale.press",
                on_click=_pressed,
                args=(file, found, profile, user, page),
            )
    saved: tuple[SavedScale, ...] | None = services.call(
        "The saved scales cannot be read", file.history, profile.profile_id
    )
    if saved:
        zone = app.settings.audit.timezone
        st.caption("Saved before; every process takes the newest at its next start.")
        st.dataframe(saved_table(saved, zone), hide_index=True, placeholder=NONE, key=f"{page}.scales")


def scale_words(told: SavedScale) -> str:
    """What a press would save, in one line."""
    if told.max_distance is None:
        return f"lexical threshold {score(told.lexical_reference_threshold)}"
    return (
        f"distances {score(told.min_distance, 4)} to {score(told.max_distance, 4)}, precise from quality "
        f"{score(told.precise_threshold)}, reference from {score(told.reference_threshold)}"
    )


def _pressed(file: CalibrationFile, found: Calibration, profile: EmbeddingProfile, user: User, page: str) -> None:
    why = str(st.session_state.get(f"{page}.scale.why") or "")

    def work() -> None:
        if not user.is_operator:
            raise NotAllowed("saving a calibration needs the operator role: auth.operators in settings.toml")
        if found.suggestion is not None:
            file.save(scale_of(found.suggestion, profile.profile_id, who=user.name, why=why))

    notice.act(page, "Saved; every process takes it at its next start", "Not saved", work)


def saved_table(saved: tuple[SavedScale, ...], zone: str) -> pd.DataFrame:
    """Every scale that was saved for the profile, newest first."""
    listed = tuple(reversed(saved))
    return pd.DataFrame(
        {
            "When": [moment(entry.when, zone) for entry in listed],
            "Who": [cell(entry.who, 80) for entry in listed],
            "What": [scale_words(entry) for entry in listed],
            "Why": [cell(entry.why, 400) for entry in listed],
        }
    )
