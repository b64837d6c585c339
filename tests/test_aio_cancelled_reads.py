"""walkeeper.aio: a read that is cancelled leaves its fetch running in a thread. What that brings is yielded once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import walkeeper


def test_what_a_cancelled_read_of_a_follower_brings_late_is_yielded_once(directory: Path) -> None:
    """The record comes behind the cancelled read and before the next. A later read waits for more, as ever."""

    async def main() -> None:
        with walkeeper.open(directory) as sync, sync.log("log").writer() as writer:
            writer.append(b"0")
            async with walkeeper.aio.open(directory, read_only=True) as ns:
                reader = (await ns.log("log", create=False)).reader(follow=True)
                assert len(await reader.read()) == 1
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(reader.read(), 0.05)
                writer.append(b"1")
                await asyncio.sleep(0.6)  # the thread of the cancelled read has it
                assert [record.sequence_id for record in await reader.read()] == [1]
                later = threading.Timer(0.3, writer.append, (b"2",))
                later.start()
                assert [record.sequence_id for record in await reader.read(timeout=10)] == [2]
                later.join()

    asyncio.run(asyncio.wait_for(main(), 60))


async def cancel_a_read_arrow(reader: walkeeper.aio.Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it fetches comes when it is cancelled already."""
    may_go_on = threading.Event()
    wait = walkeeper.Reader._wait

    def slow(*arguments: object) -> bool:
        may_go_on.wait(10)
        return wait(*arguments)  # type: ignore[arg-type]

    await reader.position()
    with monkeypatch.context() as patched:
        patched.setattr(walkeeper.Reader, "_wait", slow)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read_arrow(), 0.1)
        may_go_on.set()
        await asyncio.sleep(0.2)


def test_what_a_cancelled_read_arrow_got_is_there_for_a_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")

    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("log")
            async with log.writer() as writer:
                await writer.append_many([b"0", b"1", b"2"])
            reader = log.reader()
            await cancel_a_read_arrow(reader, monkeypatch)
            at = await reader.position()
            assert not reader.ended
            assert [record.sequence_id for record in await log.reader(at).read()] == [0, 1, 2]
            assert [record.sequence_id for record in await reader.read()] == [0, 1, 2]

    asyncio.run(asyncio.wait_for(main(), 60))


def test_what_a_cancelled_read_arrow_got_is_there_for_one_that_wants_less(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives all of it, and the next one what is behind."""
    pytest.importorskip("pyarrow")

    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("log")
            async with log.writer() as writer:
                await writer.append_many([b"0", b"1", b"2"])
                reader = log.reader()
                await cancel_a_read_arrow(reader, monkeypatch)
                await writer.append_many([b"3", b"4"])
            batches = [await reader.read_arrow(1) for _ in range(3)]
            ids = [batch.column("sequence_id").to_pylist() for batch in batches if batch is not None]
            assert ids == [[0, 1, 2], [3], [4]]
            assert await reader.read_arrow(1) is None

    asyncio.run(asyncio.wait_for(main(), 60))
