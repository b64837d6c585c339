"""Ledgers with async and await: the same names, the same promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from ledger_runs import PATIENCE_S, contents, hanging

import walkeeper
import walkeeper.aio
from walkeeper_bookie.cluster import LocalCluster


def run(test: Callable[[walkeeper.aio.LedgerClient], Coroutine[Any, Any, None]], uri: str, **options: Any) -> None:
    async def main() -> None:
        async with walkeeper.aio.LedgerClient(uri, **options) as client:
            await asyncio.wait_for(test(client), PATIENCE_S)
        assert client.closed

    asyncio.run(main())


def test_what_tasks_add_is_read_back(shared_cluster: LocalCluster, client: walkeeper.LedgerClient) -> None:
    async def test(aio: walkeeper.aio.LedgerClient) -> None:
        async with await aio.create(ack_quorum=2) as writer:
            ids = await asyncio.gather(*(writer.add(b"entry %d" % number) for number in range(500)))
            assert ids == list(range(500))
            assert await writer.add_many([b"x", b"y"]) == range(500, 502)
            future = await writer.submit(b"z")
            assert (await future, await writer.flush(), writer.lac, writer.last_add_pushed) == (502, 502, 502, 502)
            assert [entry.entry_id async for entry in writer.read(500)] == [500, 501, 502]
        assert writer.metadata.is_closed
        async with await aio.open(writer.ledger_id) as reader:
            found = [entry.payload async for entry in reader.read()]
            assert (reader.lac, len(found), await reader.read_last_confirmed()) == (502, 503, 502)
            with pytest.raises(walkeeper.InvalidError):
                [entry async for entry in reader.read(600)]
        assert found == contents(client, writer.ledger_id)
        assert writer.ledger_id in [ledger_id async for ledger_id in aio.list()]
        assert (await aio.metadata(writer.ledger_id)).is_closed
        await aio.delete(writer.ledger_id)
        with pytest.raises(walkeeper.LedgerNotFoundError):
            await aio.open(writer.ledger_id)
        assert [bookie.state for bookie in await aio.bookies()] == ["writable"] * 3

    run(test, shared_cluster.metadata)


def test_a_reader_beside_the_writer_leaves_it_alone(shared_cluster: LocalCluster) -> None:
    async def test(aio: walkeeper.aio.LedgerClient) -> None:
        async with await aio.create() as writer, await aio.open_no_recovery(writer.ledger_id) as reader:
            await writer.add(b"0")
            await writer.add(b"1")
            assert await reader.read_last_confirmed() in (0, 1)
            assert [entry.payload async for entry in reader.read_unconfirmed(0)] == [b"0", b"1"]
            waiting = asyncio.ensure_future(reader.wait_last_confirmed(1))
            await writer.add(b"2")
            assert await waiting == 2
            with pytest.raises(walkeeper.TimeoutError):
                await reader.wait_last_confirmed(2, timeout=0.05)

    run(test, shared_cluster.metadata)


def test_a_fenced_writer_is_told(shared_cluster: LocalCluster, client: walkeeper.LedgerClient) -> None:
    async def test(aio: walkeeper.aio.LedgerClient) -> None:
        writer = await aio.create()
        await writer.add(b"paid 42")
        assert await asyncio.to_thread(contents, client, writer.ledger_id) == [b"paid 42"]
        with pytest.raises(walkeeper.FencedError) as caught:
            await writer.add(b"paid 43")
        assert (caught.value.outcome, caught.value.entry_id) == ("unknown", 1)
        await writer.close()

    run(test, shared_cluster.metadata)


def test_a_time_limit_and_a_cancelled_task_leave_the_entry_on_its_way(cluster: LocalCluster) -> None:
    async def test(aio: walkeeper.aio.LedgerClient) -> None:
        async with await aio.create() as writer:
            with hanging(*cluster.bookies[:2]):
                with pytest.raises(walkeeper.QuorumTimeoutError) as caught:
                    await writer.add(b"x", timeout=0.1)
                assert (caught.value.outcome, caught.value.entry_id) == ("unknown", 0)
                task = asyncio.ensure_future(writer.add(b"y"))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await writer.add(b"z") == 2

    run(test, cluster.metadata, add_timeout=PATIENCE_S)


def test_no_thread_waits_for_adds(cluster: LocalCluster) -> None:
    async def test(aio: walkeeper.aio.LedgerClient) -> None:
        async with await aio.create() as writer:
            await writer.add(b"first")
            before = threading.active_count()
            with hanging(*cluster.bookies[:2]):
                tasks = [asyncio.ensure_future(writer.add(b"x")) for _ in range(1000)]
                await asyncio.sleep(0)
                assert (writer.last_add_pushed, threading.active_count()) == (1000, before)
            assert await asyncio.gather(*tasks) == list(range(1, 1001))

    run(test, cluster.metadata, add_timeout=PATIENCE_S)


def test_where_there_is_no_room_tasks_wait_in_their_order(cluster: LocalCluster) -> None:
    async def test(aio: walkeeper.aio.LedgerClient) -> None:
        async with await aio.create() as writer:
            with hanging(*cluster.bookies[:2]):
                with pytest.raises(walkeeper.WouldBlockError):
                    [await writer.submit(b"x", timeout=0) for _ in range(100_000)]
                full = writer.last_add_pushed
                tasks = [asyncio.ensure_future(writer.add(b"y")) for _ in range(10)]
                await asyncio.sleep(0)
                assert writer.last_add_pushed == full
            assert await asyncio.gather(*tasks) == list(range(full + 1, full + 11))

    run(test, cluster.metadata, add_timeout=PATIENCE_S)


def test_a_client_that_nobody_entered_is_refused() -> None:
    async def main() -> None:
        client = walkeeper.aio.LedgerClient("memory:nobody")
        assert client.closed
        for call in (client.create, client.bookies, lambda: client.open(0)):
            with pytest.raises(walkeeper.InvalidError):
                await call()
        await client.close()
        with pytest.raises(walkeeper.NotFoundError):
            await client

    asyncio.run(main())
