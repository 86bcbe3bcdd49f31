"""The product's whole stack in a folder of its own: nothing of a real installation is read or written."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from core.bootstrap import App
from core.settings import Settings, load

PATIENT: Final = {"branch_timeout": 30.0, "warming_timeout": 60.0, "lookup_timeout": 60.0}  # figures, not deadlines


def provider(default: str) -> str:
    """The embedding provider of ``BENCH_PROVIDER``."""
    return os.environ.get("BENCH_PROVIDER") or default


def settings_in(folder: Path, embedding: str, **sections: Any) -> Settings:
    """Shipped settings with every store in ``folder``, shipped calibrations, and time enough on a busy machine."""
    return load(
        environ={},
        milvus={"uri": str(folder / "milvus.db")},
        database={"url": f"sqlite:///{folder}/console.sqlite3"},
        embedding={"provider": embedding, "timeout": 60.0, "calibration": str(folder / "calibration.json")},
        audit={"outbox": str(folder / "outbox"), "timeout": 5.0},
        **{"retrieval": PATIENT, **sections},
    )


@contextmanager
def work_folder(kept: Path | None = None) -> Iterator[Path]:
    """``kept`` (made when missing, left as it is at the end), else a temporary folder that is gone at the end. The
    server of its Milvus Lite file ends either way."""
    from core.adapters import milvus_server

    folder = kept.absolute() if kept else Path(tempfile.mkdtemp(prefix="bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        milvus_server.stop(folder / "milvus.db")
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)


def build_index(app: App, why: str) -> None:
    """The guarded rebuild of what the settings name as the source."""
    outcome = app.rebuild.rebuild("REBUILD", who="benchmark", why=why, allow_shrink=True)
    print(f"index: generation {outcome.generation}, {outcome.chunks} chunks", file=sys.stderr, flush=True)
