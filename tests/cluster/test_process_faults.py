"""Writers and a follower in processes of their own, four bookies, and a history that is checked: whatever becomes of
the processes, every acknowledged append is there once, where the writer was told, and every reader sees the same.

`WALKEEPER_CLUSTER_FAULTS=N` is so many rounds in place of a few (`make cluster-faults N=…`); a seed is printed, and
`WALKEEPER_TEST_SEED` repeats what is done and when, though not what comes of it.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from cluster.history_client import FENCED, LOG

import walkeeper
from walkeeper_bookie.cluster import BookieProcess, LocalCluster

ROUNDS = int(os.environ.get("WALKEEPER_CLUSTER_FAULTS", "2"))
FAULTS = 5
"""Of each round, one after the other."""
LIVENESS_S = 60.0
"""Once all processes run again, the log can be written, and its follower has all of it, so soon."""
CLIENT = Path(__file__).with_name("history_client.py")


class History:
    """One log, its clients, and what they noted."""

    def __init__(self, cluster: LocalCluster, namespace: str, place: Path, source: random.Random) -> None:
        self.cluster, self.namespace, self.place, self.source = cluster, namespace, place, source
        self.writers: list[subprocess.Popen[bytes]] = []
        self.started = 0
        with walkeeper.open(cluster.metadata, namespace=namespace) as ns:
            ns.log(LOG)
        self.follower = self._client("follow", "follower")

    def _client(self, what: str, who: str) -> subprocess.Popen[bytes]:
        arguments = (what, self.cluster.metadata, self.namespace, who, str(self.place / who))
        with open(self.place / f"{who}.log", "ab") as log:
            return subprocess.Popen([sys.executable, str(CLIENT), *arguments], stdout=log, stderr=log)

    def write(self) -> None:
        """Another writer, which takes the log over."""
        self.started += 1
        self.writers.append(self._client("write", f"writer{self.started}"))

    def notes(self, who: str) -> list[tuple[int, bytes]]:
        with suppress(FileNotFoundError):
            lines = (self.place / who).read_bytes().splitlines(keepends=True)
            parts = [line.rstrip(b"\n").split(b" ") for line in lines if line.endswith(b"\n")]
            return [(int(sequence_id), payload) for sequence_id, payload in parts]
        return []

    def look(self) -> None:
        """Clients end by our hand, or as another writer has the log. One writes always."""
        assert self.follower.poll() is None, (self.place / "follower.log").read_text()
        for number, writer in enumerate(self.writers, 1):
            assert writer.poll() in (None, FENCED, -signal.SIGKILL), (self.place / f"writer{number}.log").read_text()
        if all(writer.poll() is not None for writer in self.writers):
            self.write()

    def pause(self, least: float, most: float) -> None:
        until = time.monotonic() + self.source.uniform(least, most)
        while time.monotonic() < until:
            self.look()
            time.sleep(0.02)

    def end(self) -> None:
        for process in (*self.writers, self.follower):
            if process.poll() is None:
                process.kill()
            process.wait()

    # ---- faults; each ends with all that was stopped running again ----

    def kill_bookie(self) -> None:
        bookie = self.source.choice(self.cluster.bookies)
        assert bookie.process is not None
        bookie.process.kill()
        bookie.process.wait()
        self.pause(0.1, 3)
        self.cluster.launch_one(bookie)
        ready(bookie)

    def stop_bookie(self) -> None:
        bookie = self.source.choice(self.cluster.bookies)
        assert bookie.process is not None
        bookie.process.send_signal(signal.SIGSTOP)
        try:
            self.pause(0.1, 6)
        finally:
            bookie.process.send_signal(signal.SIGCONT)

    def kill_writer(self) -> None:
        self.writers[-1].kill()

    def take_over(self) -> None:
        self.write()

    def stop_writer(self) -> None:
        """It goes on behind the takeover, and knows nothing of it."""
        stopped = self.writers[-1]
        stopped.send_signal(signal.SIGSTOP)
        try:
            self.write()
            self.pause(0.5, 3)
        finally:
            stopped.send_signal(signal.SIGCONT)

    def hold_metadata(self) -> None:
        """The metadata store answers nobody."""
        with closing(sqlite3.connect(self.cluster.metadata.partition(":")[2], timeout=30)) as store:
            store.execute("BEGIN EXCLUSIVE")
            self.pause(0.1, 2)
            store.rollback()

    def lose_a_bookie_and_the_writer(self) -> None:
        self.writers[-1].kill()
        self.kill_bookie()

    def all_faults(self) -> tuple[Callable[[], None], ...]:
        return (
            *(self.kill_bookie, self.stop_bookie, self.kill_writer, self.take_over, self.stop_writer),
            *(self.hold_metadata, self.lose_a_bookie_and_the_writer),
        )

    # ---- what must be ----

    def check(self) -> None:
        """Behind the last fault."""
        for writer in self.writers:
            if writer.poll() is None:
                writer.kill()
            writer.wait()
        with walkeeper.open(self.cluster.metadata, namespace=self.namespace) as ns:
            log = ns.log(LOG)
            until = time.monotonic() + LIVENESS_S
            with log.writer() as last:
                last.append(b"last")
            assert time.monotonic() < until
            found = [(one.position.sequence_id, bytes(one.payload)) for one in log.reader()]
        assert [sequence_id for sequence_id, _ in found] == list(range(len(found)))
        assert len({payload for _, payload in found}) == len(found)
        there = dict(found)
        for number in range(1, self.started + 1):
            for sequence_id, payload in self.notes(f"writer{number}"):
                assert there[sequence_id] == payload, (number, sequence_id)
        while len(self.notes("follower")) < len(found) and time.monotonic() < until:
            time.sleep(0.05)
        assert self.notes("follower") == found, (self.place / "follower.log").read_text()


def ready(bookie: BookieProcess) -> None:
    until = time.monotonic() + LIVENESS_S
    while not bookie.ready:
        assert time.monotonic() < until
        assert not bookie.died, bookie.last_words
        time.sleep(0.02)


@pytest.fixture(scope="module")
def four_bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("faults") / "cluster", 4) as made:
        made.start()
        yield made


@pytest.mark.parametrize("number", range(ROUNDS))
def test_every_acknowledged_append_is_there_once_whatever_fails(
    four_bookies: LocalCluster, tmp_path: Path, number: int
) -> None:
    seed = int(os.environ.get("WALKEEPER_TEST_SEED", time.time_ns() % 10**9)) + number
    print(f"WALKEEPER_TEST_SEED={seed}")
    source = random.Random(seed)
    history = History(four_bookies, f"faults/{number}", tmp_path, source)
    try:
        history.pause(0.5, 1.5)
        for _ in range(FAULTS):
            fault = source.choice(history.all_faults())
            print(fault.__name__, flush=True)
            fault()
            history.pause(0.1, 1.5)
        history.check()
        acknowledged = sum(len(history.notes(f"writer{one}")) for one in range(1, history.started + 1))
        print(f"{history.started} writers, {acknowledged} appends acknowledged")
        assert acknowledged > 0
    finally:
        history.end()
