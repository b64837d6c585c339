"""walkeeper.aio: what is refused changes nothing, and is refused in the words of the sync API."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import walkeeper
from walkeeper.directory._namespace import DirectoryNamespace

BAD_TIMES = [-1, float("nan"), "x", True]


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


@pytest.mark.parametrize("timeout", BAD_TIMES)
def test_a_close_with_a_time_that_cannot_be_leaves_a_namespace_that_works(directory: Path, timeout: Any) -> None:
    async def main() -> None:
        opening = walkeeper.aio.open(directory, deferred_max_delay=0.5)
        async with opening as ns, (await ns.log("orders")).writer() as writer:
            waits = await writer.submit(b"x", durability="deferred")
            with pytest.raises(walkeeper.InvalidError, match=r"^timeout="):
                await ns.close(timeout)
            assert not ns.closed
            assert not waits.done()
            assert (await asyncio.wait_for(writer.append(b"y"), 10)).sequence_id == 1
            assert (await asyncio.wait_for(waits, 10)).sequence_id == 0

    run(main())


@pytest.mark.parametrize("timeout", BAD_TIMES)
def test_an_append_with_a_time_that_cannot_be_says_that_nothing_was_written(directory: Path, timeout: Any) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns, (await ns.log("orders")).writer() as writer:
            for append in (
                writer.append(b"x", timeout=timeout),
                writer.submit(b"x", timeout=timeout),
                writer.append_many([b"x"], timeout=timeout),
            ):
                with pytest.raises(walkeeper.InvalidError, match=r"^timeout=") as caught:
                    await append
                assert caught.value.outcome == "not_written"
            assert writer.next_sequence_id == 0

    run(main())


def test_a_close_has_its_time_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waiting for pending records took is not there for the rest any more."""
    given: list[float | None] = []
    close = DirectoryNamespace.close

    def closed_slowly(namespace: DirectoryNamespace, timeout: float | None = None) -> None:
        given.append(timeout)
        close(namespace)

    async def main() -> None:
        ns = await walkeeper.aio.open(directory, commit_wait=30)
        writer = await (await ns.log("orders")).writer()
        waits = await writer.submit(b"x")
        monkeypatch.setattr(DirectoryNamespace, "close", closed_slowly)
        await ns.close(0.2)
        assert (await waits).sequence_id == 0

    run(main())
    assert given == [0.0]


@pytest.mark.parametrize("timeout", [10**400, 1e300], ids=["10**400", "1e300"])
def test_a_time_out_that_is_too_long_to_be_counted_is_for_ever(directory: Path, timeout: float) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            writer = await log.writer()
            assert (await writer.append(b"x", timeout=timeout)).sequence_id == 0
            assert (await (await writer.submit(b"x", timeout=timeout))).sequence_id == 1
            assert (await writer.append_many([b"x"], timeout=timeout)).count == 1
            assert len(await log.reader(follow=True).read(timeout=timeout)) == 3
            await writer.submit(b"x")
            await ns.close(timeout)

    run(main())


@pytest.mark.parametrize("many_first", [True, False])
def test_a_mismatch_ends_with_its_exception(directory: Path, many_first: bool) -> None:
    """Whoever learns of it goes on from next_sequence_id, with either call."""

    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns, (await ns.log("orders")).writer() as writer:
            await writer.append(b"x")

            async def append(expected: int, many: bool) -> None:
                await (
                    writer.append_many([b"y"], expected=expected) if many else writer.append(b"y", expected=expected)
                )

            for many in (many_first, not many_first):
                with pytest.raises(walkeeper.SequenceMismatchError, match="expected sequence id 7"):
                    await append(7, many)
                await append(writer.next_sequence_id, not many)
                await append(writer.next_sequence_id, many)

    run(main())


def test_limits_that_cannot_be_are_refused_before_a_reader_waits(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            for wrong in ({"max_records": 0}, {"max_records": -1}, {"max_bytes": "x"}, {"timeout": -1}):
                arguments: dict[str, Any] = wrong
                for follow in (False, True):
                    with pytest.raises(walkeeper.InvalidError, match=f"^{next(iter(arguments))}="):
                        await asyncio.wait_for(log.reader(follow=follow).read(**arguments), 10)
            reader = log.reader()
            async with log.writer() as writer:
                await writer.append_many([b"x", b"y"])
            await anext(reader)
            with pytest.raises(walkeeper.InvalidError, match=r"^timeout="):
                await reader.read(timeout=-1)
            assert len(await reader.read()) == 1

    run(main())


def test_a_writer_that_cannot_be_opened_as_asked_fences_nobody(directory: Path) -> None:
    async def main() -> None:
        async with walkeeper.aio.open(directory) as ns:
            log = await ns.log("orders")
            async with log.writer() as writer:
                with pytest.raises(walkeeper.InvalidError, match=r"^durability="):
                    await log.writer(durability="soon")  # type: ignore[arg-type]
                assert (await writer.append(b"x")).sequence_id == 0

    run(main())


def test_another_loop_fences_nobody(directory: Path) -> None:
    with walkeeper.open(directory) as sync, sync.log("orders").writer() as living:

        async def first() -> walkeeper.aio.Namespace:
            ns = await walkeeper.aio.open(directory)
            async with (await ns.log("sales")).writer() as writer:
                await writer.append(b"x")
            return ns

        async def second(ns: walkeeper.aio.Namespace) -> None:
            with pytest.raises(walkeeper.InvalidError, match="loop"):
                await (await ns.log("orders")).writer()
            await ns.close()

        run(second(asyncio.run(first())))
        assert living.append(b"x").sequence_id == 0
