"""Queries whose driver, executors, gateways and bookies are killed and stopped; and drivers that are taken over."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from spark.campaign import LOCAL, LOCAL_CLUSTER, Gateways, Query, Round, seed_of, until
from spark.query_kinds import KINDS

from walkeeper_bookie.cluster import LocalCluster

ROUNDS = os.environ.get("WALKEEPER_SPARK_KILLS")
FAULTS = 5 if ROUNDS else 2
CHAIN = 10
"""So many takeovers of one query."""


@pytest.fixture(scope="module")
def done() -> Iterator[dict[str, int]]:
    """What all rounds did together."""
    counts: dict[str, int] = {}
    yield counts
    print("\nin all:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


@pytest.mark.parametrize("number", range(int(ROUNDS or 1)))
def test_every_row_counts_once_whatever_is_killed(number: int, tmp_path: Path, done: dict[str, int]) -> None:
    seed = seed_of(number)
    source, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    with ExitStack() as stack:
        cluster = None
        if source.random() < 0.75:
            cluster = stack.enter_context(LocalCluster(tmp_path / "bookies", 3))
            cluster.start()
        root = str(tmp_path / "wal") if cluster is None else cluster.metadata
        gateways = Gateways(tmp_path, root, 1 if cluster is None else 2)
        stack.callback(gateways.close)
        print(kind.name, "in a directory" if cluster is None else "over three bookies", flush=True)
        made = Round(kind, tmp_path, source, gateways, cluster)
        batches = made.run(FAULTS)
    print(f"{batches} batches", flush=True)
    for name, count in {**made.faults, "batches": batches, "rounds": 1}.items():
        done[name] = done.get(name, 0) + count


@pytest.mark.skipif(ROUNDS is None, reason="test_checkpoint.py has two drivers; `make spark-kills` has more of them")
@pytest.mark.parametrize("first", range(0, int(ROUNDS or 0), CHAIN))
def test_the_newest_of_two_drivers_survives_whenever_the_older_goes_on(
    first: int, tmp_path: Path, done: dict[str, int]
) -> None:
    """The older one stands still, at any moment, and goes on while the newer one starts, or later. It ends, and names
    the newer one, which is the older one of the next round."""
    seed = seed_of(first)
    kinds = KINDS[1:]  # files that Spark's file sink writes know no owner
    source, kind = random.Random(seed), kinds[seed // CHAIN % len(kinds)]
    rounds = min(CHAIN, int(ROUNDS or 0) - first)
    with LocalCluster(tmp_path / "bookies", 3) as cluster, ExitStack() as stack:
        cluster.start()
        gateways = Gateways(tmp_path, cluster.metadata, 2)
        stack.callback(gateways.close)
        query = Query(kind, tmp_path, kind.settings(source), gateways.addresses)
        stack.callback(query.close)
        newest = query.start(LOCAL)
        query.go_on(newest)
        for _ in range(rounds):
            older = newest
            query.feed(source.randint(1, 3))
            time.sleep(source.uniform(0, 1.5))
            older.signal(signal.SIGSTOP)
            newest = query.start(LOCAL_CLUSTER if source.random() < 0.25 else LOCAL)
            if source.random() < 0.5:
                query.go_on(newest)
            else:
                time.sleep(source.uniform(0, 12))
            older.signal(signal.SIGCONT)
            until(lambda: newest.owns, "the newer driver starts", newest)  # noqa: B023
            query.go_on(newest)
            until(lambda: older.process.poll() is not None, "the older driver ends")  # noqa: B023
            assert "FencedException" in older.said(), older.said()
            assert f" was taken over by process {newest.jvm} on " in older.said(), older.said()
        batches = query.finish(newest)
    print(f"{kind.name}: {rounds} takeovers, {batches} batches", flush=True)
    for name, count in {"batches": batches, "takeovers": rounds}.items():
        done[name] = done.get(name, 0) + count
