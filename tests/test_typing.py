"""The types that callers see: mypy --strict and pyright read this file, and a second one that must not pass."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import walkeeper

if TYPE_CHECKING:
    import asyncio
    import os

    import pyarrow
    from typing_extensions import assert_type

ROOT = Path(__file__).resolve().parents[1]

MISTAKES = """
import walkeeper
def mistakes(ns: walkeeper.Namespace, w: walkeeper.Writer) -> None:
    w.append("text")
    w.append(b"x", durability="soon")
    ns.log("a", segment_byte=1)
    walkeeper.open("x", on_damage="ignore")
    walkeeper.open("x", no_such_option=1)
    position: int = w.append(b"x")
"""


def mypy(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=300, check=False)


def test_the_types_are_those_below() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = mypy(Path(__file__))
    assert done.returncode == 0, done.stdout


def test_mistakes_are_found(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    done = mypy(tmp_path / "mistakes.py")
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert wrong == {4, 5, 6, 7, 8, 9}, done.stdout


def sync_types(path: os.PathLike[str]) -> None:
    with walkeeper.open(path, lock_timeout=1.5, backend="psync") as ns:
        assert_type(ns, walkeeper.Namespace)
        assert_type(ns.logs(), list[str])
        assert_type(ns.stats().live_bytes, int)
        log = ns.log("orders", codec="zstd")
        assert_type(log, walkeeper.Log)
        with log.writer(durability="deferred") as w:
            assert_type(w.append(b"x", txid=1), walkeeper.Position)
            assert_type(w.append(memoryview(b"x")), walkeeper.Position)
            assert_type(w.append_many([b"x", bytearray(b"y")]).last, walkeeper.Position)
            assert_type(w.submit(b"x"), Future[walkeeper.Position])
        with log.reader(start="end", follow=True) as reader:
            for record in reader:
                assert_type(record, walkeeper.Record | walkeeper.Gap)
                if isinstance(record, walkeeper.Record):
                    assert_type(record.payload, memoryview)
                assert_type(record.next, walkeeper.Position)
            assert_type(reader.read_arrow(), pyarrow.RecordBatch | None)
        assert_type(log.first(), walkeeper.Position | None)
        assert_type(log.find(txid=3).dlsn, walkeeper.DLSN)
        assert_type(log.find(txid=3) < log.find(txid=4).dlsn, bool)
        assert_type(log.segments()[0].payload_bytes, int)
        assert_type(log.cursor("billing").position, walkeeper.Position)


async def async_types(path: str) -> None:
    async with walkeeper.aio.open(path) as ns:
        assert_type(ns, walkeeper.aio.Namespace)
        log = await ns.log("orders")
        assert_type(log, walkeeper.aio.Log)
        async with log.writer() as w:
            assert_type(await w.append(b"x"), walkeeper.Position)
            assert_type(await w.append_many([b"x"]), walkeeper.AppendRange)
            assert_type(await w.submit(b"x"), asyncio.Future[walkeeper.Position])
        async for record in log.reader(follow=True):
            assert_type(record, walkeeper.Record | walkeeper.Gap)
        assert_type(await (await log.cursor("billing")).position(), walkeeper.Position)
    opened = await walkeeper.aio.open(path)
    assert_type(opened, walkeeper.aio.Namespace)
