"""A disk that fails under an open namespace: what each call and each future says, and what is there afterwards.

The disk is made to fail by the limit on the size of files: a write beyond it is refused by the kernel with EFBIG.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import walkeeper

Open = Callable[..., walkeeper.Namespace]
TIMEOUT = 60


@contextmanager
def failing_disk() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(log: walkeeper.Log) -> list[bytes]:
    return [bytes(record.payload) for record in log.reader()]


def test_after_a_failed_write_appends_are_refused_and_reading_goes_on(tmp_path: Path) -> None:
    for attempt in range(10):  # the keeper may write first, and find the disk broken
        directory = tmp_path / str(attempt)
        ns = walkeeper.open(directory, confirm_delay=3600.0)
        log = ns.log("orders")
        writer = log.writer()
        writer.append(b"before")
        with failing_disk(), pytest.raises(walkeeper.JournalFailedError) as failed:
            writer.append(b"lost", timeout=TIMEOUT)
        if failed.value.outcome == "unknown":
            break
        with suppress(walkeeper.JournalFailedError):  # no append of ours: all that was accepted may be durable
            ns.close()
    assert failed.value.outcome == "unknown"
    assert failed.value.log == "orders"
    assert "File too large" in str(failed.value)
    with pytest.raises(walkeeper.JournalFailedError) as refused:  # the disk is well again, the journal is not
        writer.append(b"never")
    assert refused.value.outcome == "not_written"
    with pytest.raises(walkeeper.JournalFailedError) as refused:
        writer.append_many([b"never", b"never"])
    assert refused.value.outcome == "not_written"
    assert ns.stats().failed
    assert contents(log)[:1] == [b"before"]
    with pytest.raises(walkeeper.JournalFailedError):
        ns.close()
    with walkeeper.open(directory) as again:
        assert contents(again.log("orders"))[:1] == [b"before"]
        with again.log("orders").writer() as writer:
            writer.append(b"after")


def test_every_future_in_flight_says_what_became_of_its_record(tmp_path: Path) -> None:
    for attempt in range(10):  # the keeper may write first, and find the disk broken
        directory = tmp_path / str(attempt)
        ns = walkeeper.open(directory)
        writer = ns.log("orders").writer()
        assert writer.submit(b"before").result(TIMEOUT).sequence_id == 0
        futures: list[Future[walkeeper.Position]] = []
        with failing_disk():
            with suppress(walkeeper.JournalFailedError):  # where the first has failed already
                futures.extend(writer.submit(b"lost", durability="deferred") for _ in range(3))
            errors = [future.exception(TIMEOUT) for future in futures]
        if futures:
            break
        with suppress(walkeeper.JournalFailedError):
            ns.close()
    assert futures
    possible = [b"before"]
    for number, error in enumerate(errors, 1):
        assert isinstance(error, walkeeper.JournalFailedError)
        assert error.sequence_id == number
        assert error.log == "orders"
        assert error.outcome in {"unknown", "not_written"}  # in a block that failed, or not in one yet
        possible += [b"lost"] if error.outcome == "unknown" else []
    with pytest.raises(walkeeper.JournalFailedError):
        ns.close()
    with walkeeper.open(directory) as again:
        found = contents(again.log("orders"))
    assert found == possible[: len(found)]
    assert found


def run_until_a_block_failed(directory: Path, main: Callable[[Path], Awaitable[bool]]) -> None:
    """Where the keeper found the disk broken first (False), nothing of ours was in a block: once more, elsewhere."""

    async def attempts() -> None:
        for attempt in range(10):
            if await main(directory / str(attempt)):
                return
        pytest.fail("the keeper was quicker each time")

    directory.mkdir()
    asyncio.run(asyncio.wait_for(attempts(), TIMEOUT))


def test_awaited_appends_and_futures_fail_with_the_journal(directory: Path) -> None:
    async def main(place: Path) -> bool:
        ns = await walkeeper.aio.open(place)
        log = await ns.log("orders")
        writer = await log.writer()
        await writer.append(b"before")

        async def submitted() -> walkeeper.Position:
            return await (await writer.submit(b"lost"))

        with failing_disk():
            appends = (submitted(), submitted(), writer.append(b"lost"))
            answers = await asyncio.gather(*appends, return_exceptions=True)
        outcomes = set()
        for error in answers:
            assert isinstance(error, walkeeper.JournalFailedError), error
            assert error.log == "orders"
            outcomes.add(error.outcome)
        assert outcomes <= {"unknown", "not_written"}
        with pytest.raises(walkeeper.JournalFailedError):
            await writer.append(b"never")
        return await fails_to_close(ns, "unknown" in outcomes)

    run_until_a_block_failed(directory, main)


def test_an_awaiting_follower_learns_that_nothing_can_follow(directory: Path) -> None:
    async def main(place: Path) -> bool:
        ns = await walkeeper.aio.open(place)
        log = await ns.log("orders")
        writer = await log.writer()
        await writer.append(b"before")
        reader = log.reader(follow=True)
        assert isinstance(await anext_of(reader), walkeeper.Record)
        waiting = asyncio.ensure_future(anext_of(reader))
        await asyncio.sleep(0.05)
        with failing_disk(), pytest.raises(walkeeper.JournalFailedError) as failed:
            await writer.append(b"lost")
        with pytest.raises(walkeeper.JournalFailedError):
            await waiting
        return await fails_to_close(ns, failed.value.outcome == "unknown")

    async def anext_of(reader: walkeeper.aio.Reader) -> walkeeper.Record:
        return await reader.__anext__()

    run_until_a_block_failed(directory, main)


async def fails_to_close(ns: walkeeper.aio.Namespace, a_block_failed: bool) -> bool:
    if a_block_failed:
        with pytest.raises(walkeeper.JournalFailedError):
            await ns.close()
    else:
        with suppress(walkeeper.JournalFailedError):
            await ns.close()
    return a_block_failed
