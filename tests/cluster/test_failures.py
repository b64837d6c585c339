"""Logs on bookies; writers and bookies are killed, stopped, resumed: what was acknowledged is there, once, in order."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from metadata.stores import until

import walkeeper
from walkeeper_bookie.cluster import LocalCluster

WRITER = """
import sys, walkeeper
with walkeeper.open(sys.argv[1]) as ns:
    writer = ns.log("orders").writer()
    for number in range(10 ** 9):
        try:
            writer.append(b"%d" % number)
        except walkeeper.Error as error:
            print(type(error).__name__, error.outcome, number, flush=True)
            sys.exit(0)
        print(number, flush=True)
"""


class WriterProcess:
    """Appends numbers, and prints each once it is acknowledged; then how it ended."""

    def __init__(self, metadata: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", WRITER, metadata], stdout=subprocess.PIPE, text=True)
        self.acknowledged: list[int] = []
        self.end: list[str] = []
        self._enough = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._enough:
                if line.strip().isdigit():
                    self.acknowledged.append(int(line))
                else:
                    self.end = line.split()
                self._enough.notify_all()

    def wait(self, count: int) -> None:
        with self._enough:
            assert self._enough.wait_for(lambda: len(self.acknowledged) >= count, 60)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> None:
        self.process.wait(60)
        self._reader.join(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def writer_process(metadata: str) -> Iterator[WriterProcess]:
    made = WriterProcess(metadata)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.ended()


def numbers(log: walkeeper.Log) -> list[int]:
    with log.reader() as reader:
        found = [(record.sequence_id, int(bytes(record.payload))) for record in reader]
    assert [sequence_id for sequence_id, _ in found] == list(range(len(found)))
    return [number for _, number in found]


def test_what_a_killed_writer_was_told_is_there_and_the_next_one_goes_on(bookies: LocalCluster) -> None:
    with writer_process(bookies.metadata) as first:
        first.wait(100)
        first.signal(signal.SIGKILL)
        first.ended()
    with walkeeper.open(bookies.metadata) as ns:
        log = ns.log("orders", create=False)
        with log.writer() as writer:
            found = numbers(log)
            assert found == list(range(len(found)))
            assert len(found) in (len(first.acknowledged), len(first.acknowledged) + 1)  # one may have been under way
            writer.append(b"%d" % len(found))
        assert numbers(log) == list(range(len(found) + 1))


def test_a_writer_that_was_stopped_is_fenced_when_it_goes_on(bookies: LocalCluster) -> None:
    with writer_process(bookies.metadata) as first, walkeeper.open(bookies.metadata) as ns:
        first.wait(50)
        first.signal(signal.SIGSTOP)
        log = ns.log("orders", create=False)
        with log.writer() as writer:
            found = numbers(log)
            first.signal(signal.SIGCONT)
            first.ended()
            assert first.end[0] == "FencedError"
            assert first.acknowledged == list(range(len(first.acknowledged)))
            assert set(first.acknowledged) <= set(found)  # nothing was acknowledged to it since
            if first.end[1] == "not_written":
                assert int(first.end[2]) not in found
            writer.append(b"%d" % len(found))
            assert numbers(log) == list(range(len(found) + 1))


def test_a_bookie_that_is_killed_fails_no_append(bookies: LocalCluster) -> None:
    with writer_process(bookies.metadata) as first:
        first.wait(50)
        victim = bookies.bookies[0].process
        assert victim is not None
        victim.kill()
        first.wait(200)
        first.signal(signal.SIGKILL)
        first.ended()
    assert first.end == []
    with walkeeper.open(bookies.metadata, ensemble_size=2, write_quorum=2) as ns:
        log = ns.log("orders", create=False)
        with log.writer() as writer:
            found = numbers(log)
            assert found[: len(first.acknowledged)] == first.acknowledged
            writer.append(b"%d" % len(found))
        assert numbers(log) == list(range(len(found) + 1))


def test_with_two_of_three_gone_an_append_says_what_became_of_it(bookies: LocalCluster) -> None:
    with walkeeper.open(bookies.metadata) as ns:
        log = ns.log("orders")
        writer = log.writer()
        writer.append(b"0")
        for bookie in bookies.bookies[:2]:
            assert bookie.process is not None
            bookie.process.kill()
        with pytest.raises(walkeeper.UnavailableError) as caught:
            writer.append(b"1")
        assert caught.value.outcome == "unknown"
        with pytest.raises(walkeeper.UnavailableError) as again:
            writer.append(b"2")
        assert again.value.outcome == "not_written"
        for bookie in bookies.bookies[:2]:
            assert bookie.process is not None
            bookie.process.wait()
            bookies.launch_one(bookie)
        with walkeeper.LedgerClient(bookies.metadata) as client:
            until(lambda: [one.state for one in client.bookies()] == ["writable"] * 3, "the bookies do not come back")
        with pytest.raises(walkeeper.UnavailableError):
            writer.close()
        with log.writer() as second:
            found = numbers(log)
            assert found in ([0], [0, 1])
            second.append(b"%d" % len(found))


def test_a_follower_in_another_namespace_sees_each_record_once(bookies: LocalCluster) -> None:
    with (
        walkeeper.open(bookies.metadata) as ours,
        walkeeper.open(bookies.metadata, read_only=True) as theirs,
        ours.log("orders", segment_bytes=50).writer() as writer,
        theirs.log("orders").reader(follow=True, timeout=60) as reader,
    ):
        for number in range(100):
            writer.append(b"%d" % number)
            assert int(bytes(next(reader).payload)) == number
        assert len(ours.log("orders").segments()) > 1
        writer.mark_end_of_stream()
        assert list(reader) == []
        assert reader.ended


def test_two_namespaces_of_one_cluster_know_nothing_of_each_other(bookies: LocalCluster) -> None:
    with walkeeper.open(bookies.metadata, namespace="a") as a, walkeeper.open(bookies.metadata, namespace="b") as b:
        with a.log("orders").writer() as writer:
            writer.append(b"1")
        assert (a.logs(), b.logs()) == (["orders"], [])
        with pytest.raises(walkeeper.LogNotFoundError):
            b.log("orders", create=False)
        with pytest.raises(walkeeper.UnsupportedError):
            a.backup("/tmp/never")
        for wrong in ({"journal": "/tmp/x"}, {"on_damage": "skip"}, {"namespace": ""}):
            with pytest.raises((walkeeper.InvalidError, walkeeper.UnsupportedError)):
                walkeeper.open(bookies.metadata, **wrong)  # type: ignore[call-overload]


def test_no_ledger_is_left_behind(bookies: LocalCluster) -> None:
    """Rule 21: truncated, empty and deleted segments take their ledgers with them."""
    with walkeeper.open(bookies.metadata) as ns, walkeeper.LedgerClient(bookies.metadata) as client:
        log = ns.log("orders", segment_bytes=100)
        for _ in range(3):
            with log.writer():
                pass
        with log.writer() as writer:
            for number in range(30):
                writer.append(b"%d" % number * 20)
        assert sorted(client.list()) == sorted(segment.ledger_id for segment in log.segments())
        log.truncate(log.find(sequence_id=20))
        assert sorted(client.list()) == sorted(segment.ledger_id for segment in log.segments())
        ns.delete_log("orders")
        assert list(client.list()) == []


def test_a_segment_has_as_many_bookies_as_are_up_and_an_ack_quorum_at_least(bookies: LocalCluster) -> None:
    with (
        walkeeper.open(bookies.metadata, ensemble_size=5, write_quorum=5, strict=True) as strict,
        pytest.raises(walkeeper.NotEnoughBookiesError, match=r"5.*3"),
    ):
        strict.log("orders").writer()
    with (
        walkeeper.open(bookies.metadata, ensemble_size=5, write_quorum=5) as ns,
        walkeeper.LedgerClient(bookies.metadata) as client,
    ):
        log = ns.log("orders")
        with log.writer() as writer:
            writer.append(b"0")
            metadata = client.metadata(log.segments()[-1].ledger_id)
            assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (3, 3, 2)
        for bookie in bookies.bookies[:2]:
            assert bookie.process is not None
            bookie.process.kill()
            bookie.process.wait()
        until(lambda: [one.state for one in client.bookies()].count("writable") == 1, "the bookies are not missed")
        with pytest.raises(walkeeper.NotEnoughBookiesError, match=r"2 bookies \(ack_quorum\).*there are 1"):
            log.writer()
