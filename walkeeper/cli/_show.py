"""How things are shown: records, numbers, tables; the same for all commands."""

from __future__ import annotations

import base64
import json
import struct
import sys
from typing import TYPE_CHECKING, Any

import click

from walkeeper import Gap, Record

if TYPE_CHECKING:
    from rich.table import Table

PREFIX = struct.Struct("<I")
"""Before each record of a length-prefixed stream: its size in bytes, little-endian."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Bytes for people: 1,023 B, 4.0 KiB."""
    power = 0
    while count >= 1024 and power < len(UNITS) - 1:
        count /= 1024
        power += 1
    return f"{count:,.0f} {UNITS[power]}" if power == 0 else f"{count:,.1f} {UNITS[power]}"


def duration(ns: float) -> str:
    """A time for people: 83 µs, 1.2 ms."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= factor:
            return f"{ns / factor:.3g} {unit}"
    return f"{ns:.0f} ns"


def dlsn(place: Any) -> str:
    """The DLSN of a position, record or gap, as `--from dlsn:...` takes it."""
    return ",".join(map(str, place.dlsn))


def text(payload: bytes) -> str:
    """A payload on one line of a terminal: UTF-8 as it is, anything else, and control characters, escaped."""
    return printable(payload.decode("utf-8", "backslashreplace"))


def printable(words: str) -> str:
    """Words on one line of a terminal: what moves its cursor, or turns the direction of writing, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def counted(count: int, one: str, more: str | None = None) -> str:
    """A count and its noun: 1 record, 2,000 records."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def record_json(item: Record | Gap) -> str:
    """A record (or gap) as a JSON object: the payload as text where it is UTF-8, else as base64.

    JSON is in ASCII, as all that we write: it is none where the output has another encoding than its reader takes.
    """
    fields: dict[str, object] = {"sequence_id": item.sequence_id, "dlsn": list(item.dlsn)}
    if isinstance(item, Gap):
        return json.dumps({"gap": item.count, **fields})
    payload = bytes(item.payload)
    try:
        fields |= {"txid": item.txid, "payload": payload.decode()}
    except UnicodeDecodeError:
        fields |= {"txid": item.txid, "payload_base64": base64.b64encode(payload).decode()}
    return json.dumps(fields)


def lost(gap: Gap) -> str:
    return f"{counted(gap.count, 'record')} {'is' if gap.count == 1 else 'are'}"


def record_line(item: Record | Gap) -> str:
    """A record (or gap) for people: sequence id, DLSN, payload."""
    if isinstance(item, Gap):
        return f"{item.sequence_id:>8}  {dlsn(item):<12}  -- {lost(item)} lost here --"
    return f"{item.sequence_id:>8}  {dlsn(item):<12}  {text(bytes(item.payload))}"


def write_record(item: Record | Gap, style: str) -> None:
    """Writes one record to the output: "people", "json", "raw" (a line each) or "length-prefixed"."""
    if style in ("people", "json"):
        click.echo(record_json(item) if style == "json" else record_line(item))
        return
    out = sys.stdout.buffer
    if isinstance(item, Gap):
        click.echo(f"walkeeper: {lost(item)} lost from {item.sequence_id} on", err=True)
    elif style == "raw":
        out.write(item.payload)
        out.write(b"\n")
    else:
        out.write(PREFIX.pack(len(item.payload)))
        out.write(item.payload)


WIDE = 1_000_000
"""Columns of an output that is no terminal: no row is folded."""


def table(*columns: str, title: str | None = None) -> Table:
    """An empty table; a column whose name starts with ">" is one of numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, show_edge=False)
    for name in columns:
        made.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    return made


def facts(rows: list[tuple[str, str]]) -> Table:
    """Names and what is known of them, without lines."""
    from rich.table import Table

    made = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, value)
    return made


def show(*things: object) -> None:
    """Prints tables and plain sentences; where the output is no terminal, each row is one line, however long."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDE
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    for thing in things:
        with console.capture() as captured:
            console.print(thing)
        lines = [line.rstrip() for line in captured.get().splitlines()]
        click.echo("\n".join(lines).strip("\n"))
