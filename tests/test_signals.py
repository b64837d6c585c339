"""Signals: a wait goes on after a handler that returns, and ends with the exception of one that raises."""

from __future__ import annotations

import _thread
import operator
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, repeat
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import walkeeper
from walkeeper._completions import Completions


@pytest.fixture
def alarms() -> Iterator[list[float]]:
    """Counts alarms; a test sets them off with signal.setitimer."""
    seen: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic()))
    yield seen
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@contextmanager
def ctrl_c_after(seconds: float) -> Iterator[None]:
    """Ctrl-C for this process, unless the block is over before."""
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@pytest.fixture
def slow(directory: Path) -> Iterator[walkeeper.Namespace]:
    """A namespace where an append with others in flight takes about a second: a block waits that long for company."""
    with walkeeper.open(directory, commit_wait=1.0) as namespace:
        yield namespace


@pytest.mark.alone
def test_handlers_run_while_a_follower_waits_and_it_waits_on(log: walkeeper.Log, alarms: list[float]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    started = time.monotonic()
    assert log.reader(follow=True).read(timeout=0.5) == []
    assert time.monotonic() - started >= 0.49
    assert len(alarms) >= 5
    assert alarms[0] - started < 0.4


def test_ctrl_c_ends_a_wait_and_the_reader_goes_on(log: walkeeper.Log) -> None:
    reader = log.reader(follow=True)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), ctrl_c_after(0.1):
        reader.read(timeout=30)
    assert time.monotonic() - started < 5
    with log.writer() as writer:
        writer.append(b"x")
    assert [record.sequence_id for record in reader.read(timeout=10)] == [0]


def test_ctrl_c_ends_a_wait_and_the_iterator_goes_on(log: walkeeper.Log) -> None:
    records = iter(log.reader(follow=True, timeout=10))
    with pytest.raises(KeyboardInterrupt), ctrl_c_after(0.1):
        next(records)
    with log.writer() as writer:
        writer.append(b"x")
    assert next(records).sequence_id == 0


def test_handlers_run_while_appends_wait_and_none_is_lost_or_doubled(log: walkeeper.Log, alarms: list[float]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    ids: list[int] = []
    with log.writer() as writer:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            ids.append(writer.append(b"%d" % len(ids)).sequence_id)
            batch = writer.append_many([b"a", b"b"])
            assert batch.last.sequence_id == batch.first.sequence_id + 1
            ids += [batch.first.sequence_id, batch.last.sequence_id]
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert ids == list(range(len(ids)))
    assert log.count() == len(ids)
    assert len(alarms) > 50


@pytest.mark.parametrize("many", [False, True], ids=["append", "append_many"])
def test_an_interrupted_append_says_that_its_outcome_is_unknown(directory: Path, many: bool) -> None:
    # Time enough, on a busy machine too, for the append to wait before Ctrl-C comes, and to wait still when it does.
    with walkeeper.open(directory, commit_wait=3.0) as namespace, namespace.log("orders").writer() as writer:
        writer.submit(b"in flight")
        with pytest.raises(KeyboardInterrupt) as caught, ctrl_c_after(1.0):
            _ = writer.append_many([b"a", b"b"]) if many else writer.append(b"a")
        cause = caught.value.__cause__
        assert isinstance(cause, walkeeper.InterruptedError)
        assert cause.outcome == "unknown"
        assert cause.sequence_id == 1
        assert writer.flush().sequence_id == (3 if many else 2)
        assert writer.append(b"next").sequence_id == (3 if many else 2)


@pytest.mark.parametrize("many", [False, True], ids=["append", "append_many"])
def test_an_append_that_a_harmless_signal_met_returns_its_position(
    slow: walkeeper.Namespace, alarms: list[float], many: bool
) -> None:
    log = slow.log("orders")
    with log.writer() as writer:
        writer.submit(b"in flight")
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        if many:
            batch = writer.append_many([b"a", b"b"])
            first, last, count = batch.first, batch.last, 3
        else:
            first = last = writer.append(b"a")
            count = 2
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert alarms
        assert (first.sequence_id, last.sequence_id) == (1, count - 1)
        assert first == log.find(sequence_id=1)
        assert last == log.find(sequence_id=count - 1)
        assert log.count() == count


@pytest.mark.parametrize("atomic", [False, True], ids=["each", "atomic"])
def test_a_batch_that_a_harmless_signal_met_keeps_its_order_and_an_atomic_one_stays_together(
    directory: Path, alarms: list[float], atomic: bool
) -> None:
    """A signal while it waits for room lets another thread's record in between, but not into an atomic batch."""
    payloads = [b"%d " % number + b"m" * (4_000 if atomic else 20_000) for number in range(200)]
    with walkeeper.open(directory, in_flight_bytes=1 << 20) as namespace:
        log = namespace.log("orders")
        with log.writer() as writer:
            stop = threading.Event()

            def append_all_the_time() -> None:
                while not stop.is_set():
                    writer.append(b"of another thread")

            other = threading.Thread(target=append_all_the_time)
            other.start()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
                batches = [writer.append_many(payloads, atomic=atomic) for _ in range(20)]
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                stop.set()
                other.join()
            assert alarms
        for batch in batches:
            span = batch.last.sequence_id - batch.first.sequence_id + 1
            found = [bytes(record.payload) for record in islice(log.reader(start=batch.first), span)]
            assert [payload for payload in found if payload != b"of another thread"] == payloads
            assert not atomic or span == batch.count


@pytest.mark.parametrize("arrow", [False, True], ids=["read", "read_arrow"])
def test_a_handler_that_raises_when_a_batch_has_come_loses_nothing_of_it(
    log: walkeeper.Log, monkeypatch: pytest.MonkeyPatch, arrow: bool
) -> None:
    pytest.importorskip("pyarrow")
    with log.writer() as writer:
        writer.append_many([b"0", b"1", b"2"])
    reader, wait = log.reader(), walkeeper.Reader._wait

    def wait_and_be_interrupted(self: walkeeper.Reader, *asked: Any) -> bool:
        got = wait(self, *asked)
        signal.raise_signal(signal.SIGINT)
        return got

    with monkeypatch.context() as patched:
        patched.setattr(walkeeper.Reader, "_wait", wait_and_be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.read_arrow(2) if arrow else reader.read(2)
    if arrow:
        batch = reader.read_arrow(1)  # what came before is given whole
        assert batch is not None
        assert batch.column("sequence_id").to_pylist() == [0, 1]
        assert [record.sequence_id for record in reader.read()] == [2]
    else:
        assert [record.sequence_id for record in reader.read(2)] == [0, 1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a destructor met a signal, too
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python runs handlers between a call and the assignment")
@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer that is at work holds its own lock for ever then")
@pytest.mark.parametrize("max_bytes", [None, 5_000])
def test_a_handler_that_raises_while_records_are_handed_over_keeps_them_in_the_reader(
    log: walkeeper.Log, max_bytes: int | None
) -> None:
    """Where an exception comes out of read(), nobody got what it had taken: the next one gives it."""

    class Stop(BaseException):
        pass

    armed = [False]

    def stop(_signal: int, frame: FrameType | None) -> None:
        if armed[0] and frame is not None and frame.f_code.co_filename != __file__:
            raise Stop

    count, stops, rounds = 2_000, 0, 0
    with log.writer() as writer:
        writer.append_many([b"x" * 16] * count)
    started = time.monotonic()
    assert len(log.reader().read(None, max_bytes)) > 0
    took = time.monotonic() - started
    before = signal.signal(signal.SIGALRM, stop)
    try:
        while stops < 20 or rounds < 50:
            assert time.monotonic() < started + 60, f"{stops} stops in {rounds} rounds"
            reader, got = log.reader(), 0
            while got < count:
                batch: list[walkeeper.Record] | None = None
                rounds += 1
                try:
                    armed[0] = True
                    signal.setitimer(signal.ITIMER_REAL, max(took * (rounds % 40) / 40, 1e-6))
                    batch = reader.read(None, max_bytes)
                    armed[0] = False
                except Stop:
                    stops += 1
                armed[0] = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                if batch is not None:
                    assert batch, f"{got} of {count}"
                    assert isinstance(batch[0], walkeeper.Record)
                    assert batch[0].sequence_id == got
                    got += len(batch)
    finally:
        armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class MovedAndStopped:
    """An iterator over a list that moves where it is told to, and is left by an exception just behind that, once."""

    def __init__(self, records: Any) -> None:
        self.records, self.left = records, False

    def __length_hint__(self) -> int:
        return operator.length_hint(self.records)

    def __setstate__(self, index: int) -> None:
        self.records.__setstate__(index)
        if not self.left:
            self.left = True
            raise KeyboardInterrupt


def test_a_handler_that_raises_behind_the_last_step_of_a_read_keeps_its_records(log: walkeeper.Log) -> None:
    with log.writer() as writer:
        writer.append_many([b"x"] * 10)
    reader = log.reader()
    next(reader)
    stage = reader._stage
    stage.records = MovedAndStopped(stage.records)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        reader.read(3)
    assert [record.sequence_id for record in reader.read(3)] == [1, 2, 3]


@pytest.mark.parametrize("yielded", [0, 10])
def test_a_handler_that_raises_where_an_iterator_goes_on_does_not_end_it(log: walkeeper.Log, yielded: int) -> None:
    with log.writer() as writer:
        writer.append_many([b"x"] * 10)
        records = iter(log.reader())
        assert len(list(islice(records, yielded))) == yielded
        writer.append_many([b"x"] * 5)
    with pytest.raises(
        KeyboardInterrupt
    ):  # the signal is there when the iterator is asked, before any other function runs
        next(zip(map(_thread.interrupt_main, repeat(signal.SIGINT)), records))  # noqa: B905
    assert len(list(records)) == 15 - yielded


def test_ctrl_c_while_waiting_for_the_lock(directory: Path) -> None:
    holder = os.fork()
    if holder == 0:
        try:
            with walkeeper.open(directory):
                directory.with_name("held").touch()
                time.sleep(30)
        finally:
            os._exit(0)
    try:
        until = time.monotonic() + 10
        while not directory.with_name("held").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt), ctrl_c_after(0.2):
            walkeeper.open(directory, lock_timeout=20)
        assert time.monotonic() - started < 5
        with pytest.raises(walkeeper.DirectoryLockedError) as caught:
            walkeeper.open(directory, lock_timeout=0.1)
        assert caught.value.holder_pid == holder
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
    walkeeper.open(directory).close()


def test_a_handler_that_raises_while_a_future_is_made_keeps_no_other_future_waiting(directory: Path) -> None:
    """Handlers run where a function begins: at each one. The next record is in the same block, with the same ticket."""
    watch = Completions.watch.__code__
    calls = last = 0

    class Stop(BaseException):
        pass

    def called(frame: FrameType, *_: object) -> None:
        nonlocal calls
        calls += frame.f_code is watch or calls > 0
        if calls == last:
            raise Stop

    def is_stopped() -> bool:
        nonlocal calls
        calls = 0
        before = sys.gettrace()
        try:
            sys.settrace(called)
            writer.submit(b"its caller is stopped")
        except Stop:
            return True
        finally:
            sys.settrace(before)
        return False

    stopped = True
    while stopped:
        last += 1
        with walkeeper.open(directory, deferred_max_delay=0.05) as namespace:
            writer = namespace.log("orders").writer(durability="deferred")
            writer.submit(b"the thread runs").result(10)
            stopped = is_stopped()
            writer.submit(b"in the same block").result(10)
    assert last > 3
