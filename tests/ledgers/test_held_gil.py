"""Rule 14: acknowledgements and fences do not wait for Python. No other Python code of the process runs for seconds."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ledger_runs import contents, payload
from metadata.stores import until

import walkeeper
from walkeeper._native import ffi, lib
from walkeeper.errors import new_error
from walkeeper.ledgers._native_handles import NativeHandle
from walkeeper.metadata import OpenedStore, open_store
from walkeeper_bookie.cluster import BookieProcess, LocalCluster

CHANGE_TIMEOUT_S = 10.0
"""change_timeout_ns of native/include/walkeeper/client.h."""
NS_PER_S = 1_000_000_000


@pytest.fixture(scope="module")
def _four(tmp_path_factory: pytest.TempPathFactory, _bookies_are_found: None) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("held") / "cluster", 4) as made:
        made.start()
        yield made


@pytest.fixture
def four(_four: LocalCluster) -> LocalCluster:
    """Four bookies: an ensemble, and a spare. Those that the last test killed are up again."""
    for bookie in _four.bookies:
        if bookie.died:
            _four.launch_one(bookie)
    until(lambda: all(bookie.ready for bookie in _four.bookies), "the bookies come back")
    return _four


def library() -> ctypes.PyDLL:
    """The library that is loaded. Its functions keep the GIL while they run."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return ctypes.PyDLL(next(line[line.index("/") :] for line in maps if "/libwalkeeper.so" in line))


C = library()
LIBC = ctypes.PyDLL(None)


@contextmanager
def held_gil() -> Iterator[None]:
    """No other thread of Python runs. Inside, nothing may be called that gives the GIL away: C's functions by PyDLL."""
    turns = itertools.count()
    ends = threading.Event()

    def run() -> None:
        while not ends.wait(0.001):
            next(turns)

    other = threading.Thread(target=run)
    other.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        time.sleep(0.02)
        at_first = next(turns)
        yield
        assert next(turns) == at_first + 1, "another thread had the GIL"
    finally:
        sys.setswitchinterval(before)
        ends.set()
        other.join()


def sleep(seconds: float) -> None:
    LIBC.usleep(ctypes.c_uint(int(seconds * 1e6)))


def address(thing: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(int(ffi.cast("uintptr_t", thing)))


class Adds:
    """Adds to a ledger, and looks at its writer, without giving the GIL away."""

    def __init__(self, handle: NativeHandle) -> None:
        with handle as native:
            self._native = address(native)
        self._entry_id, self.error = ffi.new("int64_t *"), new_error()
        self._state = ffi.new("wk_handle_state *")

    def add(self, data: bytes, timeout: float) -> int:
        """Its status."""
        return int(
            C.wk_handle_add(
                *(self._native, data, ctypes.c_size_t(len(data)), ctypes.c_uint64(int(timeout * NS_PER_S))),
                *(address(self._entry_id), address(self.error)),
            )
        )

    def state(self) -> Any:
        C.wk_handle_state_get(self._native, address(self._state))
        return self._state


class HookedStore:
    """A store that calls `hook` once, before the next put: of a writer, that is the write of its ensemble change."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.hook: Callable[[], None] | None = None
        self.called = threading.Event()

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        hook, self.hook = self.hook, None
        if hook is not None:
            hook()
            self.called.set()
        return int(self._store.put(key, data, version))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@contextmanager
def hooked(metadata: str) -> Iterator[tuple[walkeeper.LedgerClient, HookedStore]]:
    opened = open_store(metadata)
    store: Any = HookedStore(opened.store)
    with walkeeper.LedgerClient(OpenedStore(store, opened.root, opened.layout)) as client:
        yield client, store


def victim(cluster: LocalCluster, writer: Any) -> BookieProcess:
    """A bookie of the last segment."""
    bookie_id = list(writer.metadata.segments.values())[-1][0]
    return next(bookie for bookie in cluster.bookies if bookie.bookie_id == bookie_id)


def kill(bookie: BookieProcess) -> None:
    """As Popen.kill, which gives the GIL away."""
    assert bookie.process is not None
    bookie.ready = False
    os.kill(bookie.process.pid, signal.SIGKILL)


def test_while_python_stands_still_adds_go_on_without_a_bookie_that_was_killed(four: LocalCluster) -> None:
    with walkeeper.LedgerClient(four.metadata) as client, client.create() as writer:
        writer.add(payload(0))
        adds, bookie, number = Adds(writer._native), victim(four, writer), 1
        with held_gil():
            kill(bookie)
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                assert adds.add(payload(number), 1.0) == lib.WK_OK
                number += 1
            assert adds.state().lac == number - 1
            assert adds.state().failed_slots != 0
        assert number > 100
        until(lambda: len(writer.metadata.segments) == 2, "Python goes on, and replaces the bookie")
        writer.add(payload(number))
        writer.close()
        assert contents(client, writer.ledger_id) == [payload(one) for one in range(number + 1)]


def test_a_writer_goes_on_where_python_stood_still_in_an_ensemble_change(four: LocalCluster) -> None:
    """What is added meanwhile is not confirmed in time, and nobody knows what becomes of it; it is confirmed later."""
    with hooked(four.metadata) as (client, store):
        writer = client.create()
        writer.add(payload(0))
        adds, statuses, lacs = Adds(writer._native), [], []

        def stand_still() -> None:
            with held_gil():
                lacs.append(adds.state().lac)
                statuses.extend((adds.add(b"meanwhile", 0.3), adds.error.outcome_unknown) for _ in range(4))
                lacs.append(adds.state().lac)

        store.hook = stand_still
        kill(victim(four, writer))
        first = writer.submit(payload(1))
        until(store.called.is_set, "the ensemble is changed")
        assert statuses == [(lib.WK_TIMEOUT, True)] * 4
        assert lacs[0] == lacs[1] <= 1
        assert first.result(60) == 1
        assert writer.add(payload(2)) == 6
        until(lambda: len(writer.metadata.segments) == 2, "the bookie is replaced")
        writer.close()
        assert contents(client, writer.ledger_id) == [payload(0), payload(1), *[b"meanwhile"] * 4, payload(2)]


RECOVER = """
import sys, walkeeper
with walkeeper.LedgerClient(sys.argv[1]) as client:
    print("ready", flush=True)
    sys.stdin.readline()
    with client.open(int(sys.argv[2])) as reader:
        print(reader.metadata.last_entry_id, flush=True)
"""


def test_a_writer_whose_python_stands_still_in_an_ensemble_change_is_fenced(four: LocalCluster) -> None:
    """The client that recovers the ledger waits for nobody, and no add that it does not know of is acknowledged."""
    with hooked(four.metadata) as (client, store):
        writer = client.create()
        writer.add(payload(0))
        adds, statuses, seconds = Adds(writer._native), [], []
        command = [sys.executable, "-c", RECOVER, four.metadata, str(writer.ledger_id)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            go = other.stdin.fileno()

            def stand_still() -> None:
                with held_gil():
                    began = time.monotonic()
                    LIBC.write(go, b"\n", ctypes.c_size_t(1))
                    while time.monotonic() < began + 8:
                        statuses.append(adds.add(b"late", 0.1))
                        if statuses[-1] != lib.WK_TIMEOUT:
                            break
                    seconds.append(time.monotonic() - began)

            store.hook = stand_still
            kill(victim(four, writer))
            writer.submit(b"late")
            until(store.called.is_set, "the ensemble is changed")
            last = int(other.stdout.readline())
        assert statuses[-1] == lib.WK_FENCED
        assert set(statuses[:-1]) <= {lib.WK_TIMEOUT}
        assert seconds[0] < 8
        with pytest.raises(walkeeper.FencedError) as caught:
            writer.add(b"later")
        assert caught.value.outcome == "not_written"
        with pytest.raises(walkeeper.FencedError):
            writer.close()
        found = contents(client, writer.ledger_id)
        assert len(found) == last + 1
        assert found[0] == payload(0)
        assert set(found[1:]) <= {b"late"}


def test_a_writer_fails_where_python_stands_still_for_ten_seconds_of_an_ensemble_change(four: LocalCluster) -> None:
    """Nobody knows what becomes of what was not confirmed; close finds out, and the log goes on with another writer."""
    with walkeeper.open(four.metadata) as ns:
        log = ns.log("orders")
        writer: Any = log.writer()
        acknowledged = [writer.append(b"%d" % number).sequence_id for number in range(10)]
        calls: Any = writer._calls
        ledgers: Any = ns._client._cluster.ledgers  # type: ignore[attr-defined]
        store = ledgers._store = HookedStore(ledgers._store)
        frozen, failed_after, refused = threading.Event(), [], []
        adds = Adds(calls._watched.handle)

        def stand_still() -> None:
            frozen.set()
            time.sleep(0.2)  # for the appends below
            with held_gil():
                began = time.monotonic()
                while time.monotonic() < began + CHANGE_TIMEOUT_S + 1:
                    if adds.state().status != lib.WK_OK and not failed_after:
                        failed_after.append((adds.state().status, time.monotonic() - began))
                    sleep(0.01)
                if failed_after:
                    refused.append((adds.add(b"refused", 1.0), ffi.string(adds.error.text)))

        store.hook = stand_still
        kill(victim(four, calls._watched))
        first = writer.submit(b"10")  # which notices that the bookie is gone, and may be confirmed by the others
        assert frozen.wait(60)
        futures = [writer.submit(b"%d" % number) for number in range(11, 30)]
        until(store.called.is_set, "the ensemble is changed")
        assert [status for status, _ in failed_after] == [lib.WK_UNAVAILABLE]
        assert failed_after[0][1] > CHANGE_TIMEOUT_S - 1
        assert refused[0][0] == lib.WK_UNAVAILABLE
        assert b"nobody said in time whether the metadata name another one in its place" in refused[0][1]
        if first.exception(timeout=30) is None:
            acknowledged.append(first.result().sequence_id)
        for future in futures:
            error = future.exception(timeout=30)
            assert isinstance(error, walkeeper.UnavailableError)
            assert error.outcome == "unknown"
        with pytest.raises(walkeeper.UnavailableError) as caught:
            writer.append(b"later")
        assert caught.value.outcome == "not_written"
        with pytest.raises(walkeeper.UnavailableError):
            writer.close()
        with log.writer() as second:
            following = second.next_sequence_id
            assert following >= len(acknowledged)
            assert second.append(b"mine").sequence_id == following
        found = [bytes(record.payload) for record in log.reader()]
        assert found == [*(b"%d" % number for number in range(following)), b"mine"]
