"""Closing from where a program hears that its record is durable."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import walkeeper


def test_a_futures_callback_may_close_the_namespace(directory: Path) -> None:
    """The callback runs in the thread that completes futures; another record is on its way when it closes."""
    code = """
import sys, threading, walkeeper
namespace = walkeeper.open(sys.argv[1])
writer = namespace.log("orders").writer()
closed = threading.Event()

def close(first):
    second.append(writer.submit(b"second"))
    namespace.close()
    closed.set()

second = []
writer.submit(b"first").add_done_callback(close)
if not closed.wait(10):
    sys.exit("the callback did not return")
assert second[0].result(10).sequence_id == 1
"""
    done = subprocess.run([sys.executable, "-c", code, directory], cwd="/", timeout=60, check=False)
    assert done.returncode == 0


def test_a_signal_handler_may_close_the_namespace(directory: Path) -> None:
    """A service closes on SIGTERM. The handler runs between two steps of whatever call the main thread is in."""
    code = """
import random, signal, sys, faulthandler, walkeeper
faulthandler.dump_traceback_later(30, exit=True)
signal.signal(signal.SIGALRM, lambda *_: namespace.close())
for _ in range(100):
    namespace = walkeeper.open(sys.argv[1])
    signal.setitimer(signal.ITIMER_REAL, 0.002 + random.random() * 0.004)
    try:
        while True:
            namespace.stats()
    except walkeeper.ClosedError:
        pass
"""
    done = subprocess.run([sys.executable, "-c", code, directory], cwd="/", timeout=60, check=False)
    assert done.returncode == 0


def test_a_futures_callback_that_exits_keeps_no_other_future_waiting(directory: Path) -> None:
    """SystemExit ends a thread without a word, as in any other; but here others wait for that thread."""
    code = """
import faulthandler, sys, threading, walkeeper
faulthandler.dump_traceback_later(30, exit=True)
with walkeeper.open(sys.argv[1]) as namespace, namespace.log("orders").writer() as writer:
    called = threading.Event()
    first = writer.submit(b"first")
    first.add_done_callback(lambda _: (called.set(), sys.exit(1)))
    assert called.wait(10)
    assert writer.submit(b"second").result(10).sequence_id == 1
"""
    done = subprocess.run([sys.executable, "-c", code, directory], cwd="/", timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("cancelled", [False, True], ids=["out of time", "cancelled"])
def test_a_close_that_fails_tells_the_tasks_that_wait(directory: Path, cancelled: bool) -> None:
    """Whatever comes of it the namespace is closed: nobody hears of a record after that."""
    code = """
import asyncio, faulthandler, sys, walkeeper
faulthandler.dump_traceback_later(30, exit=True)

async def main():
    ns = await walkeeper.aio.open(sys.argv[1], deferred_max_delay=1000)
    writer = await (await ns.log("orders")).writer()
    waits = await writer.submit(b"first", durability="deferred")
    if sys.argv[2] == "True":
        close = ns._sync.close
        ns._sync.close = lambda timeout: (__import__("time").sleep(0.5), close(timeout))
        closing = asyncio.ensure_future(ns.close(0.001))
        await asyncio.sleep(0.2)
        closing.cancel()
        await asyncio.wait((closing,))
    else:
        try:
            await ns.close(0.001)
        except walkeeper.TimeoutError:
            pass
    try:
        await asyncio.wait_for(waits, 10)
    except walkeeper.ClosedError as closed:
        assert closed.outcome == "unknown"

asyncio.run(main())
"""
    command = [sys.executable, "-c", code, directory, str(cancelled)]
    done = subprocess.run(command, cwd="/", timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "aio"])
@pytest.mark.parametrize("durability", ["sync", "deferred"])
def test_a_close_does_not_wait_for_what_it_makes_durable_itself(
    directory: Path, asynchronous: bool, durability: str
) -> None:
    """A deferred record may wait for ever, and its future with it. The close makes both come true."""
    code = """
import asyncio, faulthandler, math, sys, walkeeper
faulthandler.dump_traceback_later(30, exit=True)

def write():
    namespace = walkeeper.open(sys.argv[1], deferred_max_delay=math.inf)
    writer = namespace.log("orders").writer()
    futures = [writer.submit(b"first", durability=sys.argv[3]), writer.submit(b"second", durability="deferred")]
    namespace.close()
    assert [future.result(0).sequence_id for future in futures] == [0, 1]

async def write_async():
    ns = await walkeeper.aio.open(sys.argv[1], deferred_max_delay=math.inf)
    writer = await (await ns.log("orders")).writer()
    futures = [await writer.submit(b"first", durability=sys.argv[3]),
               await writer.submit(b"second", durability="deferred")]
    await ns.close()
    assert [future.result().sequence_id for future in futures] == [0, 1]

asyncio.run(write_async()) if sys.argv[2] == "True" else write()
"""
    command = [sys.executable, "-c", code, directory, str(asynchronous), durability]
    done = subprocess.run(command, cwd="/", timeout=60, check=False)
    assert done.returncode == 0


def test_a_callback_that_does_not_return_keeps_nobody(directory: Path) -> None:
    """It waits for what the thread that closes holds: closing takes the time that it was given, and closes."""
    held, inside = threading.Lock(), threading.Event()

    def wait_for_it(_: object) -> None:
        inside.set()
        with held:
            pass

    namespace = walkeeper.open(directory)
    writer = namespace.log("log").writer()
    with held:
        writer.submit(b"x").add_done_callback(wait_for_it)
        assert inside.wait(30)
        waiting = writer.submit(b"y")
        begin = time.monotonic()
        namespace.close(timeout=2)
        assert time.monotonic() - begin < 20
        assert waiting.result(30).sequence_id == 1
        walkeeper.open(directory, lock_timeout=10).close()


@pytest.mark.parametrize("how", ["task", "loop"])
def test_a_close_that_is_cancelled_while_records_are_on_their_way_closes(directory: Path, how: str) -> None:
    """Where its own task is cancelled, and where the loop ends and cancels every task."""

    async def main() -> walkeeper.aio.Namespace:
        ns = await walkeeper.aio.open(directory, commit_wait=1)
        writer = await (await ns.log("orders")).writer()
        waits = await writer.submit(b"x")
        closing = asyncio.ensure_future(ns.close())
        await asyncio.sleep(0.1)
        assert not waits.done()
        if how == "task":
            closing.cancel()
            await asyncio.wait((closing,))
            assert (await asyncio.wait_for(waits, 10)).sequence_id == 0
            while not ns.closed:  # noqa: ASYNC110 - nothing else tells
                await asyncio.sleep(0.01)
        return ns

    ns = asyncio.run(asyncio.wait_for(main(), 30))
    assert ns.closed
    with walkeeper.open(directory) as again:
        assert again.log("orders").count() == 1
