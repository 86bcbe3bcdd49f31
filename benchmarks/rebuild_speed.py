"""A first build of a thousand chunks against a rebuild of the same, unchanged; and where the time of the first goes."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

from benchmarks._stack import settings_in, work_folder
from core.bootstrap import build

PROFILES: Final = ("use", "e5")
DOCUMENTS: Final = 100
SECTIONS: Final = 10
_WORDS: Final = [
    "连接池",
    "耗尽",
    "超时",
    "主从",
    "延迟",
    "消费者",
    "积压",
    "磁盘",
    "水位",
    "证书",
    "过期",
    "节点",
    "驱逐",
    "慢查询",
    "锁等待",
    "回滚",
    "扩容",
    "限流",
    "熔断",
    "告警",
    "connection",
    "pool",
    "exhausted",
    "timeout",
    "replica",
    "lag",
    "consumer",
    "backlog",
    "disk",
    "pressure",
    "certificate",
    "expired",
    "evicted",
    "node",
    "slow",
    "query",
    "lock",
    "wait",
    "rollback",
    "scale",
    "throttle",
    "breaker",
    "alert",
    "check",
    "restart",
    "verify",
    "metric",
    "threshold",
    "owner",
]


def main() -> None:
    """Prints seconds of both builds, their ratio, and the share of the first that is neither embedding nor insertion:
    with the faster embedding profile, then with the shipped one, which takes some minutes."""
    for number, embedding in enumerate([os.environ["BENCH_PROVIDER"]] if "BENCH_PROVIDER" in os.environ else PROFILES):
        if number:
            print(flush=True)
        measure(embedding)


def measure(embedding: str) -> None:
    with work_folder() as folder:
        chunks = write(folder / "source")
        app = build(
            settings_in(
                folder,
                embedding,
                knowledge={
                    "source": str(folder / "source"),
                    "uploads": str(folder / "uploads"),
                    "shipped_vectors": "none",
                },
            )
        )
        try:
            first = app.rebuild.rebuild("REBUILD", who="benchmark")
            again = app.rebuild.rebuild("REBUILD", who="benchmark")
        finally:
            app.close()
    total, embed, insert = (first.seconds[part] for part in ("total", "embed", "insert"))
    print(f"{first.chunks} chunks of {first.documents} documents ({chunks} sections written), profile {first.profile}")
    print(f"first build {total:.1f} s: embedding {embed:.1f} s, insertion {insert:.1f} s beside it")
    print(f"unchanged   {again.seconds['total']:.2f} s: {again.from_cache} of {again.chunks} vectors from the cache")
    print(f"first / unchanged {total / again.seconds['total']:.1f}")
    print(f"outside embedding and insertion {max(0.0, total - embed - insert) / total:.1%} of the first build")


def write(folder: Path, documents: int = DOCUMENTS) -> int:
    """Runbooks of made-up words, ``SECTIONS`` chunks each; how many sections that are."""
    chance = random.Random(11)
    folder.mkdir(parents=True)
    for number in range(documents):
        lines = ["---", f"title: Runbook {number}", f"category: area-{number % 8}", "---"]
        for section in range(SECTIONS):
            text = f"node-{number}-{section} rack{number * 10 + section}: " + " ".join(chance.choices(_WORDS, k=110))
            lines += [f"## Step {section} of {number}", "", text + ".", ""]
        (folder / f"runbook-{number:03}.md").write_text("\n".join(lines), encoding="utf-8")
    return documents * SECTIONS


if __name__ == "__main__":
    main()
