"""What tests of ledgers share: writers in processes of their own, bookies that are killed or hang, faulty stores."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import walkeeper
from walkeeper.metadata import FaultyStore, OpenedStore, open_store
from walkeeper.metadata._faults import Fault
from walkeeper_bookie.cluster import BookieProcess

PATIENCE_S = 60.0

WRITER = """
import sys, walkeeper
client = walkeeper.LedgerClient(sys.argv[1])
writer = client.create(ensemble_size=3, write_quorum=3, ack_quorum=2)
print(writer.ledger_id, flush=True)
try:
    number = 0
    while True:
        print(writer.add(b"entry %d" % number), flush=True)
        number += 1
except walkeeper.Error as error:
    print(type(error).__name__, error.outcome, flush=True)
try:
    writer.close()
    print("closed", flush=True)
except walkeeper.Error as error:
    print(type(error).__name__, flush=True)
"""


def payload(number: int) -> bytes:
    """What WRITER adds under this number."""
    return b"entry %d" % number


class Writer:
    """A process that adds to a new ledger, one entry after the other, and says which are acknowledged."""

    def __init__(self, metadata: str) -> None:
        command = [sys.executable, "-c", WRITER, metadata]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.ledger_id = int(self.line())
        self.acknowledged = 0

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def wait(self, count: int) -> None:
        """Until it was told of so many entries."""
        while self.acknowledged < count:
            self._count(self.line())

    def rest(self) -> list[str]:
        """What else it says before it ends; acknowledged entries are counted."""
        words = []
        while line := self.line():
            if line.isdigit():
                self._count(line)
            else:
                words.append(line)
        return words

    def kill(self) -> None:
        """SIGKILL; what it had been told, and had said, is counted."""
        self.process.kill()
        self.process.wait()
        assert self.rest() == []

    def _count(self, line: str) -> None:
        assert line == str(self.acknowledged), line
        self.acknowledged += 1


@contextlib.contextmanager
def writer_process(metadata: str) -> Iterator[Writer]:
    made = Writer(metadata)
    try:
        yield made
    finally:
        made.process.send_signal(signal.SIGCONT)
        made.process.kill()
        made.process.wait()
        assert made.process.stdout is not None
        made.process.stdout.close()


def kill(bookie: BookieProcess) -> None:
    assert bookie.process is not None
    bookie.process.kill()
    bookie.process.wait()


@contextlib.contextmanager
def hanging(*bookies: BookieProcess) -> Iterator[None]:
    """For so long these bookies take what comes and answer nothing."""
    pids = [bookie.process.pid for bookie in bookies if bookie.process is not None]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


class FaultyWrites(FaultyStore):
    """Lets the next writes of single keys go wrong, one fault each. Reads, and the ids of ledgers, are left alone."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.next_writes: list[Fault] = []

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        self._take()
        return super().put(key, data, version)

    def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
        if "/idgen" not in key:
            self._take()
        return super().create(key, data, ephemeral=ephemeral, parents=parents)

    def delete(self, key: str, version: int | None = None) -> None:
        if "/idgen" not in key:
            self._take()
        super().delete(key, version)

    def _take(self) -> None:
        if self.next_writes:
            self.script([self.next_writes.pop(0)])


def faulty(metadata: str) -> tuple[FaultyWrites, OpenedStore]:
    """A store whose writes can go wrong, and what a LedgerClient is given of it."""
    opened = open_store(metadata)
    store = FaultyWrites(opened.store)
    return store, opened._replace(store=store)


def contents(client: walkeeper.LedgerClient, ledger_id: int, **options: Any) -> list[bytes]:
    """The payloads of a ledger, which is recovered where it is open. Their ids are dense from 0 on."""
    with client.open(ledger_id, **options) as reader:
        entries = list(reader.read())
    assert [entry.entry_id for entry in entries] == list(range(len(entries)))
    lengths = [entry.length for entry in entries]
    assert lengths == [sum(len(entry.payload) for entry in entries[: at + 1]) for at in range(len(entries))]
    return [entry.payload for entry in entries]
