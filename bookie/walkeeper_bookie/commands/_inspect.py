"""inspect: which ledgers a bookie has, from its directory."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from walkeeper._native import ffi, lib
from walkeeper.errors import DirectoryLockedError, check, new_error
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._directory import journal_field
from walkeeper_bookie.commands._arguments import (
    bookies_directory,
    data_argument,
    journal_of_store,
    journal_option,
    json_flag,
)
from walkeeper_bookie.commands._arguments import ledger_id as ledger_id_type
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["inspect"]

PAGE = 65536
RANGES = 1024
LOCK_TIMEOUT_NS = 10**9
FOREVER = 2**64 - 1
ENTRY_HEADER = struct.Struct(">qqqq")


@click.command()
@data_argument
@journal_option
@click.argument("ledgers", metavar="[LEDGER]...", nargs=-1, type=ledger_id_type)
@click.option("--entries", is_flag=True, help="Also which entries there are, as ranges.")
@json_flag
def inspect(data: Path, journal: Path | None, ledgers: tuple[int, ...], entries: bool, as_json: bool) -> None:
    """Show the ledgers of a stopped bookie: entries, bytes, last entry, LAC, whether fenced.

    All of them, or those named. Opening the directory recovers it, as a start of the bookie does. LAC is the highest
    that the last entry or an explicit LAC tells; -1: none. Of entries that were replaced, the count is about.
    """
    with opened(bookies_directory(data), journal) as store:
        columns = ("ledger", "entries", "bytes", "last entry", "lac", "fenced", "key")
        if not as_json:
            click.echo("".join(f"{column:>20}" if at < 2 else f"{column:>12}" for at, column in enumerate(columns)))
        for ledger_id in ledgers or list(ledger_ids(store)):
            found = ledger(store, ledger_id)
            if found is None:
                raise Refusal(f"there is no ledger {ledger_id} in {data}")
            if entries:
                found["ranges"] = list(ranges(store, ledger_id))
            click.echo(json.dumps(found) if as_json else row(found))


def row(found: dict[str, Any]) -> str:
    """A ledger as a line of the table, its ranges as a line more."""
    cells = [found["ledger"], found["entries"], found["bytes"], found["last_entry"], found["lac"]]
    cells += ["yes" if found["fenced"] else "no", "yes" if found["key"] else "no"]
    line = "".join(f"{cell:>20}" if at < 2 else f"{cell:>12}" for at, cell in enumerate(cells))
    if "ranges" in found:
        line += "\n" + " " * 22 + ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in found["ranges"])
    return line


@contextmanager
def opened(data: DataDirectory, journal: Path | None) -> Iterator[Any]:
    """The ledger store of a stopped bookie. Refusal where one has it."""
    options, out, error = ffi.new("wk_open_options *"), ffi.new("wk_namespace **"), new_error()
    lib.wk_open_options_init(options)
    options.kind, options.create, options.lock_timeout_ns = lib.WK_KIND_LEDGERS, False, LOCK_TIMEOUT_NS
    options.journal = named = journal_field(journal_of_store(data, journal))
    try:
        check(lib.wk_open(os.fsencode(data.store), options, out, error), error)
    except DirectoryLockedError as locked:
        holder = f"process {locked.holder_pid}" if locked.holder_pid is not None else "a process"
        raise Refusal(f"{data.path} is in use by {holder}", "stop the bookie to look at its ledgers") from None
    del named  # until here C looked at it
    try:
        yield out[0]
    finally:
        lib.wk_close(out[0], FOREVER, error)


def ledger_ids(store: Any) -> Iterator[int]:
    """All, rising."""
    page, count, error = ffi.new("int64_t[]", PAGE), ffi.new("size_t *"), new_error()
    start = 0
    while True:
        check(lib.wk_ledger_list(store, start, page, PAGE, count, error), error)
        yield from ffi.unpack(page, count[0])
        if count[0] < PAGE or page[PAGE - 1] == 2**63 - 1:
            return
        start = page[PAGE - 1] + 1


def ledger(store: Any, ledger_id: int) -> dict[str, Any] | None:
    """What the store says of a ledger; None: it does not know it."""
    info, error = ffi.new("wk_ledger_info *"), new_error()
    status = lib.wk_ledger_describe(store, ledger_id, info, error)
    if status == lib.WK_NO_LEDGER:
        return None
    check(status, error)
    explicit = bytes(ffi.buffer(info.lac, info.lac_size))
    lacs = [lac_of_entry(store, ledger_id, info.last_entry)]
    if len(explicit) >= 16:
        lacs.append(int.from_bytes(explicit[8:16], "big", signed=True))
    return {
        "ledger": ledger_id,
        "entries": int(info.entries_count),
        "bytes": int(info.bytes),
        "last_entry": int(info.last_entry),
        "lac": max(lacs),
        "fenced": bool(info.fenced),
        "key": bytes(ffi.buffer(info.key, info.key_size)).hex(),
    }


def lac_of_entry(store: Any, ledger_id: int, entry_id: int) -> int:
    """The LAC that the head of an entry tells; -1: there is no entry, or it has no head of BookKeeper's."""
    if entry_id < 0:
        return -1
    batch, count, error = ffi.new("wk_entry_batch **"), ffi.new("size_t *"), new_error()
    check(lib.wk_ledger_read(store, ledger_id, entry_id, 1, 1, batch, error), error)
    try:
        entry = lib.wk_entry_batch_entries(batch[0], count)
        head = bytes(ffi.buffer(entry[0].bytes, min(entry[0].size, ENTRY_HEADER.size)))
    finally:
        lib.wk_entry_batch_release(batch[0])
    return int(ENTRY_HEADER.unpack(head)[2]) if len(head) == ENTRY_HEADER.size else -1


def ranges(store: Any, ledger_id: int) -> Iterator[tuple[int, int]]:
    """The entries that there are, as first and last of each range without holes."""
    found, count, error = ffi.new("wk_entry_range[]", RANGES), ffi.new("size_t *"), new_error()
    start = 0
    last: tuple[int, int] | None = None
    while True:
        check(lib.wk_ledger_entries(store, ledger_id, start, found, RANGES, count, error), error)
        for at in range(count[0]):
            here = (int(found[at].first), int(found[at].last))
            if last is not None and last[1] + 1 == here[0]:
                last = (last[0], here[1])
            else:
                if last is not None:
                    yield last
                last = here
        if count[0] < RANGES:
            break
        start = int(found[RANGES - 1].last) + 1
    if last is not None:
        yield last
