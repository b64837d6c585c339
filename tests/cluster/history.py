"""One log, writers and a follower in processes of their own, and what they were told: whatever becomes of bookies,
networks, disks and the metadata store, every acknowledged append is there once, where its writer was told, and every
reader sees the same.

`WALKEEPER_CLUSTER_FAULTS=N` is so many rounds of each kind in place of a few (`make cluster-faults N=…`); a seed is
printed, and `WALKEEPER_TEST_SEED` repeats what is done and when, though not what comes of it.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path

from cluster.history_client import FENCED, LOG

import walkeeper
from walkeeper_bookie.cluster import BookieProcess, LocalCluster

__all__ = ["History", "ready", "rounds"]

LIVENESS_S = 60.0
"""Once all is as it should be again, the log can be written, its follower has all of it, and writers find every bookie,
so soon."""
CLIENT = Path(__file__).with_name("history_client.py")


def rounds(few: int) -> range:
    """Of one kind."""
    return range(int(os.environ.get("WALKEEPER_CLUSTER_FAULTS", few)))


class History:
    """One log, its clients, and what they noted."""

    def __init__(self, cluster: LocalCluster, place: Path, number: int) -> None:
        """Round `number` of a kind."""
        self.cluster, self.place = cluster, place
        self.namespace = f"{place.parent.name}/{place.name}"
        seed = int(os.environ.get("WALKEEPER_TEST_SEED", time.time_ns() % 10**9)) + number
        print(f"WALKEEPER_TEST_SEED={seed}")
        self.source = random.Random(seed)
        self.writers: list[subprocess.Popen[bytes]] = []
        self.started = 0
        with walkeeper.open(cluster.metadata, namespace=self.namespace) as ns:
            ns.log(LOG)
        self.follower = self._client("follow", "follower")

    def run(self, faults: int) -> None:
        """So many faults, one after the other, once something was acknowledged; and then the check."""
        try:
            self.write()
            until = time.monotonic() + LIVENESS_S
            while not self.notes("writer1"):
                assert time.monotonic() < until
                self.wait(0.1)
            for _ in range(faults):
                fault = self.source.choice(self.all_faults())
                print(fault.__name__, flush=True)
                fault()
                self.pause(0.1, 1.5)
            with self.on_its_host("checker"):
                self.check()
            acknowledged = sum(len(self.notes(f"writer{one}")) for one in range(1, self.started + 1))
            print(f"{self.started} writers, {acknowledged} appends acknowledged")
        finally:
            self.end()

    def on_its_host(self, who: str) -> AbstractContextManager[None]:
        """Where this client runs."""
        del who
        return nullcontext()

    def _client(self, what: str, who: str) -> subprocess.Popen[bytes]:
        arguments = (what, self.cluster.metadata, self.namespace, who, str(self.place / who))
        with open(self.place / f"{who}.log", "ab") as log, self.on_its_host(who):
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
        """Bookies end by our hand, clients as well, or as another writer has the log. One writes always."""
        for bookie in self.cluster.bookies:
            assert bookie.exit_status in (None, -signal.SIGKILL), (bookie.state, bookie.last_words)
        assert self.follower.poll() is None, (self.place / "follower.log").read_text()
        for number, writer in enumerate(self.writers, 1):
            assert writer.poll() in (None, FENCED, -signal.SIGKILL), (self.place / f"writer{number}.log").read_text()
        if all(writer.poll() is not None for writer in self.writers):
            self.write()

    def pause(self, least: float, most: float) -> None:
        self.wait(self.source.uniform(least, most))

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(0.02)

    def end(self) -> None:
        for process in (*self.writers, self.follower):
            if process.poll() is None:
                process.kill()
            process.wait()

    # ---- faults; each ends with all that was stopped running again, and all that was broken whole ----

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
        with walkeeper.LedgerClient(self.cluster.metadata) as client:
            while (states := {one.bookie_id: one.state for one in client.bookies()}) != dict.fromkeys(
                [bookie.bookie_id for bookie in self.cluster.bookies], "writable"
            ):
                assert time.monotonic() < until, states
                time.sleep(0.05)


def ready(bookie: BookieProcess) -> None:
    until = time.monotonic() + LIVENESS_S
    while not bookie.ready:
        assert time.monotonic() < until
        assert not bookie.died, bookie.last_words
        time.sleep(0.02)
