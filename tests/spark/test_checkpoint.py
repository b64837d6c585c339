"""Structured Streaming with its checkpoint in walkeeper: drivers that are killed, and two of them on one checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spark_session import LIGHT

import walkeeper_spark_checkpoint as wks
from walkeeper.gateway import Gateway
from walkeeper_bookie.cluster import LocalCluster

DRIVER = Path(__file__).with_name("counting_driver.py")
PATIENCE_S = 180
KEYS = 7
ROWS = 20
"""Of a file."""
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
}


def until(condition: Callable[[], object], what: str, driver: Driver | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert driver is None or driver.process.poll() is None, driver.said()
        assert time.monotonic() < deadline, (what, driver.said() if driver else "")
        time.sleep(0.05)


class Driver:
    """A process with a query, and its JVM."""

    def __init__(self, place: Path, number: int, settings: dict[str, str]) -> None:
        self.log = place / f"driver{number}.log"
        command = [sys.executable, str(DRIVER), json.dumps(settings), str(place / "in"), str(place / "out")]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "walkeeper:///app/counting"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text()

    def signal(self, number: int) -> None:
        """To the JVM, too."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()


class Query:
    """Rows that come in files, one a batch, and what is counted of them."""

    def __init__(self, place: Path, settings: dict[str, str]) -> None:
        self.place, self._settings = place, settings
        self.expected: dict[str, int] = {}
        self._files = 0
        self._drivers: list[Driver] = []
        (place / "in").mkdir()
        (place / "out").mkdir()

    def start(self) -> Driver:
        driver = Driver(self.place, len(self._drivers), self._settings)
        self._drivers.append(driver)
        return driver

    def add_files(self, count: int) -> None:
        for _ in range(count):
            keys = [f"key{row % (self._files % KEYS + 1)}" for row in range(ROWS)]
            part = self.place / f"{self._files}.part"
            part.write_text("".join(json.dumps({"key": key, "value": 1}) + "\n" for key in keys))
            os.replace(part, self.place / "in" / f"{self._files:04}.json")
            for key in keys:
                self.expected[key] = self.expected.get(key, 0) + 1
            self._files += 1

    def counts(self) -> dict[str, int]:
        """What the newest batch wrote. A batch has two files where a driver that was killed had noted the next one."""
        written = sorted((self.place / "out").glob("*.json"), key=lambda path: int(path.stem))
        return dict(json.loads(written[-1].read_text())) if written else {}

    def files_counted(self) -> int:
        return sum(self.counts().values()) // ROWS

    def all_counted(self) -> bool:
        return self.counts() == self.expected

    def close(self) -> None:
        for driver in self._drivers:
            driver.kill()


def settings_of(gateway: Gateway) -> dict[str, str]:
    return LIGHT | {"spark.jars": wks.jar(), **wks.settings(gateway.addresses, gateway.token)}


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "bookies", 3) as made:
        made.start()
        yield made


def test_a_stateful_query_goes_on_where_its_killed_driver_was(tmp_path: Path, bookies: LocalCluster) -> None:
    """State in RocksDB, the checkpoint on three bookies. The gateway is started anew in the middle."""
    with Gateway(bookies.metadata) as gateway:
        query = Query(tmp_path, settings_of(gateway) | ROCKSDB)
        listen, token = gateway.addresses[0], gateway.token
        try:
            query.add_files(3)
            first = query.start()
            until(lambda: query.files_counted() >= 2, "two files", first)
            first.signal(signal.SIGKILL)
            query.add_files(3)
            second = query.start()
            until(lambda: query.files_counted() >= 5, "five files", second)
            gateway.close()
            with Gateway(bookies.metadata, listen=listen, token=token):
                query.add_files(2)
                until(query.all_counted, "all is counted", second)
                query.close()
        finally:
            query.close()


def test_the_second_driver_fences_the_first(tmp_path: Path) -> None:
    """State in files. The first one was stopped, and goes on: it ends, and names who has the checkpoint."""
    with Gateway(tmp_path / "wal") as gateway:
        query = Query(tmp_path, settings_of(gateway))
        try:
            query.add_files(2)
            zombie = query.start()
            until(lambda: query.files_counted() >= 2, "two files", zombie)
            zombie.signal(signal.SIGSTOP)
            query.add_files(2)
            newest = query.start()
            until(query.all_counted, "all is counted by the second driver", newest)
            zombie.signal(signal.SIGCONT)
            query.add_files(2)
            until(lambda: zombie.process.poll() is not None, "the first driver ends")
            assert "FencedException" in zombie.said()
            assert "/app/counting was taken over by process" in zombie.said()
            until(query.all_counted, "the second goes on", newest)
        finally:
            query.close()
