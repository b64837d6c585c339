"""What the cells share: payload, trimming, the line of JSON. A cell runs alone in its process."""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

WARM_BYTES = 1 << 30
"""As the C driver: files grow to their full size, and the pool to what the trimming needs."""

ABSENT = 77
"""Exit status that says: what this cell measures is not installed."""


def need(name: str) -> Any:
    """Imports a module, or leaves with the status that makes the table say it is absent."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"{name} cannot be imported: {error}", file=sys.stderr)
        raise SystemExit(ABSENT) from error


def payload_of(size: int) -> bytes:
    """Bytes that nothing below can compress; the same ones each time."""
    return random.Random(7).randbytes(size)


def cpu_seconds() -> float:
    return time.process_time()


class Trimmer:
    """Truncates a log to its last `every` to 2 x `every` bytes as it goes; 0 never."""

    def __init__(self, log: Any, every: int) -> None:
        self._log, self._every, self._since, self._mark = log, every, 0, None

    def accepted(self, size: int, at: Any) -> None:
        self._since += size
        if self._every == 0 or self._since < self._every:
            return
        if self._mark is not None:
            self._log.truncate(self._mark)
        self._mark, self._since = at, 0


def report(samples: Sequence[int], records: int, start_ns: int, cpu_at_start: float, size: int) -> None:
    """Prints the cell's answer."""
    seconds = (time.perf_counter_ns() - start_ns) / 1e9
    ordered = sorted(samples)

    def quantile(q: float) -> int:
        return ordered[min(int(q * len(ordered)), len(ordered) - 1)]

    print(
        json.dumps(
            {
                "seconds": seconds,
                "samples": len(ordered),
                "records": records,
                "rate": records / seconds,
                "payload_rate": records * size / seconds,
                "p50_ns": quantile(0.5),
                "p99_ns": quantile(0.99),
                "p999_ns": quantile(0.999),
                "max_ns": ordered[-1],
                "process_cpu_ns": int((cpu_seconds() - cpu_at_start) * 1e9),
            }
        )
    )
