"""Closing a reader while another thread, or another task, reads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

import walkeeper


def test_another_thread_may_close_a_reader_at_any_moment(directory: Path) -> None:
    """In the moment when a batch has come and is not yet taken, too. What reads then is told that it was closed."""
    code = """
import faulthandler, random, sys, threading, time, walkeeper
faulthandler.enable()
sys.setswitchinterval(1e-6)

def read(reader, take):
    try:
        while take(reader):
            pass
        told.append("nothing more")
    except walkeeper.ClosedError:
        told.append("closed")
    except BaseException as wrong:
        told.append(repr(wrong))

ways = [lambda reader: reader.read(max_records=1), lambda reader: reader.position]
with walkeeper.open(sys.argv[1]) as namespace:
    log, told = namespace.log("log"), []
    with log.writer() as writer:
        writer.append_many([b"x"] * 20000)
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and set(told) <= {"closed"}:
        for take in ways:
            reader = log.reader()
            thread = threading.Thread(target=read, args=(reader, take))
            thread.start()
            time.sleep(random.random() * 0.002)
            reader.close()
            thread.join()
assert set(told) == {"closed"}, set(told)
"""
    done = subprocess.run([sys.executable, "-c", code, directory], cwd="/", timeout=60, check=False)
    assert done.returncode == 0


def test_another_task_may_close_a_reader(directory: Path) -> None:
    """The batch has come in its thread, and the task that waits for it has not gone on yet."""

    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("log")
            async with log.writer() as writer:
                await writer.append(b"x")
            reader = log.reader()
            await reader.position()
            reading = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            time.sleep(0.3)  # noqa: ASYNC251 - the thread has the record then, and the loop does not know
            await reader.close()
            with pytest.raises(walkeeper.ClosedError):
                await reading

    asyncio.run(asyncio.wait_for(main(), 60))


def test_an_iterator_ends_where_its_reader_is_closed(directory: Path) -> None:
    """What was fetched and not yet yielded is let go: iterating and reading say the same."""
    with walkeeper.open(directory) as namespace:
        log = namespace.log("log")
        with log.writer() as writer:
            writer.append_many([b"x"] * 10)
        reader = log.reader()
        records = iter(reader)
        first = next(records)
        reader.close()
        for take in (lambda: next(records), reader.read, lambda: next(reader)):
            with pytest.raises(walkeeper.ClosedError):
                take()
        assert bytes(first.payload) == b"x"


def test_an_iterator_of_a_task_ends_where_its_reader_is_closed(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("log")
            async with log.writer() as writer:
                await writer.append_many([b"x"] * 10)
            reader = log.reader()
            records = aiter(reader)
            await anext(records)
            await reader.close()
            with pytest.raises(walkeeper.ClosedError):
                await anext(records)

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("read_only", [False, True], ids=["by events", "by looks"])
@pytest.mark.parametrize("way", ["read", "__anext__", "read_arrow"])
def test_a_task_that_waits_is_told_that_its_reader_was_closed(directory: Path, way: str, read_only: bool) -> None:
    if way == "read_arrow":
        pytest.importorskip("pyarrow", reason="the extra walkeeper[arrow] is not installed")

    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            await ns.log("log")
            async with walkeeper.aio.open(directory, read_only=read_only) as follower:
                reader = (await follower.log("log", create=False)).reader(follow=True)
                waiting = asyncio.ensure_future(getattr(reader, way)())
                await asyncio.sleep(0.3)
                assert not waiting.done()
                await reader.close()
                with pytest.raises(walkeeper.ClosedError):
                    await asyncio.wait_for(waiting, 10)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_reader_that_is_closed_while_it_is_opened_yields_nothing(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("log")
            async with log.writer() as writer:
                await writer.append(b"x")
            reader = log.reader()
            reading = asyncio.ensure_future(reader.read())
            await asyncio.sleep(0)
            await reader.close()
            with pytest.raises(walkeeper.ClosedError):
                await reading

    asyncio.run(asyncio.wait_for(main(), 60))
