"""
Row 13. How much memory does a bookie take that has nothing to do? Resident memory of the process, 15 seconds after it
was ready: ours on sqlite metadata, and on ZooKeeper beside it; Java's on ZooKeeper, for it has no other store on one
machine. ZooKeeper's own process is not counted.
"""

from __future__ import annotations

import time
from typing import Any

from harness.bench import MIB
from harness.result import Answer, at_least

from bookies.bench import BookieBench
from bookies.process import resident_bytes

ROWS = (13,)
WHY: dict[int, str] = {}


def measure(bench: BookieBench) -> list[Answer]:
    zookeeper = bench.zookeeper()
    wait = 3.0 if bench.quick else 15.0

    def cell() -> dict[str, Any]:
        with bench.cell():
            root = f"resident-{bench.ledgers()}"
            servers = {
                "sqlite": bench.ours(),
                "zookeeper": bench.ours(metadata=zookeeper.uri_of(root)),
                "default": bench.java("default"),
                "tuned": bench.java("tuned"),
            }
            time.sleep(wait)
            return {name: resident_bytes(server.pid) for name, server in servers.items()}

    rounds = bench.rounds({"idle": cell}, timed=False)
    return [
        bench.compare(
            13,
            f"resident memory of an idle bookie: Java {kind} / ours on {store}",
            rounds,
            "idle",
            "idle",
            (kind, store),
            goal,
            unit="MiB",
            scale=1 / MIB,
            reference_name=f"ours on {store}",
        )
        for kind, store, goal in (
            ("default", "sqlite", at_least(4, 7)),
            ("tuned", "sqlite", None),
            ("default", "zookeeper", None),
        )
    ]
