"""The runbooks of the browser tests: Chinese and English, near-twins, one of twenty sections, and three that attack."""

from __future__ import annotations

from pathlib import Path
from typing import Final

POOL: Final = """---
title: Redis 连接池耗尽排查
category: redis
keywords: [redis, 连接池, 连接池耗尽]
---
# 现象

应用日志出现 JedisConnectionException: Could not get a resource from the pool，接口响应变慢，错误码 RDS-4471。

# 处理

连接池耗尽时先看 maxTotal：把它调到 200，再检查是否有连接借出后没有归还。
"""
POOL_LEAK: Final = """---
title: Redis 连接泄漏排查
category: redis
keywords: [redis, 连接泄漏]
---
# 现象

应用日志出现 JedisConnectionException: Could not get a resource from the pool，接口响应变慢，重启后恢复。

# 处理

连接没有归还：在 finally 中关闭 Jedis，打开 testOnReturn，观察连接数是否持续增长。
"""
POOL_OLD: Final = """---
title: Redis 2.x 连接池耗尽排查（旧版）
category: redis
keywords: [redis, 连接池, 旧版]
---
# 现象

旧版客户端的连接池耗尽时抛出 JedisException，接口响应变慢。

# 处理

旧版参数叫 maxActive，把它调到 100；新版见 maxTotal。
"""
LAG: Final = """---
title: Kafka consumer lag keeps growing
category: kafka
keywords: [kafka, consumer lag]
---
# Check

Compare the produce rate with the consume rate of the group. Add consumers up to the number of partitions.
"""
REBALANCE: Final = """---
title: Kafka consumer group keeps rebalancing
category: kafka
keywords: [kafka, rebalance]
---
# Check

Consumer lag grows because the group rebalances again and again: raise max.poll.interval.ms above the slowest batch.
"""
CRASH: Final = """---
title: KubePodCrashLooping
category: kubernetes
keywords: [KubePodCrashLooping, CrashLoopBackOff]
---
# Alert

A container restarts again and again. Read the log of the previous container, then its exit code: 137 is out of memory.
"""
OOM: Final = """---
title: JVM 内存溢出
category: jvm
keywords: [jvm, 内存溢出, OutOfMemory]
aliases:
  OOM: OutOfMemory
---
# 现象

进程因 OutOfMemoryError 退出。保留堆转储，用 jmap 找出占用最多的对象。
"""
DEADLOCK: Final = """---
title: MySQL 死锁
category: mysql
keywords: [mysql, 死锁]
---
# 排查

执行 SHOW ENGINE INNODB STATUS，找到最近一次死锁的两个事务，统一加锁顺序。
"""
DNS: Final = """---
title: DNS lookups time out
category: network
keywords: [dns, resolver]
---
# Check

Query the resolver with dig from the affected node and compare with another node. Look for dropped UDP packets.
"""
DISK: Final = """---
title: 磁盘空间不足
category: storage
keywords: [磁盘, 空间不足]
---
# 处理

用 du 找到最大的目录，先清理轮转过的日志，再看是否有被删除但仍被进程占用的文件。
"""
HANDBOOK_SECTIONS: Final = 20
DOLLARS: Final = "费用为 $114.22 至 $167.88，变量 $PATH 与 $HOME，$$ 双符号，范围 10~20 与 30~40。"
DOLLARS_PAGE: Final = f"""---
title: 金额 $1 与 $2
category: 界面
keywords: [金额]
---
# 金额

{DOLLARS}
"""
HTML_TITLE: Final = "<img src=x onerror=document.title='OWNED-title'>"
HTML_LINES: Final = (
    "<script>document.title='OWNED-script'</script>",
    '<iframe src="https://kb.example.invalid/frame"></iframe>',
    '<form action="https://kb.example.invalid/form"><input name=a></form>',
    "<style>body{display:none}</style>",
    "HTML-MARKER 正文，忽略标签。",
)
HTML_PAGE: Final = "\n".join(
    (
        "---",
        f'title: "{HTML_TITLE}"',
        "category: \"<b onmouseover=document.title='OWNED-category'>界面</b>\"",
        "keywords: [HTML-MARKER]",
        "---",
        "# <svg onload=document.title='OWNED-heading'>",
        "",
        "\n\n".join(HTML_LINES),
        "",
    )
)
CALLOUTS: Final = (
    "![p](https://kb.example.invalid/p.png?q=LEAK)",
    '<img src="https://kb.example.invalid/h.png">',
    "![m](http://169.254.169.254/latest/meta)",
    "![f](file:///etc/hostname)",
    "![r][ref]",
    "[ref]: https://kb.example.invalid/r.png",
    "[click](https://kb.example.invalid/link)",
    "<https://kb.example.invalid/auto>",
    "CALLOUT-MARKER",
)
CALLOUT_PAGE: Final = (
    "---\ntitle: '![t](https://kb.example.invalid/t.png)'\ncategory: 界面\n---\n# 外链\n\n" + "\n\n".join(CALLOUTS)
)


def handbook() -> str:
    """One document of twenty sections, each with a term of its own."""
    head = "---\ntitle: 值班手册\ncategory: operations\nkeywords: [值班, handbook]\n---\n"
    return head + "\n".join(
        f"# 第 {n} 节\n\n值班步骤 {n}：检查项 DUTY-{n:03d}，联系人按轮值表，记录时间与结论，交接时复述一遍。\n"
        for n in range(1, HANDBOOK_SECTIONS + 1)
    )


def documents() -> dict[str, str]:
    """Text by path below the source folder."""
    return {
        "redis/pool.md": POOL,
        "redis/leak.md": POOL_LEAK,
        "redis/pool-old.md": POOL_OLD,
        "kafka/lag.md": LAG,
        "kafka/rebalance.md": REBALANCE,
        "kubernetes/crash.md": CRASH,
        "jvm/oom.md": OOM,
        "mysql/deadlock.md": DEADLOCK,
        "network/dns.md": DNS,
        "storage/disk.md": DISK,
        "handbook.md": handbook(),
        "hostile/dollars.md": DOLLARS_PAGE,
        "hostile/html.md": HTML_PAGE,
        "hostile/callout.md": CALLOUT_PAGE,
    }


def more() -> dict[str, str]:
    """Eight documents that came later, all distinct."""
    return {
        f"later/{n}.md": f"---\ntitle: Later {n}\ncategory: later\n---\nStep {n}: compare node{n * 37} with rack{n * 11}.\n"
        for n in range(8)
    }


def write(folder: Path, texts: dict[str, str]) -> None:
    """Writes ``texts`` below ``folder``."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
