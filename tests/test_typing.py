"""The types that callers see: mypy --strict and pyright read this file, and a second one that must not pass."""

from __future__ import annotations

import re
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
    ns.log("a").reader(gaps="pass")
    next(ns.log("a").reader(gaps="yield")).payload
"""


def mypy(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=300, check=False)


def pyright(path: Path) -> subprocess.CompletedProcess[str]:
    """In strict mode, as an editor shows it to somebody who follows the README."""
    (path.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(path)]
    return subprocess.run(command, cwd=path.parent, text=True, capture_output=True, timeout=300, check=False)


def blocks(text: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def readme(tmp_path: Path) -> Path:
    """A file with the README's Python blocks, each in a function of its own."""
    made = []
    for number, block in enumerate(blocks((ROOT / "README.md").read_text())):
        indented = "".join(f"    {line}\n" if line else "\n" for line in block.splitlines())
        made.append(f"def block_{number}() -> None:\n{indented}")
    assert "log.reader(" in made[0]
    assert any("asyncio.run(" in block for block in made)
    path = tmp_path / "readme.py"
    path.write_text("\n\n".join(made))
    return path


def test_mypy_accepts_what_the_readme_shows(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = mypy(readme(tmp_path))
    assert done.returncode == 0, done.stdout


def test_pyright_accepts_what_the_readme_shows(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed")
    done = pyright(readme(tmp_path))
    assert done.returncode == 0, done.stdout


def test_pyright_finds_what_the_readme_may_not_show(tmp_path: Path) -> None:
    """The check above can fail: a gap has no payload."""
    pytest.importorskip("pyright", reason="pyright is not installed")
    path = readme(tmp_path)
    text = path.read_text()
    path.write_text(text.replace("log.reader(start=at)", 'log.reader(start=at, gaps="yield")'))
    assert path.read_text() != text
    done = pyright(path)
    assert 'Cannot access attribute "payload" for class "Gap"' in done.stdout, done.stdout


@pytest.mark.parametrize("block", [0, 1])
def test_what_the_readme_shows_runs(tmp_path: Path, block: int) -> None:
    code = blocks((ROOT / "README.md").read_text())[block]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, text=True, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "0 b'paid 42'"


def test_the_types_are_those_below() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = mypy(Path(__file__))
    assert done.returncode == 0, done.stdout


def test_mistakes_are_found(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    done = mypy(tmp_path / "mistakes.py")
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert wrong == {4, 5, 6, 7, 8, 9, 10, 11}, done.stdout


def sync_types(path: os.PathLike[str]) -> None:
    assert_type(walkeeper.__version__, str)
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
            assert_type(reader, walkeeper.Reader[walkeeper.Record])
            for record in reader:
                assert_type(record, walkeeper.Record)
                assert_type(record.payload, memoryview)
                assert_type(record.next, walkeeper.Position)
            assert_type(next(reader), walkeeper.Record)
            assert_type(reader.read(), list[walkeeper.Record])
            assert_type(reader.read_arrow(), pyarrow.RecordBatch | None)
        plain: walkeeper.Reader = reader
        assert_type(next(plain), walkeeper.Record)
        with log.reader(gaps="yield") as both:
            assert_type(both, walkeeper.Reader[walkeeper.Record | walkeeper.Gap])
            for item in both:
                assert_type(item, walkeeper.Record | walkeeper.Gap)
                assert_type(item.next, walkeeper.Position)
                if isinstance(item, walkeeper.Record):
                    assert_type(item.payload, memoryview)
            assert_type(both.read(), list[walkeeper.Record | walkeeper.Gap])
        try:
            next(reader)
        except walkeeper.GapError as error:
            assert_type(error.gap, walkeeper.Gap)
            assert_type(error.gap.count, int)
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
        async with log.reader(follow=True) as reader:
            assert_type(reader, walkeeper.aio.Reader[walkeeper.Record])
            async for record in reader:
                assert_type(record, walkeeper.Record)
            assert_type(await reader.read(), list[walkeeper.Record])
        async for item in log.reader(gaps="yield"):
            assert_type(item, walkeeper.Record | walkeeper.Gap)
        assert_type(await log.reader(gaps="yield").read(), list[walkeeper.Record | walkeeper.Gap])
        assert_type(await (await log.cursor("billing")).position(), walkeeper.Position)
    opened = await walkeeper.aio.open(path)
    assert_type(opened, walkeeper.aio.Namespace)


def ledger_types(uri: str) -> None:
    with walkeeper.LedgerClient(uri, add_timeout=1.5) as client:
        assert_type(client, walkeeper.LedgerClient)
        with client.create(digest="hmac", password=b"x", custom_metadata={"owner": b"x"}) as writer:
            assert_type(writer, walkeeper.LedgerWriter)
            assert_type(writer.add(memoryview(b"x"), timeout=1), int)
            assert_type(writer.add_many([b"x", bytearray(b"y")]), range)
            assert_type(writer.submit(b"x"), Future[int])
            assert_type(writer.length, int)
        with client.open(writer.ledger_id) as reader:
            assert_type(reader, walkeeper.LedgerReader)
            for entry in reader.read(0, 3):
                assert_type(entry, walkeeper.LedgerEntry)
                assert_type(entry.payload, bytes)
            assert_type(reader.length, int | None)
        assert_type(list(client.list()), list[int])
        assert_type(client.bookies()[0].address, str | None)


async def async_ledger_types(uri: str) -> None:
    async with walkeeper.aio.LedgerClient(uri) as client:
        assert_type(client, walkeeper.aio.LedgerClient)
        async with await client.create() as writer:
            assert_type(writer, walkeeper.aio.LedgerWriter)
            assert_type(await writer.add(b"x"), int)
            assert_type(await writer.submit(b"x"), asyncio.Future[int])
        async with await client.open(writer.ledger_id) as reader:
            assert_type(reader, walkeeper.aio.LedgerReader)
            async for entry in reader.read():
                assert_type(entry, walkeeper.LedgerEntry)
        async for ledger_id in client.list():
            assert_type(ledger_id, int)
    opened = await walkeeper.aio.LedgerClient(uri)
    assert_type(opened, walkeeper.aio.LedgerClient)
