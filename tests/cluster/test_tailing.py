"""Following a log that another process writes, and reading a long one: long polls, and reads ahead of the reader."""

from __future__ import annotations

import subprocess
import sys
import weakref
from dataclasses import replace
from typing import Any

import pytest

import walkeeper
from walkeeper.cluster._ledgers import LogLedgers
from walkeeper_bookie.cluster import LocalCluster

WRITER = """
import sys, walkeeper
with walkeeper.open(sys.argv[1], namespace=sys.argv[2]) as ns, ns.log("orders").writer() as writer:
    for number in range(int(sys.argv[3])):
        sys.stdin.readline()
        writer.append(b"%d" % number)
    sys.stdin.readline()
"""
COUNT = 30


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if writers of this process were in another one."""
    nobody: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
    monkeypatch.setattr("walkeeper.cluster._reader.WRITERS", nobody)
    monkeypatch.setattr("walkeeper.cluster._namespace.WRITERS", nobody)


def test_bookies_tell_a_follower_of_records_and_it_does_not_ask_again_and_again(
    shared_bookies: LocalCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    lac = LogLedgers.lac

    def noted(self: LogLedgers, *arguments: Any) -> int:
        asked.append(arguments)
        return lac(self, *arguments)

    monkeypatch.setattr(LogLedgers, "lac", noted)
    with walkeeper.open(shared_bookies.metadata, namespace=name) as ns:
        log = ns.log("orders")
        command = (sys.executable, "-c", WRITER, shared_bookies.metadata, name, str(COUNT))
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process, log.reader(follow=True, timeout=30) as reader:
            assert process.stdin is not None
            for number in range(COUNT):
                process.stdin.write(b"\n")
                process.stdin.flush()
                assert bytes(next(reader).payload) == b"%d" % number
                if number == 4:
                    asked.clear()
            before = len(asked)
            process.stdin.write(b"\n")
    assert before <= COUNT / 5  # each of them only where nothing came for a tenth of a second


@pytest.mark.usefixtures("alone")
def test_a_follower_passes_from_segment_to_segment(shared_bookies: LocalCluster, name: str) -> None:
    with walkeeper.open(shared_bookies.metadata, namespace=name) as ns:
        log = ns.log("orders", segment_bytes=300)
        with log.writer() as writer, log.reader(follow=True, timeout=30) as reader:
            for number in range(12):
                writer.append(b"%d" % number * 100)
                assert next(reader).payload == b"%d" % number * 100
        assert len(log.segments()) >= 4


@pytest.mark.usefixtures("alone")
def test_a_long_log_is_read_in_order_whole_and_from_wherever_it_is_sought(
    shared_bookies: LocalCluster, name: str
) -> None:
    """Several chunks of a MiB, so that reads are under way when the reader is left, or begins elsewhere."""
    payloads = [b"%06d" % number + b"x" * 20_000 for number in range(400)]
    with walkeeper.open(shared_bookies.metadata, namespace=name) as ns:
        log = ns.log("orders", segment_bytes=3_000_000)
        with log.writer() as writer:
            for at in range(0, 400, 50):
                writer.append_many(payloads[at : at + 50])
            assert [bytes(record.payload) for record in log.reader()] == payloads
        with log.reader(start=log.find(sequence_id=137)) as reader:
            assert [bytes(record.payload[:6]) for record in reader.read(max_records=180)][:3] == [
                b"000137",
                b"000138",
                b"000139",
            ]
            # It is closed with a read of what comes next on its way.
        assert bytes(next(log.reader(start=log.find(sequence_id=399))).payload) == payloads[399]


@pytest.mark.usefixtures("alone")
def test_a_read_ahead_from_bookies_that_went_is_made_again(bookies: LocalCluster) -> None:
    payloads = [b"%06d" % number + b"x" * 20_000 for number in range(300)]
    with walkeeper.open(bookies.metadata) as ns:
        log = ns.log("orders")
        with log.writer() as writer:
            writer.append_many(payloads)
        seen = []
        with log.reader() as reader:
            for record in reader:
                seen.append(bytes(record.payload))
                if len(seen) == 120:
                    bookie = bookies.bookies[0]
                    assert bookie.process is not None
                    bookie.process.kill()
                    bookie.process.wait()
        assert seen == payloads


def test_a_reader_goes_to_the_bookies_that_a_ledger_moved_to(
    shared_bookies: LocalCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a re-replication, where the reader has looked at the metadata before and reads after it."""
    reading = LogLedgers.reading
    with walkeeper.open(shared_bookies.metadata, namespace=name, ensemble_size=1, write_quorum=1, ack_quorum=1) as ns:
        log = ns.log("orders")
        with log.writer() as writer:
            writer.append(b"paid 42")

        def before_it_moved(self: LogLedgers, ledger_id: int) -> Any:
            ledgers = self.client._ledgers
            found = ledgers.read(ledger_id)
            assert found is not None
            now, version = found.value, found.version
            other = next(
                bookie.bookie_id for bookie in self.client.bookies() if bookie.bookie_id not in now.segments[0]
            )
            version = ledgers.write(ledger_id, replace(now, segments={0: (other,)}), version)
            handle = reading(self, ledger_id)
            ledgers.write(ledger_id, now, version)
            return handle

        monkeypatch.setattr(LogLedgers, "reading", before_it_moved)
        assert [bytes(record.payload) for record in log.reader()] == [b"paid 42"]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("known", [True, False])
def test_a_follower_goes_on_where_a_segment_without_records_was_let_go(
    shared_bookies: LocalCluster, name: str, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Another writer takes the log over just when the follower asks how far the segment is, which it knows already or
    not."""
    refresh = LogLedgers.refresh
    to_come = [False] if known else []
    with (
        walkeeper.open(shared_bookies.metadata, namespace=name) as ns,
        walkeeper.open(shared_bookies.metadata, namespace=name) as elsewhere,
    ):
        writers = [elsewhere.log("orders").writer()]

        def taken_over(self: LogLedgers, handle: Any) -> Any:
            if to_come:
                to_come.pop()
            elif len(writers) == 1:
                writers.append(elsewhere.log("orders").writer())
            return refresh(self, handle)

        monkeypatch.setattr(LogLedgers, "refresh", taken_over)
        with ns.log("orders").reader(follow=True) as reader:
            while len(writers) == 1:
                assert not reader.read(timeout=0.1)
            writers[1].append(b"found")
            [record] = reader.read(timeout=30)
            assert bytes(record.payload) == b"found"
        for writer in writers[::-1]:
            writer.close()
