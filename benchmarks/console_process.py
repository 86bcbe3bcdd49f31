"""A console process over the sample knowledge base: its first lookup against its tenth, and its memory over a thousand.

The process is a fresh one over a real index; memory is its resident set as the kernel counts it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from core.settings import ROOT

STARTS: Final = 5
LOOKUPS: Final = 1_000

_CHILD: Final = """
import json, os, sys, time
from core.bootstrap import build
from core.lookup import LookupRequest
from core.model import Origin
from core.settings import load

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

app = build(load())
app.lookup.warm()
words = ["redis 连接池耗尽", "kafka consumer lag", "mysql 主从延迟", "pod 一直重启", "磁盘写满", "certificate expired",
         "慢查询", "dns timeout", "jvm full gc", "nginx 502"]
times, memory = [], {}
for number in range(int(sys.argv[1])):
    began = time.perf_counter()
    outcome = app.lookup.lookup(LookupRequest(f"{words[number % 10]} {number}", origin=Origin.CONSOLE))
    times.append((time.perf_counter() - began) * 1000)
    assert outcome.error is None, outcome.error
    if number + 1 in (100, 550, 1000):
        memory[number + 1] = resident()
app.close()
print(json.dumps({"times": times, "memory": memory}))
"""


def main() -> None:
    """Prints the ratio of first to tenth lookup over several starts, then the memory."""
    with tempfile.TemporaryDirectory() as folder:
        env = _environment(Path(folder))
        _core(env, "prepare")
        try:
            starts = [_child(env, 10)["times"] for _ in range(STARTS)]
            ratios = [times[0] / times[9] for times in starts]
            print(f"first lookup  median {median(t[0] for t in starts):.1f} ms")
            print(f"tenth lookup  median {median(t[9] for t in starts):.1f} ms")
            print(
                f"first / tenth median {median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f}, {STARTS} starts)"
            )
            memory = _child(env, LOOKUPS)["memory"]
            for count, size in memory.items():
                print(f"resident after {count:>5} lookups {size:.0f} MiB ({size / memory['100']:.3f} of the 100th)")
        finally:
            _core(env, "serve", "--stop")


def _environment(folder: Path) -> dict[str, str]:
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("RAG_")},
        "RAG__MILVUS__URI": str(folder / "milvus.db"),
        "RAG__DATABASE__URL": f"sqlite:///{folder}/console.sqlite3",
        "RAG__KNOWLEDGE__UPLOADS": str(folder / "uploads"),
        "RAG__AUDIT__OUTBOX": str(folder / "outbox"),
        "RAG__EMBEDDING__PROVIDER": os.environ.get("BENCH_PROVIDER", "use"),
    }


def _core(env: dict[str, str], *args: str) -> None:
    subprocess.run([sys.executable, "-m", "core", *args], cwd=ROOT, env=env, check=True, capture_output=True)


def _child(env: dict[str, str], lookups: int) -> dict[str, list[float]]:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(lookups)], cwd=ROOT, env=env, check=True, capture_output=True, text=True
    )
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
