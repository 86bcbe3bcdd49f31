"""The same files give the same ids, chunks, tokens and matches in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

READ = """
import sys
from pathlib import Path
from core.analysis import tokens
from core.knowledge.chunk import chunk_body
from core.knowledge.l0 import DocumentL0
from core.knowledge.source import read_source
from core.model import Document, Scopes

scan = read_source(Path(sys.argv[1]))
print(ascii(scan))
for d in scan.documents:
    print(ascii([(c, tokens(c.text)) for c in chunk_body(d.title, d.body, target=20, maximum=40)]))
known = [Document(d.doc_id, d.source, d.title, d.category, d.kb_scope, 1, "", d.keywords, d.aliases) for d in scan.documents]
print(ascii(DocumentL0(known).match("Redis redis OOM lag 连接池", Scopes(frozenset({"default"})))))
"""


def test_two_processes_with_other_hash_seeds_agree(tmp_path: Path) -> None:
    for name in ("b", "a", "A", "é", "目录/文"):
        path = tmp_path / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        meta = (
            f"---\ncategory: c{len(name)}\nkeywords: [Redis, redis, lag, 连接池, w{name}]\naliases: [OOM, oom]\n---\n"
        )
        path.write_text(
            f"{meta}# 题 {name}\n\n" + "连接池耗尽，先看等待队列。\n\n## 节\n\nKubePodCrashLooping v2.3.1\n" * 3
        )
    said = [
        subprocess.run(
            [sys.executable, "-c", READ, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert said[0].count(b"ChunkPiece") > 10
