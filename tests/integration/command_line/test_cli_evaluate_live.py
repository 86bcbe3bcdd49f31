"""``eval`` on real stores: the seed corpus in an index of its own, frozen and judged through the whole pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.adapters import milvus_server
from core.cli import main
from core.evaluation.fixtures import load_fixtures

pytestmark = pytest.mark.milvus

POOL = """---
title: Redis pool exhausted
kb_scope: rag-eval
category: redis
---
# Check

The application log shows POOL-4471: no connection could be had from the pool.

# Mend

Raise maxTotal to 200 and look for connections that were not given back.
"""
LAG = """---
title: Consumer lag keeps growing
kb_scope: rag-eval
category: kafka
---
Compare the produce rate with the consume rate of the group.
"""
CASES = [
    {
        "caseId": "pool",
        "query": "POOL-4471",
        "expectedDocIds": ["pool"],
        "expectedKeywords": ["maxTotal"],
        "goldPassages": [{"path": "pool.md", "anchor": "no connection could be had"}],
        "requiredFacts": [{"fact": "200", "path": "pool.md", "anchor": "Raise maxTotal to 200"}],
        "poolDepth": 5,
        "review": {"who": "pat", "when": "2026-09-01", "status": "reviewed"},
    },
    {
        "caseId": "lag",
        "query": "consumer lag",
        "expectedDocIds": ["lag"],
        "poolDepth": 5,
        "review": {"who": "pat", "when": "2026-09-01", "status": "reviewed"},
    },
]


@dataclass
class Installation:
    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "evaluation"

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def cases(self, **changes: Any) -> None:
        """The cases, with changes to the first."""
        listed = [{**CASES[0], **changes}, *CASES[1:]]
        self.write("cases/golden-cases.json", json.dumps({"version": 1, "cases": listed}))


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    root = tmp_path_factory.mktemp("installation")
    found = Installation(root)
    found.write("seed-docs/pool.md", POOL)
    found.write("seed-docs/lag.md", LAG)
    found.cases()
    settings = {
        "RAG__MILVUS__URI": str(root / "milvus.db"),
        "RAG__MILVUS__IDLE_SECONDS": "300",
        "RAG__DATABASE__URL": f"sqlite:///{root}/console.sqlite3",
        "RAG__EMBEDDING__PROVIDER": "use",
        "RAG__EMBEDDING__CALIBRATION": str(root / "calibration.json"),
        "RAG__KNOWLEDGE__SOURCE": str(root / "no-runbooks"),
        "RAG__KNOWLEDGE__UPLOADS": str(root / "uploads"),
        "RAG__AUDIT__OUTBOX": str(root / "outbox"),
        "RAG__AUDIT__TIMEOUT": "5",
        "RAG__RETRIEVAL__BRANCH_TIMEOUT": "30",
        "RAG__RETRIEVAL__LOOKUP_TIMEOUT": "60",
        "RAG__EMBEDDING__TIMEOUT": "30",
        "RAG__EVALUATION__FOLDER": str(found.folder),
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings.items():
            patched.setenv(name, value)
        yield found
    milvus_server.stop(root / "milvus.db")


def test_seed_snapshot_accept_live_and_what_each_refuses(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    """One installation from empty to a change that is caught; the steps stand on each other."""

    def run(*args: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["eval", *args])
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    def data(*args: str) -> tuple[int, Any]:
        code, out, err = run(*args, "--json")
        assert not err
        return code, json.loads(out)

    fixtures = installation.folder / "fixtures"

    # without the seed corpus nothing is frozen
    code, out, err = run("snapshot")
    assert (code, out) == (1, "")
    assert err == "error: no snapshot without the seed corpus: the evaluation has no index; run `eval seed` first\n"
    assert not fixtures.exists()
    assert run("live") == (
        1,
        "",
        "error: nothing to run the cases over: the evaluation has no index; run `eval seed` first\n",
    )

    # the seed corpus, once
    assert data("seed") == (0, {"generation": 1, "built": True})
    assert data("seed") == (0, {"generation": 1, "built": False})

    # both modes frozen, with what the index knows of every labelled text
    code, found = data("snapshot", "--depth", "10")
    assert (code, [(s["mode"], s["cases"]) for s in found["snapshots"]]) == (0, [("hybrid", 2), ("dense", 2)])
    frozen = load_fixtures(fixtures, "hybrid").fixtures["pool"]
    assert (frozen.generation, frozen.search_mode, frozen.kb_scope) == (1, "hybrid", "rag-eval")
    assert frozen.probe is not None
    assert {p.anchor: bool(p.evidence_keys) for p in frozen.probe.passages} == {
        "no connection could be had": True,
        "Raise maxTotal to 200": True,
    }
    assert (frozen.probe.rank("bm25", "pool"), frozen.probe.rank("bm25", "lag")) == (1, None)

    # judged without the store, accepted, and the same again live
    assert run("accept", "--reason", "first run")[0] == 0
    assert run("offline", "--gate")[0] == 0
    before = {path: path.read_bytes() for path in installation.folder.rglob("*") if path.is_file()}
    code, found = data("live")
    assert (code, [row["passed"] for row in found["report"]["rows"]]) == (0, [True, True])
    assert found["difference"]["comparable"] is True
    assert {path: path.read_bytes() for path in installation.folder.rglob("*") if path.is_file()} == before

    # a reviewed case that does not hold
    installation.cases(expectedKeywords=["minIdle"])
    code, out, _ = run("live")
    assert code == 1
    assert "FAIL  pool  EVALUATED  expectedKeywords: not in what the agent reads: 'minIdle'" in out
    installation.cases()

    # an edited seed document makes the index stale: nothing is run over it, until it is seeded again
    installation.write("seed-docs/lag.md", LAG + "\nThen look for rebalances.\n")
    for command in ("snapshot", "live"):
        code, out, err = run(command)
        assert (code, out) == (1, "")
        assert "1 of 2 seed documents differ from the index, first lag" in err
    assert data("seed") == (0, {"generation": 2, "built": True})
    assert run("snapshot", "--mode", "hybrid", "--depth", "0")[0] == 0
    assert load_fixtures(fixtures, "hybrid").fixtures["pool"].generation == 2

    # another corpus than that of the baseline is not comparable, which is no pass; two indexes are not compared
    code, out, _ = run("offline", "--gate")
    assert code == 1
    assert "not_comparable: corpus: " in out
    assert run("compare")[0] == 2
