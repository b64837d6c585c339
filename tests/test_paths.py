"""Paths and file: URIs: what is opened, or backed up to, is what was named, or nothing is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

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
