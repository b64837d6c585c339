"""`walkeeper bookie …` on a cluster in memory and a data directory with two ledgers; the fixtures are a plugin's."""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import walkeeper
from walkeeper._native import ffi, lib
from walkeeper.errors import check, new_error
from walkeeper.metadata import MemoryStore, open_store
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie.commands import bookie
from walkeeper_bookie.commands._client import entry_bytes

INSTANCE = "0b7d7a36-24f0-4c5e-9f5c-2f1c7f2f9a11"
NAMES = itertools.count()


def run(*arguments: object, typed: str = "") -> Result:
    return CliRunner().invoke(bookie, [str(argument) for argument in arguments], input=typed)


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


@pytest.fixture
def uri() -> str:
    """A cluster in memory."""
    uri = f"memory:commands-{next(NAMES)}"
    store = open_store(uri).store
    store.create("/ledgers/INSTANCEID", INSTANCE.encode(), parents=True)
    store.create("/ledgers/cookies")
    store.close()
    return uri


@pytest.fixture
def store(uri: str) -> Iterator[MemoryStore]:
    opened = open_store(uri).store
    assert isinstance(opened, MemoryStore)
    yield opened
    opened.close()


def make_store(path: Path, *ledgers: int) -> None:
    """A ledger store with two entries in each of these ledgers; the first of them is fenced."""
    options, out, error = ffi.new("wk_open_options *"), ffi.new("wk_namespace **"), new_error()
    lib.wk_open_options_init(options)
    options.kind = lib.WK_KIND_LEDGERS
    check(lib.wk_open(os.fsencode(path), options, out, error), error)
    for ledger_id in ledgers:
        for entry_id in (0, 1):
            entry = entry_bytes(ledger_id, entry_id, b"payload")
            add = ffi.new("wk_add *")
            keep = (ffi.from_buffer(entry), ffi.new("char[]", b"k" * 20))
            add.bytes, add.size, add.key, add.key_size = keep[0], len(entry), keep[1], 20
            check(lib.wk_ledger_add(out[0], add, 1, 2**64 - 1, True, error), error)
    for ledger_id in ledgers[:1]:
        check(lib.wk_ledger_fence(out[0], ledger_id, b"k" * 20, 20, 2**64 - 1, ffi.NULL, error), error)
    check(lib.wk_close(out[0], 2**64 - 1, error), error)


def make_logs(path: Path) -> None:
    """A namespace of logs with one record."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with walkeeper.open(path) as namespace, namespace.log("orders").writer() as writer:
        writer.append(b"a year of orders")


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """A data directory with a store of two ledgers."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    make_store(path / "ledgers", 5, 9)
    return DataDirectory(path)


@pytest.fixture
def serving(data: DataDirectory) -> Iterator[None]:
    """A bookie has the directory."""
    with open(data.store / "lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
