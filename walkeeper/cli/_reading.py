"""ls, cat, tail, stat: commands that only read, also while another process writes."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from walkeeper import Gap, Log, Namespace, Reader, Record
from walkeeper.cli._directory import directory, json_flag, log_name, namespace_place, reading
from walkeeper.cli._main import EXIT_DAMAGED
from walkeeper.cli._place import count as number_of_records
from walkeeper.cli._place import place
from walkeeper.cli._show import counted, duration, facts, printable, show, size, table, write_record
from walkeeper.errors import CursorNotFoundError, LogDeletedError, LogNotFoundError, TruncatedError

Told = TypeVar("Told")

STYLES = {
    "json": "One JSON object a line.",
    "raw": "The payloads, a newline behind each.",
    "length-prefixed": "Payloads behind uint32 sizes.",
}


def with_styles(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command an option for each style, and the one that was chosen as `style`."""

    @functools.wraps(command)
    def styled(**given: Any) -> None:
        chosen = [style for style in STYLES if given.pop(style.replace("-", "_"))]
        if len(chosen) > 1:
            raise click.UsageError(f"--{' and --'.join(chosen)}: only one of them")
        command(**given, style=chosen[0] if chosen else "people")

    for style, what in reversed(STYLES.items()):
        styled = click.option(f"--{style}", is_flag=True, help=what)(styled)
    return styled


def of_each(namespace: Namespace, tell: Callable[[Log], Told]) -> Iterator[Told]:
    """What is told of each log, by name. In a directory in use logs come and go: one that is deleted is left out."""
    for name in namespace.logs():
        try:
            told = tell(namespace.log(name, create=False))
        except (LogDeletedError, LogNotFoundError):
            continue
        yield told


def row(log: Log) -> dict[str, Any]:
    """What ls tells of a log."""
    info = log.info()
    return {
        "log": log.name,
        "records": info.count,
        "first_sequence_id": info.first.sequence_id,
        "next_sequence_id": info.next.sequence_id,
        "segments": info.segments_count,
        "bytes": sum(segment.payload_bytes for segment in log.segments()),
    }


@click.command()
@namespace_place
@json_flag
def ls(directory: Path | str, as_json: bool) -> None:
    """The logs of DIR: how many records, from which sequence id on, and bytes."""
    with reading(directory) as namespace:
        rows = list(of_each(namespace, row))
    if as_json:
        for each in rows:
            click.echo(json.dumps(each))
        return
    if not rows:
        click.echo("no logs", err=True)
        return
    shown = table("log", ">records", ">first", ">next", ">segments", ">bytes")
    for each in rows:
        numbers = [f"{each[key]:,}" for key in ("records", "first_sequence_id", "next_sequence_id", "segments")]
        shown.add_row(printable(each["log"]), *numbers, size(each["bytes"]))
    show(shown)


def pour(
    begin: Callable[[], tuple[Reader[Record | Gap], int | None]], style: str, records_max: int | None, *, anew: bool
) -> tuple[int, int]:
    """Writes records until there are no more; returns how many, and how many of them were gaps. Flushes each batch.

    `begin` also names the end of the log: what comes behind it meanwhile may be truncated before it is read. With
    `anew` it begins again where the log is truncated before the first record is read: nobody named that place.
    """
    reader, end = begin()
    count = gaps = at = 0
    left = records_max
    while left is None or left > 0:
        try:
            batch = reader.read(max_records=min(left or 4096, 4096))
        except TruncatedError:
            if count and end is not None and at >= end:
                break
            if count or not anew:
                raise
            reader, end = begin()
            continue
        if not batch:
            break
        for item in batch:
            write_record(item, style)
            gaps += isinstance(item, Gap)
        sys.stdout.flush()
        count += len(batch)
        at = behind(batch[-1])
        if left is not None:
            left -= len(batch)
    return count, gaps


def behind(item: Record | Gap) -> int:
    """The sequence id behind a record or a gap."""
    return item.sequence_id + (item.count if isinstance(item, Gap) else 1)


@click.command()
@namespace_place
@log_name
@click.option(
    "--from", "start", type=place, default="start", help="start, end, a sequence id, txid:N, time:ISO, dlsn:S,E,S."
)
@click.option("--max", "records_max", type=click.IntRange(0), help="At most so many records.")
@with_styles
def cat(directory: Path | str, log: str, start: dict[str, Any], records_max: int | None, style: str) -> None:
    """The records of LOG. For people by default: sequence id, DLSN, payload."""
    with reading(directory) as namespace:
        opened = namespace.log(log, create=False)

        def begin() -> tuple[Reader[Record | Gap], int]:
            return opened.reader(**start, gaps="yield"), opened.info().next.sequence_id

        count, gaps = pour(begin, style, records_max, anew=start.get("start") == "start")
        if count == 0 and records_max != 0 and start.get("start") not in ("start", "end"):
            next_one = opened.info().next.sequence_id
            said = f"walkeeper: log {printable(log)} has no record from there on; its next one will be {next_one}"
            click.echo(said, err=True)
    if gaps:
        sys.exit(EXIT_DAMAGED)


@click.command()
@namespace_place
@log_name
@click.option(
    "-n",
    "--lines",
    "count",
    metavar="COUNT",
    type=number_of_records,
    default="10",
    show_default=True,
    help="Begin so many records before the end.",
)
@click.option("-f", "--follow", "follow", is_flag=True, help="Wait for more, until Ctrl-C or the end of the stream.")
@with_styles
def tail(directory: Path | str, log: str, count: int, follow: bool, style: str) -> None:
    """The last records of LOG; with --follow also those to come."""
    with reading(directory) as namespace:
        opened = namespace.log(log, create=False)
        _, gaps = pour(lambda: last_records(opened, count, follow), style, None, anew=True)
    if gaps:
        sys.exit(EXIT_DAMAGED)


def last_records(log: Log, count: int, follow: bool) -> tuple[Reader[Record | Gap], int | None]:
    """A reader that begins so many records before the end, or where the log begins; and that end, unless it follows."""
    while True:
        info = log.info()
        try:
            start = max(info.first.sequence_id, info.next.sequence_id - count)
            reader = log.reader(sequence_id=start, follow=follow, gaps="yield")
            return reader, None if follow else info.next.sequence_id
        except TruncatedError:
            continue  # it was truncated meanwhile, and begins later now


@click.command()
@directory
@json_flag
def stat(directory: Path, as_json: bool) -> None:
    """Space and what pins it, the journal, and what recovery found."""
    with reading(directory) as namespace:
        stats = dataclasses.asdict(namespace.stats())
        recovery = dataclasses.asdict(namespace.recovery())
        stats |= pin_of(namespace, stats["oldest_ledger"])
    if as_json:
        click.echo(json.dumps({**stats, "recovery": recovery}, default=str))
        return
    show(facts([*stat_rows(directory, stats), *recovery_rows(recovery)]))


def pin_of(namespace: Namespace, ledger: int) -> dict[str, Any]:
    """The log that has a ledger, and the cursor that keeps it; None for the catalogue's (0), and where none has it."""
    found = (told for told in of_each(namespace, lambda log: pin(log, ledger)) if told)
    return (next(found, None) if ledger > 0 else None) or {"oldest_log": None, "oldest_cursor": None}


def pin(log: Log, ledger: int) -> dict[str, Any] | None:
    """What pin_of tells of the log that has the ledger; None of any other."""
    if all(segment.ledger_id != ledger for segment in log.segments()):
        return None
    return {"oldest_log": log.name, "oldest_cursor": holding_cursor(log)}


def holding_cursor(log: Log) -> dict[str, Any] | None:
    """The lowest cursor, where it stands at the first record: truncation is refused. None where there is none there."""
    places = [at for name in log.cursors() if (at := cursor_place(log, name)) is not None]
    sequence_id, name = min(places, default=(-1, ""))
    if not name or sequence_id > log.info().first.sequence_id:
        return None
    return {"name": name, "sequence_id": sequence_id}


def cursor_place(log: Log, name: str) -> tuple[int, str] | None:
    """The sequence id of a cursor, and its name; None where it was deleted meanwhile."""
    try:
        return log.cursor(name, create=False).position.sequence_id, name
    except CursorNotFoundError:
        return None


def pin_words(stats: dict[str, Any]) -> str:
    """Who keeps the oldest file, and what frees it."""
    if stats["oldest_ledger"] <= 0:
        return "by the catalogue"
    if stats["oldest_log"] is None:
        return "by a log that is gone: it is freed in the background"
    by = f"by the log {printable(stats['oldest_log'])}"
    if cursor := stats["oldest_cursor"]:
        held = f"its cursor {printable(cursor['name'])} still needs record {cursor['sequence_id']}"
        return f"{by}: {held}; moving that (walkeeper cursor set) and truncating, or compaction, frees it"
    return f"{by}: truncating it, or compaction, frees it"


def file_name(directory: Path, number: int) -> str:
    """The name, below DIR, of the journal file or entry log of that number: they are numbered together."""
    log = f"entries/{number:016x}.wke"
    return log if (directory / log).exists() else f"journal/{number:016x}.wkj"


def stat_rows(directory: Path, stats: dict[str, Any]) -> list[tuple[str, str]]:
    disk, live = stats["disk_bytes"], stats["live_bytes"]
    rows = [
        ("logs", f"{stats['logs_count']:,}"),
        (
            "files",
            f"{stats['journal_files']} journal, {counted(stats['entry_logs'], 'entry log')}, "
            f"{stats['prepared_files']} prepared",
        ),
        ("on disk", f"{size(disk)}, of them live {size(live)}" + (f" ({live / disk:.0%})" if disk else "")),
    ]
    if stats["oldest_file"]:
        rows.append(("pinned longest", f"{file_name(directory, stats['oldest_file'])}, {pin_words(stats)}"))
    parts = (value for key, value in stats.items() if key.startswith("memory_") and key != "memory_ranges")
    rows.append(("memory", f"{size(sum(parts))}, of this command"))  # the ranges are in memory_logs
    if stats["disk_full"]:
        rows.append(("disk", "full: appends are refused until there is space"))
    if stats["failed"]:
        rows.append(("journal", "failed: a write or sync did not succeed"))
    return rows


def recovery_rows(recovery: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("opened", f"in {duration(recovery['elapsed_ns'])}, {size(recovery['bytes_scanned'])} scanned")]
    if recovery["cut_bytes"]:
        where = f"journal/{recovery['cut_file']:016x}.wkj at {recovery['cut_offset']:,}"
        rows.append(("torn tail", f"{size(recovery['cut_bytes'])} in {where}: never acknowledged"))
    if recovery["damaged_blocks"]:
        rows.append(("damage", f"{counted(recovery['damaged_blocks'], 'block')} cannot be read"))
    if recovery["unconfirmed_blocks"]:
        blocks = counted(recovery["unconfirmed_blocks"], "block")
        rows.append(("end", f"{blocks} not known durable, and not shown: never acknowledged"))
    if recovery["catalogue_fallbacks"]:
        rows.append(("catalogue", "read from an earlier snapshot: the newest cannot be read. Nothing is lost"))
    if recovery["catalogue_lost"]:
        entries = counted(recovery["catalogue_lost"], "entry", "entries")
        rows.append(("catalogue", f"{entries} cannot be read: logs may be missing, or go by"))
        rows.append(("", "names like recovered-ledger-<id>; truncated records may be shown"))
    return rows
