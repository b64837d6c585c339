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
