"""A process that rebuilds again and again until it is killed: ``python rebuilding_child.py FOLDER FIRST_EDITION``."""

from __future__ import annotations

import sys
from pathlib import Path

from core.adapters.milvus import MilvusIndex
from tests.unit.knowledge.rebuild.rebuild_world import World

DOCUMENTS = 40


def write(world: World, edition: int) -> None:
    for number in range(DOCUMENTS):
        world.write(f"doc{number:02d}.md", f"word edition{edition:04d}x number {number}")


def main(folder: Path, edition: int) -> None:
    world = World(folder, index=MilvusIndex(str(folder / "own.db")), settings_over={"drop_after_seconds": 0.0})
    world.index.health(timeout=60)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        write(world, edition)
        world.service().rebuild("REBUILD", who="child")
        edition += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
