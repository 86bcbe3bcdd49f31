"""``python -m benchmarks [NAME…]``: each module of this package with a ``main()`` prints its own figures."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time

import benchmarks


def names() -> list[str]:
    """Every benchmark, by name: the modules that have a ``main``."""
    found = (m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_"))
    return sorted(name for name in found if hasattr(importlib.import_module(f"benchmarks.{name}"), "main"))


def main(wanted: list[str]) -> int:
    known = names()
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"error: no benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in wanted or known:
        print(f"\n## {name}", flush=True)
        start = time.perf_counter()
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"({time.perf_counter() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
