"""append, truncate, backup: commands that need the directory for themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from walkeeper import Log, Position, Writer
from walkeeper._native import lib
from walkeeper.cli._directory import (
    Place,
    check_destination,
    directory,
    json_flag,
    log_name,
    namespace_place,
    namespace_place_to_be,
    writing,
)
from walkeeper.cli._directory import destination as destination_argument
from walkeeper.cli._main import Refusal
from walkeeper.cli._place import first_to_keep
from walkeeper.cli._show import PREFIX, counted, dlsn
from walkeeper.errors import Error

READ_SIZE = 1 << 18

RECORD_MAX: int = lib.WK_RECORD_SIZE_MAX - lib.WK_RECORD_HEADER_SIZE
"""Bytes that a record may have."""


def line_batches(stream: BinaryIO, most: int = RECORD_MAX, owner: str = "a record") -> Iterator[list[bytes]]:
    """The lines of what can be read at once, without their newlines: a line typed is a batch of one.

    The end of the input ends the last line; a record may be empty, but an empty input has none. `most` is what a line
    may have as a part of its owner.
    """
    rest = b""
    while chunk := read_some(stream):
        *lines, rest = (rest + chunk).split(b"\n")
        sizes = [len(line) for line in lines]
        if max(sizes, default=0) > most:
            bad = next(at for at, count in enumerate(sizes) if count > most)
            if bad:
                yield lines[:bad]
            raise too_large("a line", sizes[bad], most, owner)
        if lines:
            yield lines
        if len(rest) > most:
            raise too_large("a line", None, most, owner)
    if rest:
        yield [rest]


def prefixed_batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Records behind uint32 little-endian sizes. Refuses one that is too large, or that the input ends inside of."""
    rest = bytearray()
    while chunk := read_some(stream):
        rest += chunk
        batch: list[bytes] = []
        at = 0
        while len(rest) - at >= PREFIX.size:
            (count,) = PREFIX.unpack_from(rest, at)
            if count > RECORD_MAX or len(rest) - at - PREFIX.size < count:
                break
            batch.append(bytes(rest[at + PREFIX.size : at + PREFIX.size + count]))
            at += PREFIX.size + count
        del rest[:at]
        if batch:
            yield batch
        if len(rest) >= PREFIX.size and (count := PREFIX.unpack_from(rest)[0]) > RECORD_MAX:
            raise too_large("a record", count)
    if rest:
        said = f"the input ends inside a record ({counted(len(rest), 'byte')} of it)"
        raise Refusal(f"{said}; what came before is appended")


def too_large(what: str, count: int | None = None, most: int = RECORD_MAX, owner: str = "a record") -> Refusal:
    size = "" if count is None else f" of {count:,} bytes"
    return Refusal(f"{what}{size} is more than {owner} may have, which is {most:,} bytes")


def read_some(stream: BinaryIO) -> bytes:
    """What is there now, at least a byte; empty at the end."""
    read1 = getattr(stream, "read1", stream.read)
    some = read1(READ_SIZE)
    assert isinstance(some, bytes)
    return some


def append_all(writer: Writer, batches: Iterator[list[bytes]]) -> tuple[int, Position | None]:
    """Appends batch by batch, each durable before the next is read; says how far it came if it fails."""
    count, last = 0, None
    try:
        for batch in batches:
            last = writer.append(batch[0]) if len(batch) == 1 else writer.append_many(batch).last
            count += len(batch)
    except (Error, click.ClickException, KeyboardInterrupt) as stop:
        durable = count + (getattr(stop, "durable_count", None) or 0)
        verb = "was" if durable == 1 else "were"
        click.echo(f"walkeeper: {counted(durable, 'record')} {verb} appended before this", err=True)
        raise
    return count, last


@click.command()
@namespace_place_to_be
@log_name
@click.option("--length-prefixed", is_flag=True, help="Records behind uint32 little-endian sizes instead of lines.")
@click.option("--create/--no-create", default=True, show_default=True, help="Make DIR and LOG where there are none.")
@json_flag
def append(directory: Path | str, log: str, length_prefixed: bool, create: bool, as_json: bool) -> None:
    """Append the lines of the input to LOG. Prints the last position once all of them are durable.

    A record has at most 1 MiB - 8 KiB.
    """
    if sys.stdin is None:
        raise Refusal("the input is closed: there is nothing to read")
    batches = (prefixed_batches if length_prefixed else line_batches)(sys.stdin.buffer)
    with writing(directory, create=create) as namespace, namespace.log(log, create=create).writer() as writer:
        count, last = append_all(writer, batches)
    if last is None:
        click.echo("walkeeper: the input was empty; nothing was appended", err=True)
    elif as_json:
        click.echo(
            json.dumps({"count": count, "sequence_id": last.sequence_id, "dlsn": list(last.dlsn), "txid": last.txid})
        )
    else:
        click.echo(f"{count:,} appended; the last is {last.sequence_id} at {dlsn(last)}")


@click.command()
@namespace_place
@log_name
@click.option(
    "--before", type=first_to_keep, required=True, help="The sequence id of the first record to keep; end: keep none."
)
@click.option("--force", is_flag=True, help="Also records that a cursor still needs.")
def truncate(directory: Path | str, log: str, before: int | None, force: bool) -> None:
    """Let go of the records of LOG before a sequence id. Their space is given back."""
    with writing(directory) as namespace:
        opened = namespace.log(log, create=False)
        count = opened.count()
        if (position := truncation(opened, before)) is not None:
            opened.truncate(position, force=force)
        left = opened.count()
    click.echo(f"{counted(count - left, 'record')} let go, {left:,} kept")


def truncation(log: Log, before: int | None) -> Position | None:
    """Where to truncate; None where those records went before. Refuses a sequence id that the log has not come to."""
    info = log.info()
    if before is None:
        return info.next
    if before > info.next.sequence_id:
        said = f"log {log.name} has no record {before}: its next one will be {info.next.sequence_id}"
        raise Refusal(said, "--before end lets go of all that are there")
    return log.find(sequence_id=before) if before > info.first.sequence_id else None


@click.command()
@directory
@destination_argument
@click.option(
    "--journal-to", metavar="JDEST", type=Place(), help="A journal directory for the copy, which does not exist."
)
def backup(directory: Path, destination: Path, journal_to: Path | None) -> None:
    """A consistent copy of DIR by hard links. DEST is a path on the same file system that does not exist.

    Without --journal-to the copy is one directory, also where DIR has a journal directory.

    Opens DIR for writing for that long, and needs the permission to. A directory in use is backed up by the process
    that has it open: Namespace.backup(), or wk_namespace_backup in C.
    """
    check_destination(directory, destination)
    if journal_to is not None:
        check_destination(directory, journal_to)
    with writing(directory) as namespace:
        namespace.backup(destination, journal=journal_to)
    places = f"{destination} and {journal_to}" if journal_to is not None else f"{destination}"
    click.echo(f"{directory} is backed up in {places}")
