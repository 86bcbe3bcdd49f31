"""A synthetic corpus: chunks of a plausible length and vocabulary, with random unit vectors (embedding thousands of
chunks would take most of an hour)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from core.analysis import search_text
from core.model import Chunk, Document, IndexRow, evidence_key

CATEGORIES: Final = ("redis", "mysql", "kafka", "kubernetes", "jvm", "network", "storage", "monitoring")
_CHINESE: Final = [
    "连接池",
    "耗尽",
    "超时",
    "延迟",
    "升高",
    "分区",
    "消费者",
    "内存",
    "溢出",
    "淘汰",
    "策略",
    "慢查询",
    "锁等待",
    "主从",
    "切换",
    "磁盘",
    "水位",
    "告警",
    "恢复",
    "扩容",
    "限流",
    "熔断",
    "重启",
    "日志",
    "指标",
    "采样",
    "线程",
    "阻塞",
    "队列",
    "积压",
    "网络",
    "抖动",
    "丢包",
    "域名",
    "解析",
    "证书",
    "过期",
    "节点",
    "驱逐",
    "镜像",
    "拉取",
    "失败",
    "配置",
    "回滚",
    "检查",
    "排查",
    "原因",
    "现象",
    "处理",
    "步骤",
    "参数",
    "阈值",
    "负载",
    "均衡",
    "副本",
    "同步",
    "快照",
    "备份",
]
_ENGLISH: Final = [
    "timeout",
    "connection",
    "pool",
    "maxTotal",
    "OOMKilled",
    "CrashLoopBackOff",
    "lag",
    "rebalance",
    "replica",
    "deadlock",
    "heap",
    "GC",
    "pause",
    "fsync",
    "iowait",
    "DNS",
    "TLS",
    "certificate",
    "node_exporter",
    "kubelet",
    "etcd",
    "latency",
    "throughput",
    "retry",
    "backoff",
    "E-1024",
    "v2.3.1",
    "max_connections",
]
CHUNK_CHARS: Final = 600


def rows(documents: int, chunks_each: int, dimension: int, seed: int = 7) -> Iterator[IndexRow]:
    """``documents`` × ``chunks_each`` rows; categories take turns, scope and revision are the defaults."""
    chance, numbers = random.Random(seed), np.random.default_rng(seed)
    for number in range(documents):
        category = CATEGORIES[number % len(CATEGORIES)]
        for index in range(chunks_each):
            text = content(chance)
            doc_id = f"{category}/{number:04}"
            chunk = Chunk(
                evidence_key=evidence_key(doc_id, index),
                doc_id=doc_id,
                chunk_index=index,
                content=text,
                title=f"{category} 手册 {number}",
                breadcrumb=f"{category} 手册 {number} > 第 {index} 节",
                source=f"{doc_id}.md",
                category=category,
                revision=1,
            )
            yield IndexRow(chunk, search_text(f"{chunk.title}\n{chunk.breadcrumb}\n{text}"), unit(numbers, dimension))


def documents_of(made: list[IndexRow]) -> list[Document]:
    """The documents behind ``made``, each with its category's name and two words as keywords."""
    first = {r.chunk.doc_id: r.chunk for r in made}
    return [
        Document(c.doc_id, c.source, c.title, c.category, c.kb_scope, 1, "", keywords=(c.category,))
        for c in first.values()
    ]


def queries(count: int, seed: int = 11) -> list[str]:
    """Distinct questions of the corpus' own words."""
    chance = random.Random(seed)
    return [f"{' '.join(chance.sample(_ENGLISH, 2))} {''.join(chance.sample(_CHINESE, 4))} {n}" for n in range(count)]


def content(chance: random.Random) -> str:
    words: list[str] = []
    length = 0
    while length < CHUNK_CHARS:
        word = chance.choice(_CHINESE) if chance.random() < 0.8 else f" {chance.choice(_ENGLISH)} "
        if chance.random() < 0.08:
            word += "。" if chance.random() < 0.5 else "\n"
        words.append(word)
        length += len(word)
    return "".join(words)


def unit(numbers: Any, dimension: int) -> Any:
    vector = numbers.standard_normal(dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)
