"""append, truncate, backup: commands that need the directory for themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from walkeeper import Position, Writer
from walkeeper.cli._directory import directory, json_flag, log_name, writing
from walkeeper.cli._show import PREFIX, dlsn
from walkeeper.errors import Error

READ_SIZE = 1 << 18


def line_batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of what can be read at once, without their newlines: a line typed is a batch of one.

    The end of the input ends the last line; a record may be empty, but an empty input has none.
    """
    rest = b""
    while chunk := read_some(stream):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def prefixed_batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Records behind uint32 little-endian sizes. Raises click.ClickException where the input ends inside a record."""
    rest = bytearray()
    while chunk := read_some(stream):
        rest += chunk
        batch: list[bytes] = []
        at = 0
        while len(rest) - at >= PREFIX.size:
            (count,) = PREFIX.unpack_from(rest, at)
            if len(rest) - at - PREFIX.size < count:
                break
            batch.append(bytes(rest[at + PREFIX.size : at + PREFIX.size + count]))
            at += PREFIX.size + count
        del rest[:at]
        if batch:
            yield batch
    if rest:
        raise click.ClickException(f"the input ends inside a record ({len(rest)} bytes); what came before is appended")


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
        click.echo(f"walkeeper: {durable:,} records were appended before this", err=True)
        raise
    return count, last


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@log_name
@click.option("--length-prefixed", is_flag=True, help="Records behind uint32 little-endian sizes instead of lines.")
@click.option("--create/--no-create", default=True, show_default=True, help="Make DIR and LOG where there are none.")
@json_flag
def append(directory: Path, log: str, length_prefixed: bool, create: bool, as_json: bool) -> None:
    """Append the lines of the input to LOG. Prints the last position once all of them are durable."""
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
@directory
@log_name
@click.option("--before", type=click.IntRange(0), required=True, help="The sequence id of the first record to keep.")
@click.option("--force", is_flag=True, help="Also records that a cursor still needs.")
def truncate(directory: Path, log: str, before: int, force: bool) -> None:
    """Let go of the records of LOG before a sequence id. Their space is given back."""
    with writing(directory) as namespace:
        opened = namespace.log(log, create=False)
        count = opened.count()
        opened.truncate(opened.find(sequence_id=before), force=force)
        left = opened.count()
    click.echo(f"{count - left:,} records let go, {left:,} kept")


@click.command()
@directory
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
def backup(directory: Path, destination: Path) -> None:
    """A consistent copy of DIR by hard links. DEST is a path on the same file system that does not exist."""
    with writing(directory) as namespace:
        namespace.backup(destination)
    click.echo(f"{directory} is backed up in {destination}")
