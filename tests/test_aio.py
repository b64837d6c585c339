"""walkeeper.aio: the same promises, awaited."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import walkeeper


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


async def contents(log: walkeeper.aio.Log, **where: Any) -> list[bytes]:
    return [bytes(record.payload) async for record in log.reader(**where)]


def test_append_and_read(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                at = await writer.append(b"paid 42")
                assert (at.sequence_id, at.dlsn) == (0, walkeeper.DLSN(1, 0, 0))
                assert await contents(log) == [b"paid 42"]
            assert writer.closed
        assert ns.closed

    run(main())


def test_opening_may_be_awaited(directory: Path) -> None:
    async def main() -> None:
        ns = await walkeeper.aio.open(directory)
        writer = await (await ns.log("orders")).writer()
        await writer.append(b"x")
        await writer.close()
        await ns.close()

    run(main())


def test_appends_of_many_tasks_keep_their_order_and_share_blocks(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                positions = await asyncio.gather(*(writer.append(b"%d" % number) for number in range(1000)))
            assert [position.sequence_id for position in positions] == list(range(1000))
            assert await contents(log) == [b"%d" % number for number in range(1000)]
            assert (await ns.stats()).blocks_count < 200

    run(main())


def test_an_append_needs_no_thread(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns, (await ns.log("orders")).writer() as writer:
            before = {thread.name for thread in threading.enumerate()}
            await asyncio.gather(*(writer.append(b"x") for _ in range(100)))
            assert {thread.name for thread in threading.enumerate()} == before

    run(main())


def test_order_is_kept_where_appends_wait_for_room(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory, in_flight_bytes=256 * 1024) as ns:
            log = await ns.log("orders")
            sizes = [60_000 if number % 3 else 10 for number in range(200)]
            async with log.writer() as writer:
                positions = await asyncio.gather(*(writer.append(b"x" * size) for size in sizes))
            assert [position.sequence_id for position in positions] == list(range(200))
            assert [len(payload) for payload in await contents(log)] == sizes

    run(main())


def test_append_many_and_submit(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                futures = [await writer.submit(b"%d" % number) for number in range(10)]
                batch = await writer.append_many([b"10", b"11"], expected=10)
                assert batch.last.sequence_id == 11
                assert [(await future).sequence_id for future in futures] == list(range(10))
                assert (await writer.flush()).sequence_id == 12
            assert await contents(log) == [b"%d" % number for number in range(12)]

    run(main())


def test_a_deferred_append_does_not_wait(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory, deferred_max_delay=30) as ns:
            log = await ns.log("orders")
            async with log.writer(durability="deferred") as writer:
                await asyncio.wait_for(writer.append(b"x"), 5)
                await writer.flush()
            assert await contents(log) == [b"x"]

    run(main())


def test_errors_are_those_of_the_sync_api(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                await writer.append(b"x", txid=5)
                with pytest.raises(walkeeper.TxidError):
                    await writer.append(b"y", txid=4)
                with pytest.raises(walkeeper.SequenceMismatchError):
                    await writer.append(b"y", txid=5, expected=0)
                assert (await writer.append(b"y", txid=5, expected=1)).sequence_id == 1
                async with log.writer():
                    with pytest.raises(walkeeper.FencedError):
                        await writer.append(b"z", txid=6)
            with pytest.raises(walkeeper.LogNotFoundError):
                await ns.log("sales", create=False)
            with pytest.raises(walkeeper.ClosedError):
                await writer.append(b"x")

    run(main())


def test_a_cancelled_append_leaves_a_consistent_log(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                tasks = [asyncio.ensure_future(writer.append(b"%d" % number)) for number in range(100)]
                await asyncio.sleep(0)
                for task in tasks[::2]:
                    task.cancel()
                answers = await asyncio.gather(*tasks, return_exceptions=True)
                at = await writer.append(b"after")
            payloads = await contents(log)
            assert len(payloads) == at.sequence_id + 1
            assert len(set(payloads)) == len(payloads)
            for number, answer in enumerate(answers):
                if isinstance(answer, walkeeper.Position):
                    assert payloads[answer.sequence_id] == b"%d" % number

    run(main())


def test_a_follower_gets_what_comes_later(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            seen: list[int] = []

            async def follow() -> None:
                async for record in log.reader(follow=True):
                    seen.append(record.sequence_id)
                    if len(seen) == 500:
                        return

            follower = asyncio.ensure_future(follow())
            async with log.writer() as writer:
                for _ in range(50):
                    await writer.append_many([b"x"] * 9)
                    await writer.append(b"y")
                await follower
            assert seen == list(range(500))

    run(main())


def test_the_end_of_the_stream_ends_a_follower(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            reader = log.reader(follow=True)
            async with log.writer() as writer:
                await writer.append(b"last")
                asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(writer.mark_end_of_stream()))
                assert [record.sequence_id async for record in reader] == [0]
                assert reader.ended

    run(main())


def test_a_timeout_ends_the_iteration_and_not_the_reader(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            reader = log.reader(follow=True, timeout=0.1)
            assert [record async for record in reader] == []
            assert await reader.read(timeout=0) == []
            async with log.writer() as writer:
                await writer.append(b"x")
            assert [record.sequence_id async for record in reader] == [0]

    run(main())


def test_a_cancelled_read_loses_nothing(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                reader = log.reader(follow=True)
                seen: list[int] = []
                for number in range(30):
                    reading = asyncio.ensure_future(reader.read())
                    await asyncio.sleep(0)
                    await writer.append(b"%d" % number)
                    reading.cancel()
                    try:
                        seen += [record.sequence_id for record in await reading]
                    except asyncio.CancelledError:
                        pass
                while len(seen) < 30:
                    seen += [record.sequence_id for record in await reader.read(timeout=10)]
            assert seen == list(range(30))

    run(main())


def test_leaving_a_loop_loses_nothing(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                await writer.append_many([b"x"] * 10)
            reader = log.reader()
            async for record in reader:
                if record.sequence_id == 3:
                    break
            assert [record.sequence_id for record in await reader.read(max_records=2)] == [4, 5]
            assert [record.sequence_id async for record in reader] == [6, 7, 8, 9]
            assert reader.ended

    run(main())


def test_arrow(directory: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra walkeeper[arrow] is not installed")

    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            reader = log.reader(follow=True, timeout=10)
            async with log.writer() as writer:
                reading = asyncio.ensure_future(reader.read_arrow())
                await asyncio.sleep(0.05)
                await writer.append(b"x")
                batch = await reading
            assert batch is not None
            assert batch.column("payload").to_pylist() == [b"x"]

    run(main())


def test_the_rest_of_the_names(directory: Path, tmp_path: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            assert (await log.first(), await log.last(), await log.count()) == (None, None, 0)
            async with log.writer() as writer:
                positions = [await writer.append(b"x", txid=number) for number in range(10)]
            assert (await log.first(), await log.last(), await log.count()) == (positions[0], positions[-1], 10)
            assert await log.find(txid=4) == positions[4]
            cursor = await log.cursor("billing")
            await cursor.advance(positions[5])
            assert (await cursor.position()).sequence_id == 5
            assert await log.cursors() == ["billing"]
            with pytest.raises(walkeeper.CursorHoldsError):
                await log.truncate(positions[6])
            await log.truncate(positions[5])
            assert await log.count() == 5
            assert (await log.segments())[0].segment == 1
            assert (await log.options()).codec == "none"
            await cursor.delete()
            await ns.rename_log("orders", "sales")
            assert await ns.logs() == ["sales"]
            await ns.backup(tmp_path / "copy")
            await ns.delete_log("sales")
            assert await ns.logs() == []
        async with walkeeper.aio.open(tmp_path / "copy") as ns:
            assert await contents(await ns.log("sales")) == [b"x"] * 5

    run(main())


def test_closing_the_namespace_completes_appends(directory: Path) -> None:
    async def main() -> None:
        ns = await walkeeper.aio.open(directory)
        writer = await (await ns.log("orders")).writer()
        futures = [await writer.submit(b"x") for _ in range(100)]
        await ns.close()
        assert [future.result().sequence_id for future in futures] == list(range(100))

    run(main())


def test_another_loop_is_refused(directory: Path) -> None:
    async def first() -> walkeeper.aio.Namespace:
        ns = await walkeeper.aio.open(directory)
        async with (await ns.log("orders")).writer() as writer:
            await writer.append(b"x")
        return ns

    async def second(ns: walkeeper.aio.Namespace) -> None:
        with pytest.raises(walkeeper.InvalidError, match="loop"):
            await (await ns.log("orders")).writer()
        await ns.close()

    ns = asyncio.run(first())
    run(second(ns))


def test_an_open_that_is_cancelled_leaves_no_lock(directory: Path) -> None:
    async def main() -> None:
        opening = asyncio.ensure_future(asyncio.wait_for(walkeeper.aio.open(directory), 60))
        await asyncio.sleep(0.001)
        opening.cancel()
        try:
            await (await opening).close()
        except asyncio.CancelledError:
            pass

    run(main())
    walkeeper.open(directory).close()


def test_a_cursor_does_not_pass_the_end(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                await writer.append(b"x")
            cursor = await log.cursor("billing")
            assert cursor.log is log
            with pytest.raises(walkeeper.InvalidError, match="the log ends at"):
                await cursor.advance(walkeeper.DLSN(999, 0, 0))
            assert (await cursor.position()).sequence_id == 0

    run(main())


def test_a_reader_knows_where_it_stands(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                positions = [await writer.append(b"x") for _ in range(3)]
            reader = log.reader()
            for position in positions:
                assert await reader.position() == position.dlsn
                await anext(reader)
            assert await log.find(dlsn=await reader.position()) == (await log.info()).next

    run(main())


def test_a_timeout_of_0_waits_for_no_room_and_for_the_disk(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                assert (await writer.append(b"x", timeout=0)).sequence_id == 0
                assert (await writer.append_many([b"y", b"z"], timeout=0)).last.sequence_id == 2

    run(main())


def test_a_follower_that_is_cancelled_and_closed_leaves_no_complaint(directory: Path) -> None:
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
        async with walkeeper.aio.open(directory) as ns:
            await ns.log("orders")
            async with walkeeper.aio.open(directory, read_only=True) as follower:
                reader = (await follower.log("orders", create=False)).reader(follow=True)
                reading = asyncio.ensure_future(reader.read())
                await asyncio.sleep(0.1)
                reading.cancel()
                await asyncio.wait((reading,))
            await asyncio.sleep(0.5)
            del reader, reading
            gc.collect()

    run(main())
    assert complaints == []


def test_append_many_takes_an_arrow_array(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("a")
            async with await log.writer() as writer:
                batch = await writer.append_many(pyarrow.array([b"one", b"", b"three"]))
                assert (batch.first.sequence_id, batch.count) == (0, 3)
            async with log.reader() as reader:
                assert [bytes(record.payload) for record in await reader.read()] == [b"one", b"", b"three"]

    asyncio.run(main())
