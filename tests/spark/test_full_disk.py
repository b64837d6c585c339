"""Checkpoints in a directory whose disk is full, slow, or silent: the query waits for it, or ends and says why."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_client import GatewayClient
from small_file_system import SmallFileSystem, mounted
from spark.campaign import LOCAL, TOKEN, Driver, Query, seed_of, until
from spark.query_kinds import KINDS

from walkeeper.gateway import Gateway
from walkeeper.gateway._protocol import Status

MIB = 2**20
KIND = next(kind for kind in KINDS if kind.name == "aggregation_rocksdb_v2")
TIMEOUT_MS = 5_000
IMPATIENT = {"spark.hadoop.walkeeper.gateway.timeout.ms": str(TIMEOUT_MS)}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallFileSystem]:
    with mounted(tmp_path, 64 * MIB) as made:
        yield made


@pytest.fixture
def gateway(disk: SmallFileSystem) -> Iterator[Gateway]:
    with Gateway(disk.path / "wal", token=TOKEN, file_size_min=MIB // 4, file_size_max=MIB // 4) as made:
        yield made


def ends(driver: Driver, query: Query) -> str:
    """The query fails, sooner or later; what its driver said."""
    while driver.process.poll() is None:
        before = driver.committed()
        query.feed(1)
        until(lambda: driver.process.poll() is not None or driver.committed() > before, "a batch or the end")  # noqa: B023
    assert driver.process.returncode != -signal.SIGKILL
    assert f"answered for good in {TIMEOUT_MS} ms" in driver.said(), driver.said()
    return driver.said()


def waits(driver: Driver, query: Query, disk: SmallFileSystem, gateway: Gateway) -> None:
    """The query goes on when the disk has room, and between the times at which the disk stands still."""
    source = random.Random(seed_of(0))
    disk.fill()
    with GatewayClient(gateway) as client:
        until(lambda: client.put("/app/probe", bytes(10_000), replaces=True).status != Status.OK, "no room is left")
    query.feed(2)
    time.sleep(source.uniform(0, 3))
    disk.make_room()
    query.go_on(driver)
    query.feed(5)
    for _ in range(20):
        with disk.standing_still():
            time.sleep(source.uniform(0.02, 0.3))
        time.sleep(source.uniform(0, 0.1))
    query.go_on(driver)


def test_a_query_ends_where_the_disk_is_full_or_silent_for_too_long_and_waits_where_it_is_for_a_while(
    disk: SmallFileSystem, gateway: Gateway, tmp_path: Path
) -> None:
    query = Query(KIND, tmp_path, KIND.stores[0], gateway.addresses)
    try:
        first = query.start(LOCAL, IMPATIENT)
        query.go_on(first)
        disk.fill()
        assert "the disk is full" in ends(first, query)
        disk.make_room()
        second = query.start(LOCAL, IMPATIENT)
        query.go_on(second)
        with disk.standing_still():
            assert "did not answer in" in ends(second, query)
        third = query.start(LOCAL)
        query.go_on(third)
        waits(third, query, disk, gateway)
        query.finish(third)
    finally:
        query.close()
