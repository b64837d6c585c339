"""
Row 14. How long from the start of the process until it says that it is ready: on an empty directory, with sqlite and
with ZooKeeper metadata; and after kill -9 with a gibibyte of journal? Java's bookie beside it, on ZooKeeper.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.bench import GIB, MIB
from harness.result import Answer, Round, at_most

from bookies.bench import ENTRY, BookieBench

ROWS = (14,)
WHY: dict[int, str] = {}


def measure(bench: BookieBench) -> list[Answer]:
    zookeeper = bench.zookeeper()
    payload = 128 * MIB if bench.quick else GIB

    def empty(metadata: str | None = None) -> dict[str, Any]:
        with bench.cell():
            return {"seconds": bench.ours(metadata=metadata).start_seconds}

    def killed() -> dict[str, Any]:
        with bench.cell():
            place = bench.place()
            running = bench.ours(place=place)
            bench.filled(running, payload // ENTRY)
            running.kill()
            again = bench.ours(place=place)
            return {"seconds": again.start_seconds, "recovery": again.metric("walkeeper_recovery_seconds")}

    def java_empty(kind: str) -> dict[str, Any]:
        with bench.cell():
            return {"seconds": bench.java(kind).start_seconds}

    def java_killed() -> dict[str, Any]:
        with bench.cell():
            place = bench.place()
            running = bench.java("tuned", place)
            bench.filled(running, payload // ENTRY)
            running.kill()
            return {"seconds": bench.java("tuned", place).start_seconds}

    rounds = bench.rounds(
        {
            "sqlite": empty,
            "zookeeper": lambda: empty(zookeeper.uri_of(f"start-{bench.ledgers()}")),
            "killed": killed,
            "Java default": lambda: java_empty("default"),
            "Java tuned": lambda: java_empty("tuned"),
            "Java tuned, killed": java_killed,
        }
    )

    def seconds(name: str, of: Round) -> float:
        return float(of.cells[name]["seconds"])

    after = f"after kill -9 with {payload // MIB} MiB of journal"
    recovery = float(rounds[-1].cells["killed"]["recovery"])
    return [
        bench.bound(14, what, rounds, partial(seconds, name), goal, unit="s", note=note)
        for name, what, goal, note in (
            ("sqlite", "empty start to ready, sqlite", at_most(0.3, 0.15), ""),
            ("zookeeper", "empty start to ready, ZooKeeper", at_most(1, 0.5), ""),
            ("killed", f"{after}, sqlite", at_most(2, 0.5), f"{recovery:.2f} s of it recovery"),
            ("Java default", "Java default: empty start to ready", None, ""),
            ("Java tuned", "Java tuned: empty start to ready", None, ""),
            ("Java tuned, killed", f"Java tuned: {after}", None, ""),
        )
    ]
