"""walkeeper.aio and two event loops: the loop that opened a namespace uses it, and any loop may close it."""

from __future__ import annotations

import asyncio
import inspect
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import walkeeper
from walkeeper import aio

MAY_CLOSE = {"close", "__aexit__"}
"""What any loop may call."""

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Cursor.advance": (walkeeper.DLSN(1, 0, 1),),
    "Log.cursor": ("another",),
    "Log.truncate": (walkeeper.DLSN(1, 0, 1),),
    "Namespace.backup": ("copy",),
    "Namespace.delete_log": ("orders",),
    "Namespace.log": ("another",),
    "Namespace.rename_log": ("orders", "sales"),
    "Writer.append": (b"x",),
    "Writer.append_many": ([b"x"],),
    "Writer.submit": (b"x",),
}
"""Arguments with which a call does something. A call that is not listed gets None for what it requires."""

WRITES = {"Writer.append", "Writer.append_many", "Writer.submit", "Writer.mark_end_of_stream"}
TIMEOUT = 60


OF_NO_LOOP = {"LedgerClient", "LedgerReader", "LedgerWriter"}
"""They keep nothing of the loop that made them: each call belongs to the loop that it is made in."""


def public_coroutines() -> Iterator[tuple[str, str]]:
    """Each class of walkeeper.aio with each of its methods that a caller awaits or enters."""
    for name in aio.__all__:
        kind = getattr(aio, name)
        if not inspect.isclass(kind) or kind is aio.Opening or name in OF_NO_LOOP:
            continue
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            public = not method.startswith("_") or method in {"__aenter__", "__aexit__", "__anext__"}
            returned = str(inspect.signature(function).return_annotation)
            if public and (inspect.iscoroutinefunction(function) or returned.startswith(("Opening", "Awaitable"))):
                yield name, method


CALLS = sorted(public_coroutines())


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, TIMEOUT))


@dataclass
class Opened:
    """One of each class, made in the first loop."""

    Namespace: aio.Namespace
    Log: aio.Log
    Writer: aio.Writer
    Reader: aio.Reader
    Cursor: aio.Cursor


async def opened(directory: Path, **options: Any) -> Opened:
    ns = await aio.open(directory, **options)
    log = await ns.log("orders")
    writer = await log.writer()
    await writer.append_many([b"a", b"b", b"c"])
    reader = log.reader()
    assert (await anext(reader)).sequence_id == 0
    return Opened(ns, log, writer, reader, await log.cursor("billing"))


def test_the_table_knows_the_calls() -> None:
    names = {f"{kind}.{method}" for kind, method in CALLS}
    assert set(ARGUMENTS) <= names
    assert names >= WRITES
    assert {"Log.writer", "Reader.__anext__", "Reader.read_arrow", "Cursor.position", "Namespace.stats"} <= names


@pytest.mark.parametrize(("kind", "method"), CALLS, ids=[f"{kind}.{method}" for kind, method in CALLS])
def test_another_loop_is_refused_before_anything_is_done(
    directory: Path, monkeypatch: pytest.MonkeyPatch, kind: str, method: str
) -> None:
    monkeypatch.chdir(directory.parent)
    things: Opened = run(opened(directory))
    name = f"{kind}.{method}"
    function = getattr(getattr(things, kind), method)
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    arguments = ARGUMENTS.get(name, (None,) * len(required))

    async def second() -> None:
        if method in MAY_CLOSE:
            await function(*arguments)
            return
        with pytest.raises(walkeeper.InvalidError, match="used by another event loop") as refused:
            await function(*arguments)
        assert refused.value.outcome == ("not_written" if name in WRITES else None)

    run(second())
    run(things.Namespace.close())
    assert not (directory.parent / "copy").exists()
    with walkeeper.open(directory) as again:
        assert again.logs() == ["orders"]
        log = again.log("orders", create=False)
        assert [bytes(record.payload) for record in log.reader()] == [
            b"a",
            b"b",
            b"c",
        ]
        assert not log.info().end_of_stream
        assert log.cursors() == ["billing"]
        assert log.cursor("billing").position.sequence_id == 0


def test_what_a_loop_refused_the_next_open_may_append_once(directory: Path) -> None:
    things: Opened = run(opened(directory))

    async def second() -> None:
        with pytest.raises(walkeeper.InvalidError) as refused:
            await things.Writer.append(b"x")
        assert refused.value.outcome == "not_written"
        await things.Namespace.close()
        async with aio.open(directory) as ns, (await ns.log("orders")).writer() as writer:
            assert (await writer.append(b"x")).sequence_id == 3

    run(second())


@pytest.mark.parametrize("durability", ["sync", "deferred"])
def test_a_close_does_not_wait_for_the_futures_of_a_closed_loop(directory: Path, durability: str) -> None:
    """A task of the closed loop waits for one of them. What was accepted is durable when close() returns."""

    async def first() -> Opened:
        things = await opened(directory, deferred_max_delay=1000, commit_wait=1)
        pending = await things.Writer.submit(b"d", durability=durability)  # type: ignore[arg-type]
        waiting = asyncio.ensure_future(things.Writer.submit(b"e", durability=durability))  # type: ignore[arg-type]
        following = asyncio.ensure_future(things.Log.reader("end", follow=True).read())
        await asyncio.wait((waiting,))
        pending.add_done_callback(lambda _: pytest.fail("a closed loop runs no callback"))
        assert not pending.done()
        assert not following.done()
        return things

    things: Opened = run(first())
    run(things.Namespace.close())
    assert things.Namespace.closed
    with walkeeper.open(directory, lock_timeout=10) as again:
        assert again.log("orders").count() == 5


def test_a_writer_and_a_reader_of_a_closed_loop_can_be_closed(directory: Path) -> None:
    async def first() -> Opened:
        things = await opened(directory)
        follower = things.Log.reader("end", follow=True)
        following = asyncio.ensure_future(follower.read())
        await asyncio.sleep(0)
        while follower._closing is None:  # noqa: ASYNC110 - it waits from then on
            await asyncio.sleep(0)
        assert not following.done()
        things.Reader = follower
        return things

    async def second() -> None:
        await things.Reader.close()
        await things.Writer.close()
        assert (things.Reader.closed, things.Writer.closed) == (True, True)
        await things.Namespace.close()

    things: Opened = run(first())
    run(second())


def test_a_close_reports_a_failed_journal_in_any_loop(directory: Path) -> None:
    """As the blocking API does. The append of the first loop was cancelled: nobody was told before."""
    for attempt in range(10):  # the keeper may write first, and find the disk broken
        place = directory.with_name(f"wal{attempt}")

        async def first(place: Path = place) -> tuple[aio.Namespace, bool]:
            ns = await aio.open(place)
            writer = await (await ns.log("orders")).writer()
            await writer.append(b"a")
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
            try:
                with pytest.raises(walkeeper.JournalFailedError) as failed:
                    await writer.append(b"lost")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            return ns, failed.value.outcome == "unknown"

        ns, a_block_failed = run(first())
        if not a_block_failed:
            run(ns.close())
            continue
        with pytest.raises(walkeeper.JournalFailedError):
            run(ns.close())
        assert ns.closed
        return
    pytest.fail("the keeper was quicker each time")


@contextmanager
def loop_of_another_thread() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """A loop that runs in a thread; what is given to it runs there, and the answer is waited for."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda main: asyncio.run_coroutine_threadsafe(main, loop).result(TIMEOUT)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_close_from_another_loop_tells_the_tasks_of_a_running_one(directory: Path) -> None:
    async def start() -> tuple[Opened, asyncio.Future[Any], asyncio.Future[Any]]:
        things = await opened(directory, deferred_max_delay=1000)
        accepted = await things.Writer.submit(b"d", durability="deferred")
        follower = things.Log.reader("end", follow=True)
        following = asyncio.ensure_future(follower.read())
        while follower._closing is None:  # noqa: ASYNC110 - it waits from then on
            await asyncio.sleep(0)
        return things, accepted, following

    async def told(accepted: asyncio.Future[Any], following: asyncio.Future[Any]) -> tuple[Any, Any]:
        done, _ = await asyncio.wait((accepted, following), timeout=30)
        assert done == {accepted, following}
        return accepted.result(), following.exception()

    with loop_of_another_thread() as there:
        things, accepted, following = there(start())
        run(things.Namespace.close())
        position, error = there(told(accepted, following))
        assert position.sequence_id == 3
        assert isinstance(error, walkeeper.ClosedError)

        async def after() -> None:
            with pytest.raises(walkeeper.ClosedError):
                await things.Writer.append(b"x")
            await things.Namespace.close()

        there(after())


def test_a_close_from_another_loop_closes_a_reader_that_waits_in_a_running_one(directory: Path) -> None:
    async def start() -> tuple[Opened, aio.Reader, asyncio.Future[Any]]:
        things = await opened(directory)
        follower = things.Log.reader("end", follow=True)
        following = asyncio.ensure_future(follower.read())
        while follower._closing is None:  # noqa: ASYNC110 - it waits from then on
            await asyncio.sleep(0)
        return things, follower, following

    async def told(following: asyncio.Future[Any]) -> BaseException | None:
        await asyncio.wait((following,), timeout=30)
        return following.exception()

    with loop_of_another_thread() as there:
        things, follower, following = there(start())
        run(follower.close())
        assert isinstance(there(told(following)), walkeeper.ClosedError)
        there(things.Namespace.close())


def test_a_close_does_not_wait_for_a_loop_that_stands_still(directory: Path) -> None:
    """The loop is neither closed nor running. It hears of its records when it runs again.

    The descriptor it listened to is its own until then: it takes none away from who got one meanwhile.
    """
    meanwhile: list[int] = []
    loop = asyncio.new_event_loop()
    try:

        async def start() -> tuple[Opened, asyncio.Future[Any]]:
            things = await opened(directory, deferred_max_delay=1000)
            return things, await things.Writer.submit(b"d", durability="deferred")

        things, accepted = loop.run_until_complete(start())
        run(things.Namespace.close())
        for _ in range(20):
            meanwhile += os.pipe()
        assert loop.run_until_complete(asyncio.wait_for(accepted, 30)).sequence_id == 3
        for descriptor in meanwhile:
            os.fstat(descriptor)
    finally:
        loop.close()
        for descriptor in meanwhile:
            with suppress(OSError):
                os.close(descriptor)


def test_a_namespace_that_is_closed_elsewhere_leaves_no_descriptor(directory: Path) -> None:
    code = """
import asyncio, faulthandler, gc, os, sys, walkeeper
faulthandler.dump_traceback_later(30, exit=True)

async def first():
    ns = await walkeeper.aio.open(sys.argv[1])
    writer = await (await ns.log("orders")).writer()
    await writer.submit(b"x")
    return ns, writer

def once():
    ns, writer = asyncio.run(first())
    asyncio.run(ns.close())

once()
gc.collect()
before = len(os.listdir("/proc/self/fd"))
for _ in range(5):
    once()
gc.collect()
assert len(os.listdir("/proc/self/fd")) == before
"""
    done = subprocess.run([sys.executable, "-c", code, directory], cwd="/", timeout=60, check=False)
    assert done.returncode == 0


def test_a_batch_that_was_accepted_before_the_close_is_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """append_many() comes back from its thread when the namespace is closed already."""
    accepted, may_return = threading.Event(), threading.Event()
    many = walkeeper.Writer._many

    def slow(writer: walkeeper.Writer, *arguments: Any) -> Any:
        answer = many(writer, *arguments)
        accepted.set()
        may_return.wait(30)
        return answer

    async def main() -> None:
        ns = await aio.open(directory)
        writer = await (await ns.log("orders")).writer()
        monkeypatch.setattr(walkeeper.Writer, "_many", slow)
        appending = asyncio.ensure_future(writer.append_many([b"x", b"y"]))
        await asyncio.to_thread(accepted.wait, 30)
        await ns.close()
        may_return.set()
        assert (await asyncio.wait_for(appending, 30)).last.sequence_id == 1

    run(main())


@pytest.mark.parametrize("way", ["append", "submit"])
@pytest.mark.parametrize("closes", ["this loop", "another loop", "the journal fails"])
def test_an_append_that_waits_for_room_says_that_nothing_was_written(
    directory: Path, monkeypatch: pytest.MonkeyPatch, closes: str, way: str
) -> None:
    tried = asyncio.Event()

    def no_room(*_: Any) -> None:
        tried.set()
        raise walkeeper.WouldBlockError("no room", outcome="not_written")

    async def start() -> tuple[Opened, asyncio.Future[Any]]:
        things = await opened(directory)
        monkeypatch.setattr(walkeeper.Writer, "_one", no_room)
        things.Writer._submit = lambda _: None
        if closes == "the journal fails":
            things.Writer._drain.failed = True
        appending = asyncio.ensure_future(getattr(things.Writer, way)(b"d"))
        await tried.wait()
        if closes == "this loop":
            await things.Namespace.close()
        return things, appending

    async def told(appending: asyncio.Future[Any]) -> BaseException | None:
        await asyncio.wait((appending,), timeout=30)
        return appending.exception()

    with loop_of_another_thread() as there:
        things, appending = there(start())
        if closes == "another loop":
            run(things.Namespace.close())
        error = there(told(appending))
        there(things.Namespace.close())
    assert isinstance(error, walkeeper.JournalFailedError if closes == "the journal fails" else walkeeper.ClosedError)
    assert error.outcome == "not_written"
