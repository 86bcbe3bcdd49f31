"""The guarded rebuild: a new generation beside the active one, proven, then switched to in one step."""

from core.knowledge.rebuild.guard import Word, confirm
from core.knowledge.rebuild.service import RebuildService
from core.knowledge.rebuild.values import Drift, IndexStatus, Kind, Plan, Progress, RebuildOutcome, Step

__all__ = [
    "Drift",
    "IndexStatus",
    "Kind",
    "Plan",
    "Progress",
    "RebuildOutcome",
    "RebuildService",
    "Step",
    "Word",
    "confirm",
]
