"""A query whose driver, executors, gateways and bookies are killed and stopped at random moments, and what must be true
in the end: its state and its sink hold each row of its input once.

`WALKEEPER_SPARK_KILLS=N` is so many rounds in place of a few (`make spark-kills N=…`); a seed is printed, and
`WALKEEPER_TEST_SEED` repeats what is done and when, though not what comes of it.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from ports import free_port
from spark.query_kinds import Kind, Row, flush_row, left_rows, right_rows
from spark_session import LIGHT

import walkeeper_spark_checkpoint as wks
from walkeeper_bookie.cluster import BookieProcess, LocalCluster

__all__ = ["LOCAL", "LOCAL_CLUSTER", "TOKEN", "Driver", "Gateways", "Query", "Round", "seed_of", "until"]

DRIVER = Path(__file__).with_name("campaign_driver.py")
PATIENCE_S = 240
LOCATION = "walkeeper:///app/campaign"
TOKEN = "campaign"
LOCAL = "local[2]"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
"""Two executors, each a JVM of its own."""
SETTINGS = LIGHT | {
    "spark.executor.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.minBatchesToRetain": "3",
    "spark.sql.streaming.stateStore.maintenanceInterval": "3s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.fileSource.log.compactInterval": "4",
}
"""Old batches are deleted and snapshots are made within a round, too."""


def seed_of(number: int) -> int:
    """What round `number` of a run is made by; it is another one each time."""
    seed = int(os.environ.get("WALKEEPER_TEST_SEED", time.time_ns() % 10**9)) + number
    print(f"WALKEEPER_TEST_SEED={seed}", flush=True)
    return seed


def until(condition: Callable[[], object], what: str, driver: Driver | None = None) -> None:
    """It becomes true, and the driver lives."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert driver is None or driver.process.poll() is None, f"{what}: the driver ended\n{driver.said()}"
        assert time.monotonic() < deadline, f"{what}: not in {PATIENCE_S} s\n{driver.said() if driver else ''}"
        time.sleep(0.05)


def spark_home(place: Path) -> Path:
    """A directory like pyspark's own, in which executors make theirs."""
    place.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (place / entry.name).symlink_to(entry)
    return place


class Gateways:
    """Processes of gateways, each at an address that it keeps."""

    def __init__(self, place: Path, root: str, count: int) -> None:
        self._place, self._root = place, root
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        (place / "token").write_text(TOKEN + "\n")
        for number in range(count):
            self.start(number)

    def start(self, number: int) -> None:
        """Again, if it was killed. It listens when this returns."""
        log = self._log(number)
        before = log.read_text().count(" is served at ") if log.exists() else 0
        options = ["--root", self._root, "--listen", self.addresses[number], "--token-file", str(self._place / "token")]
        with log.open("ab") as out:
            process = self.processes[number] = subprocess.Popen(
                [sys.executable, "-m", "walkeeper", "gateway", *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE_S
        while log.read_text().count(" is served at ") == before:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def signal(self, number: int, what: signal.Signals) -> None:
        process = self.processes[number]
        assert process.poll() is None, self._log(number).read_text()
        process.send_signal(what)

    def kill(self, number: int) -> None:
        self.signal(number, signal.SIGKILL)
        self.processes[number].wait()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def _log(self, number: int) -> Path:
        return self._place / f"gateway{number}.log"


class Driver:
    """A process with a query, its JVM, and the JVMs of its executors."""

    def __init__(self, place: Path, number: int, arguments: Iterable[str], home: Path) -> None:
        self.log = place / f"driver{number}.log"
        self._progress = place / f"driver{number}.progress"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), *arguments, str(self._progress)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=place,
                env=os.environ
                | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            )

    def said(self) -> str:
        return self.log.read_text()

    @property
    def jvm(self) -> int:
        """Its process, once it has said so."""
        found = re.search(r"^JVM (\d+)$", self.said(), re.MULTILINE)
        assert found, self.said()
        return int(found[1])

    @property
    def owns(self) -> bool:
        """It has taken the checkpoint over."""
        return "\nstarted\n" in self.said()

    def committed(self) -> int:
        """The last batch that it is known to have committed; -1."""
        with suppress(FileNotFoundError):
            return int(self._progress.read_text())
        return -1

    def executors(self) -> list[int]:
        """Processes that run now."""
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                of_this_driver = os.getpgid(int(directory.name)) == self.process.pid
                if of_this_driver and b"CoarseGrainedExecutorBackend" in (directory / "cmdline").read_bytes():
                    found.append(int(directory.name))
        return sorted(found)

    def signal(self, what: signal.Signals) -> None:
        """To all of its processes."""
        os.killpg(self.process.pid, what)

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # nothing of it is left
            self.signal(signal.SIGKILL)
        self.process.wait()


class Query:
    """Its input, its drivers, and what its sink has."""

    def __init__(self, kind: Kind, place: Path, settings: dict[str, str], addresses: Sequence[str]) -> None:
        self.kind, self.place = kind, place
        self._home = spark_home(place / "spark-home")
        self._settings = SETTINGS | {"spark.jars": wks.jar(), **wks.settings(addresses, TOKEN)} | settings
        self.files = 0
        self.drivers: list[Driver] = []
        for name in ("left", "right", "out"):
            (place / name).mkdir()

    def start(self, master: str = LOCAL_CLUSTER, settings: Mapping[str, str] | None = None) -> Driver:
        """`settings` are this driver's, beside those of all drivers."""
        given = json.dumps({**self._settings, **(settings or {})})
        arguments = (self.kind.name, master, given, str(self.place), LOCATION)
        self.drivers.append(Driver(self.place, len(self.drivers), arguments, self._home))
        return self.drivers[-1]

    def feed(self, count: int) -> None:
        """So many files more, of each input."""
        for _ in range(count):
            self._add("left", left_rows(self.files))
            self._add("right", right_rows(self.files))
            self.files += 1

    def go_on(self, driver: Driver) -> None:
        """The driver commits two batches more."""
        wanted = max(one.committed() for one in self.drivers) + 2
        self.feed(2)
        until(lambda: driver.committed() >= wanted, f"batch {wanted}", driver)

    def finish(self, driver: Driver) -> int:
        """All input is processed, and the driver ends by itself. Then sink and state are what they must be; the number
        of batches."""
        files = self.files
        if self.kind.two_inputs:
            for side in ("left", "right"):
                self._add(side, [flush_row(files)])
        (self.place / "end").touch()
        until(lambda: driver.process.poll() is not None, "the driver ends")
        assert driver.process.returncode == 0, driver.said()
        found = json.loads((self.place / "result.json").read_text())
        assert sorted(found["state"]) == self.kind.state(files), "state"
        rows = found["rows"] if self.kind.name == "stateless" else self._of_batches()
        assert sorted(rows, key=str) == sorted(self.kind.rows(files), key=str), "sink"
        return int(found["batches"])

    def close(self) -> None:
        for driver in self.drivers:
            driver.kill()

    def _of_batches(self) -> list[list[Any]]:
        """What the batches wrote together. A batch that was written several times was the same each time."""
        versions: dict[int, list[list[Any]]] = {}
        for path in self.place.joinpath("out").glob("*.json"):
            number, rows = int(path.name.partition(".")[0]), json.loads(path.read_text())
            assert versions.setdefault(number, rows) == rows, f"batch {number} was written in two versions"
        assert sorted(versions) == list(range(len(versions))), "a batch is missing"
        if self.kind.updates:
            return list({row[0]: row for number in sorted(versions) for row in versions[number]}.values())
        return [row for rows in versions.values() for row in rows]

    def _add(self, side: str, rows: list[Row]) -> None:
        part = self.place / f"{side}.part"
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.replace(part, self.place / side / f"{self.files:04}.json")


class Round:
    """A query, and faults one after the other. Behind each the query goes on by itself."""

    def __init__(
        self, kind: Kind, place: Path, source: random.Random, gateways: Gateways, cluster: LocalCluster | None
    ) -> None:
        self.source, self.gateways, self.cluster = source, gateways, cluster
        self.faults = Counter[str]()
        self._kind, self._place = kind, place

    def run(self, faults: int) -> int:
        """So many, each another; the number of batches."""
        settings = self._kind.settings(self.source)
        self.query = Query(self._kind, self._place, settings, self.gateways.addresses)
        try:
            self.query.feed(2)
            self.driver = self.query.start()
            self.query.go_on(self.driver)
            for fault in self.source.sample(self.all_faults(), faults):
                self.faults[fault.__name__] += 1
                print(fault.__name__, flush=True)
                self.query.feed(self.source.randint(1, 3))
                self.pause(0, 1.5)
                fault()
                self.query.go_on(self.driver)
            return self.query.finish(self.driver)
        finally:
            self.query.close()

    def pause(self, least: float, most: float) -> None:
        time.sleep(self.source.uniform(least, most))

    # ---- faults ----

    def kill_driver(self) -> None:
        self.driver.kill()
        self.driver = self.query.start()

    def kill_driver_that_starts(self) -> None:
        self.kill_driver()
        self.pause(0, 12)
        self.kill_driver()

    def kill_executor(self) -> None:
        until(self.driver.executors, "an executor", self.driver)
        os.kill(self.source.choice(self.driver.executors()), signal.SIGKILL)

    def kill_gateway(self) -> None:
        """Where there is another it takes over."""
        number = self.any_gateway()
        self.gateways.kill(number)
        self.pause(0, 3)
        self.gateways.start(number)

    def kill_all_gateways(self) -> None:
        for number in self.gateways.processes:
            self.gateways.kill(number)
        self.pause(0, 3)
        for number in self.gateways.processes:
            self.gateways.start(number)

    def kill_gateway_and_driver(self) -> None:
        number = self.any_gateway()
        self.gateways.kill(number)
        self.driver.kill()
        self.driver = self.query.start()
        self.pause(0, 3)
        self.gateways.start(number)

    def stop_gateway(self) -> None:
        """It stands still, and goes on."""
        number = self.any_gateway()
        self.gateways.signal(number, signal.SIGSTOP)
        self.pause(0.1, 5)
        self.gateways.signal(number, signal.SIGCONT)

    def hang_gateway(self) -> None:
        """It stands still until the other one serves all; then it is told that it has lost the root."""
        number = self.any_gateway()
        self.gateways.signal(number, signal.SIGSTOP)
        self.query.go_on(self.driver)
        self.gateways.signal(number, signal.SIGCONT)

    def kill_bookie(self) -> None:
        bookie = self.any_bookie()
        self._end(bookie)
        self.pause(0, 2)
        self._again(bookie)

    def stop_bookie(self) -> None:
        process = self.any_bookie().process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        self.pause(0.1, 5)
        process.send_signal(signal.SIGCONT)

    def kill_bookie_and_gateway(self) -> None:
        number, bookie = self.any_gateway(), self.any_bookie()
        self._end(bookie)
        self.gateways.kill(number)
        self.gateways.start(number)
        self.pause(0, 2)
        self._again(bookie)

    def all_faults(self) -> tuple[Callable[[], None], ...]:
        everywhere = (
            *(self.kill_driver, self.kill_driver_that_starts, self.kill_executor, self.kill_gateway),
            *(self.kill_all_gateways, self.kill_gateway_and_driver, self.stop_gateway),
        )
        of_clusters = (self.hang_gateway, self.kill_bookie, self.stop_bookie, self.kill_bookie_and_gateway)
        return everywhere if self.cluster is None else everywhere + of_clusters

    def any_gateway(self) -> int:
        return self.source.choice(list(self.gateways.processes))

    def any_bookie(self) -> BookieProcess:
        assert self.cluster is not None
        return self.source.choice(self.cluster.bookies)

    def _end(self, bookie: BookieProcess) -> None:
        assert bookie.process is not None
        bookie.process.kill()
        bookie.process.wait()

    def _again(self, bookie: BookieProcess) -> None:
        assert self.cluster is not None
        self.cluster.launch_one(bookie)
        until(lambda: bookie.ready, "a bookie is ready")
