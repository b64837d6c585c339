"""A bookie's store loses its superblock: a new one is made in a copy, and every ledger is in limbo."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import Bookies, Running, bookies_in
from command_line import run
from wire_client import FENCE, FENCED, OK, READ_ONLY, UNKNOWN_STATE, WireClient

from walkeeper.metadata import LedgerMetadata, open_store

ENTRIES, LEDGER, OTHER = 100, 5, 6


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


def lose(superblock: Path, way: str) -> None:
    if way == "missing":
        superblock.unlink()
    elif way == "zeros":
        superblock.write_bytes(bytes(8192))
    else:
        os.truncate(superblock, 4096)


def make_metadata(bookies: Bookies, bookie: Running) -> None:
    """Both ledgers are on this bookie alone."""
    store = open_store(bookies.metadata).store
    for ledger_id in (LEDGER, OTHER):
        members = LedgerMetadata(1, 1, 1, {0: (bookie.bookie_id,)})
        store.create(f"/ledgers/00/0000/L{ledger_id:04d}", members.serialise(), parents=True)
    store.close()


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("way", ["missing", "zeros", "cut short"])
def test_recover_makes_a_copy_that_a_bookie_starts_with_in_limbo(
    bookies: Bookies, tmp_path: Path, way: str, closes: bool
) -> None:
    first = bookies.start("--init", "--memtable", "1MiB")
    first.ready()
    make_metadata(bookies, first)
    with WireClient(first.port) as client:
        for entry_id in range(ENTRIES):
            assert client.add(LEDGER, entry_id, b"entry %d" % entry_id) == OK
        assert client.add(OTHER, 0, b"of a fenced ledger") == OK
        assert client.read(OTHER, 0, FENCE).code == OK
    if closes:
        first.process.terminate()
        first.process.wait(30)
    else:
        first.kill()
    store = first.data / "ledgers"
    lose(store / "superblock", way)
    before = {file: file.read_bytes() for file in store.rglob("*") if file.is_file() and file.name != "lock"}
    second = bookies.start(port=first.port)
    assert second.ended() == 5
    assert "walkeeper recover" in second.said()
    result = run("recover", store, tmp_path / "copy", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["rebuilt"]["kind"] == 1
    assert {file: file.read_bytes() for file in before} == before
    shutil.rmtree(store)
    (tmp_path / "copy").rename(store)
    third = bookies.start(port=first.port)
    assert third.ended() == 5  # a fence may be missing
    fourth = bookies.start("--on-damage", "skip", port=first.port)
    fourth.ready()
    with WireClient(fourth.port) as client:
        for entry_id in range(ENTRIES):
            assert client.read(LEDGER, entry_id).payload == b"entry %d" % entry_id
        assert client.read(LEDGER, ENTRIES).code == UNKNOWN_STATE
        assert client.add(LEDGER, ENTRIES, b"by a writer") == READ_ONLY
        assert client.add(OTHER, 1, b"by a writer that was fenced") in (FENCED, READ_ONLY)
    fourth.process.terminate()
    fourth.process.wait(30)
    assert run("verify", store).exit_code == 0
