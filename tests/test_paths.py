"""Paths and file: URIs: what is opened, or backed up to, is what was named, or nothing is."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

import walkeeper


@pytest.mark.parametrize("name", ["ta\tb", "ta\nb", "ta\rb", " b ", "a;b", "ä"])
def test_a_uri_names_the_path_that_stands_in_it(tmp_path: Path, name: str) -> None:
    """Also with characters that a URI should write as %09: nothing is left out in silence."""
    with walkeeper.open(f"file://{tmp_path}/{name}") as ns:
        assert ns.path == f"{tmp_path}/{name}"
    assert os.listdir(tmp_path) == [name]


def test_what_a_uri_writes_in_percent_is_read(tmp_path: Path) -> None:
    for uri in (f"file:{tmp_path}/a%20%ff", f"FILE://localhost{tmp_path}/a%20%ff"):
        with walkeeper.open(uri) as ns:
            assert os.fsencode(ns.path) == os.fsencode(tmp_path) + b"/a \xff"


@pytest.mark.parametrize(
    "uri", ["file://[bad", "file:///wal#", "file:wal?", "\ud800", "file:///\ud800", "file:///a%00b"]
)
def test_what_is_no_path_is_refused(uri: str) -> None:
    with pytest.raises(walkeeper.InvalidError, match=r"^cannot open"):
        walkeeper.open(uri)


@pytest.mark.parametrize("name", ["", "copy\0of it", "copy\ud800"], ids=["empty", "NUL", "surrogate"])
def test_a_backup_to_what_is_no_path_is_refused(tmp_path: Path, name: str) -> None:
    with walkeeper.open(tmp_path / "wal") as ns, pytest.raises(walkeeper.InvalidError, match=r"^cannot back up to"):
        ns.backup(f"{tmp_path}/{name}" if name else "")
    assert os.listdir(tmp_path) == ["wal"]


def test_a_follower_reads_nothing_of_a_directory_that_took_the_place_of_its_own(tmp_path: Path) -> None:
    for name in ("orders", "trades"):
        with walkeeper.open(tmp_path / name) as namespace, namespace.log(name).writer() as writer:
            writer.append_many([b"%s %d" % (name.encode(), number) for number in range(3)])
    place = tmp_path / "orders"
    with walkeeper.open(place, read_only=True) as following:
        log = following.log("orders")
        assert len(list(log.reader())) == 3
        for path in place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(tmp_path / "trades", place, dirs_exist_ok=True)
        for _ in range(2):
            with pytest.raises(walkeeper.DamagedError):
                list(log.reader())
        assert following.logs() == ["orders"]


T = TypeVar("T")

HOLDER = """
import sys, walkeeper
with walkeeper.open(sys.argv[1]) as ns:
    ns.log("orders")
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path: Path, seconds: float) -> Iterator[None]:
    """For so many seconds from the end of the block on."""
    command = [sys.executable, "-c", HOLDER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        timer = threading.Timer(seconds, holder.stdin.close)
        try:
            yield
        finally:
            timer.start()
            timer.join()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two directories; the working directory is the first, until somebody changes it."""
    both = [tmp_path / name for name in ("a", "b")]
    for place in both:
        place.mkdir()
    monkeypatch.chdir(both[0])
    return both


def test_who_waits_for_the_lock_gets_the_directory_that_was_named(places: list[Path]) -> None:
    """Wherever the process goes meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        with held_by_another_process(places[0] / "wal", 0.5):
            opening = pool.submit(walkeeper.open, "wal", lock_timeout=60)
            assert wait([opening], 0.5).not_done
            os.chdir(places[1])
        with opening.result() as ns:
            assert ns.path == "wal"
            assert ns.logs() == ["orders"]
    assert os.listdir(places[1]) == []


def test_a_task_opens_and_backs_up_to_what_was_named(places: list[Path]) -> None:
    """Also where no thread is free for it, and the process goes elsewhere meanwhile."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as pool:
            loop.set_default_executor(pool)

            async def from_elsewhere(awaitable: Awaitable[T]) -> T:
                os.chdir(places[0])
                free = threading.Event()
                loop.run_in_executor(None, free.wait)
                task = asyncio.ensure_future(awaitable)
                await asyncio.sleep(0.05)  # it begins
                os.chdir(places[1])
                free.set()
                return await task

            ns = await from_elsewhere(walkeeper.aio.open("wal"))
            assert ns.path == "wal"
            await from_elsewhere(ns.backup("copy"))
            await ns.close()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert [sorted(os.listdir(place)) for place in places] == [["copy", "wal"], []]
