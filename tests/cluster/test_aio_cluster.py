"""walkeeper.aio over a cluster: many tasks, segments that roll under them, followers, a loop that is not held up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import walkeeper
import walkeeper.aio
from walkeeper._writer import Writer
from walkeeper.cluster._writer import ClusterWriter
from walkeeper_bookie.cluster import LocalCluster


def test_tasks_append_across_segments_and_a_follower_sees_every_record(shared_bookies: LocalCluster, name: str) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(shared_bookies.metadata, namespace=name) as ns:
            log = await ns.log("orders", segment_bytes=2000)
            async with log.writer() as writer:
                follower = asyncio.ensure_future(_follow(log, 200))
                positions = await asyncio.gather(*(writer.append(b"%d" % number * 20) for number in range(150)))
                batch = await writer.append_many([b"x" * 100] * 49)
                last = await (await writer.submit(b"last"))
                seen = await follower
            assert sorted(at.sequence_id for at in positions) == list(range(150))
            assert (batch.first.sequence_id, batch.count, last.sequence_id) == (150, 49, 199)
            assert seen == list(range(200))
            assert len(await log.segments()) > 1
            assert await log.count() == 200

    asyncio.run(main())


async def _follow(log: walkeeper.aio.Log, count: int) -> list[int]:
    seen = []
    async with log.reader(follow=True, timeout=30) as reader:
        async for record in reader:
            seen.append(record.sequence_id)
            if len(seen) == count:
                break
    return seen


def test_a_segment_begins_in_a_thread_and_not_in_the_loops(
    shared_bookies: LocalCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    begin = ClusterWriter._begin_segment

    def noted(self: ClusterWriter) -> None:
        threads.append(threading.current_thread())
        begin(self)

    monkeypatch.setattr(ClusterWriter, "_begin_segment", noted)

    async def main() -> None:
        async with walkeeper.aio.open(shared_bookies.metadata, namespace=name) as ns:
            log = await ns.log("orders", segment_bytes=100)
            async with log.writer() as writer:
                for _ in range(5):
                    await writer.append(b"x" * 100)

    asyncio.run(main())
    assert len(threads) == 5
    assert threading.main_thread() not in threads


def test_a_plain_record_needs_no_thread(
    shared_bookies: LocalCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    one = Writer._one

    def noted(self: Writer, *arguments: Any) -> Any:
        calls.append(threading.current_thread())
        return one(self, *arguments)

    async def main() -> None:
        async with walkeeper.aio.open(shared_bookies.metadata, namespace=name) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                await writer.append(b"the first, which begins a segment")
                monkeypatch.setattr(Writer, "_one", noted)
                futures = [await writer.submit(b"x") for _ in range(50)]
                await writer.append(b"y")
                assert [at.sequence_id for at in await asyncio.gather(*futures)] == list(range(1, 51))

    asyncio.run(main())
    assert calls == []


def test_what_is_refused_is_refused_as_in_a_directory(shared_bookies: LocalCluster, name: str) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(shared_bookies.metadata, namespace=name) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                await writer.append(b"a", txid=5, expected=0)
                with pytest.raises(walkeeper.SequenceMismatchError) as caught:
                    await writer.append(b"a", txid=5, expected=0)
                assert (caught.value.sequence_id, caught.value.txid) == (0, 5)
                assert (await writer.append(b"b", txid=6, expected=1)).sequence_id == 1
                async with log.writer() as newer:
                    with pytest.raises(walkeeper.FencedError) as fenced:
                        await writer.append(b"late", txid=7)
                    assert fenced.value.outcome == "not_written"
                    await newer.append(b"c", txid=7)
            with pytest.raises(walkeeper.UnsupportedError):
                await ns.backup("/nowhere")

    asyncio.run(main())
