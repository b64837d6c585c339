"""walkeeper.aio: what is refused changes nothing, and is refused in the words of the sync API."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import walkeeper

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
