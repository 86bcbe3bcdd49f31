"""The views of the Eval page, and the run that they look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from core.evaluation.desk import MODES
from core.model import Mode
from pages.parts import (
    boxes,
    eval_address,
    eval_baseline,
    eval_behaviour,
    eval_calibration,
    eval_cases,
    eval_compare,
    eval_live,
    eval_losses,
    eval_metrics,
    eval_review,
    eval_services,
    services,
    views,
)
from pages.parts.access import User
from pages.parts.eval_services import Run

if TYPE_CHECKING:
    from core.bootstrap import App

OF_A_RUN: Final[dict[str, Callable[[Run, str], None]]] = {
    "cases": eval_cases.draw,
    "losses": eval_losses.draw,
    "metrics": eval_metrics.draw,
    "behaviour": eval_behaviour.draw,
}
NAMES: Final = (*OF_A_RUN, "baseline", "compare", "calibration", "live", "review")


def mode(page: str) -> Mode:
    """The search mode whose lookups are looked at."""
    return Mode(eval_address.segments("Search mode", page, eval_address.MODE, [m.value for m in MODES]))


def run(chosen: Mode, page: str) -> Run | None:
    """The judged run, or None after the page has said why there is none."""
    live = eval_live.chosen(page)
    if live is not None:
        return live
    places = eval_services.desk().places
    if not places.cases.is_file():
        boxes.empty(
            "No golden cases yet",
            "Write what should happen into cases/golden-cases.json of the folder that evaluation.folder names.",
        )
        return None
    if not places.has_fixtures(chosen):
        boxes.empty(
            f"Nothing is frozen in mode {chosen.value}",
            "Build the evaluation's own index with `python -m core eval seed`, then freeze what happens now with "
            "`python -m core eval snapshot`.",
        )
        return None
    found: Run | None = services.call("The frozen lookups cannot be judged", eval_services.offline, chosen)
    return found


def draw(app: App, user: User, found: Run | None, chosen: Mode, page: str) -> None:
    """The view of the address. Some need no run: those that judge by themselves, or change something."""
    view = views.choose(page, NAMES)
    if view == "compare":
        eval_compare.draw(page)
    elif view == "calibration":
        eval_calibration.draw(app, user, chosen, page)
    elif view == "live":
        eval_live.draw(user, chosen, page, app.settings.audit.timezone)
    elif view == "review":
        eval_review.draw(app, user, found, page)
    elif found is not None and view == "baseline":
        eval_baseline.draw(found, user, page, app.settings.audit.timezone)
    elif found is not None:
        OF_A_RUN[view](found, page)
