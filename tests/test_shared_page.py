"""The file `shared`, by which followers learn how far the writer is: copied by links, removed, replaced."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

import walkeeper

SMALL = {"file_size_min": 65536, "file_size_max": 65536}
STUCK = 2.5  # seconds: behind that a follower that is further behind its writer than it can read says so


def copy_by_links(source: Path, destination: Path) -> None:
    """As `cp -al`."""
    shutil.copytree(source, destination, copy_function=os.link)


def spoil(file: Path, offset: int) -> None:
    with file.open("r+b") as handle:
        handle.seek(offset)
        byte = handle.read(1)[0]
        handle.seek(offset)
        handle.write(bytes([byte ^ 1]))
        handle.flush()
        os.fsync(handle.fileno())


def append(log: walkeeper.Log, count: int) -> None:
    with log.writer() as writer:
        for _ in range(count):
            writer.append(b"x" * 2000)


def until_there_are(count: int, followed: walkeeper.Log) -> None:
    deadline = time.monotonic() + 20
    while followed.count() < count:
        assert time.monotonic() < deadline, f"{followed.count()} records of {count}"
        time.sleep(0.02)


def test_who_follows_a_copy_by_links_is_not_told_of_what_the_original_goes_on_with(directory: Path) -> None:
    copy = directory.with_name("copy")
    with walkeeper.open(directory, **SMALL) as namespace:
        log = namespace.log("orders")
        append(log, 50)
        copy_by_links(directory, copy)
        with walkeeper.open(copy, read_only=True) as other, walkeeper.open(directory, read_only=True) as own:
            copied, followed = other.log("orders"), own.log("orders")
            assert copied.count() == 50
            append(log, 300)
            until_there_are(350, followed)
            started = time.monotonic()
            while time.monotonic() - started < STUCK:
                assert 50 <= len(list(copied.reader())) < 350
                time.sleep(0.05)


def test_a_copy_by_links_does_not_keep_damage_from_who_follows_the_original(directory: Path) -> None:
    """The page has two names then, and may be another directory's: that is a reason to look, and none to be silent."""
    with walkeeper.open(directory) as namespace:
        log = namespace.log("orders")
        append(log, 3)
        copy_by_links(directory, directory.with_name("copy"))
        with walkeeper.open(directory, read_only=True) as other:
            followed = other.log("orders")
            until_there_are(3, followed)
            active = min((directory / "journal").glob("*.wkj"))
            end = len(active.read_bytes().rstrip(b"\0"))
            append(log, 6)
            spoil(active, (end + 4095) // 4096 * 4096 + 100)
            with pytest.raises(walkeeper.DamagedError):
                until_there_are(9, followed)


@pytest.mark.parametrize("removed", [True, False])
def test_a_page_that_another_file_takes_the_place_of_makes_no_follower_deaf(directory: Path, removed: bool) -> None:
    """Between two writers; as a restore does, or an overlay that copies a file up for who writes it."""
    with walkeeper.open(directory) as namespace:
        append(namespace.log("orders"), 10)
    with walkeeper.open(directory, read_only=True) as other:
        followed = other.log("orders")
        reader = followed.reader(follow=True, timeout=0.05)
        assert len(list(reader)) == followed.count() == 10
        page = directory / "shared"
        if removed:
            page.unlink()
        else:
            shutil.copy(page, directory.with_name("page"))
            directory.with_name("page").replace(page)
        with walkeeper.open(directory) as namespace:
            append(namespace.log("orders"), 10)
            until_there_are(20, followed)
            assert len(list(reader)) == 10
            append(namespace.log("orders"), 10)
            until_there_are(30, followed)


def test_a_page_that_is_replaced_beside_its_writer_makes_no_follower_deaf(directory: Path) -> None:
    """The writer goes on with the one that it has: what it writes is seen by its blocks."""
    with walkeeper.open(directory) as namespace:
        log = namespace.log("orders")
        append(log, 10)
        with walkeeper.open(directory, read_only=True) as other:
            followed = other.log("orders")
            assert followed.count() == 10
            page = directory / "shared"
            shutil.copy(page, directory.with_name("page"))
            directory.with_name("page").replace(page)
            for count in range(20, 60, 10):
                append(log, 10)
                until_there_are(count, followed)
                time.sleep(0.4)
