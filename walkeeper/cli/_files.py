"""inspect, verify: look at the files themselves, without opening the directory."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from walkeeper._options import INT64_MAX
from walkeeper.cli._directory import Place, directory, json_flag, told_journal
from walkeeper.cli._inspection import VerifyReport, inspect_file, verify_directory
from walkeeper.cli._left_overs import left_overs
from walkeeper.cli._left_overs import words as left_over_words
from walkeeper.cli._main import EXIT_DAMAGED
from walkeeper.cli._number import Number
from walkeeper.cli._show import counted, facts, printable, show, size, table
from walkeeper.errors import CorruptError

COLUMNS_MAX = 12
"""Parts with more members than this are shown upright."""


@click.command()
@click.argument("file", metavar="FILE", type=Place(exists=True, dir_okay=False))
@click.option("--entries", is_flag=True, help="Also each entry.")
@json_flag
def inspect(file: Path, entries: bool, as_json: bool) -> None:
    """What is in a file of a directory.

    Journal file, entry log, index, superblock or owner file: told by its bytes. Exit status 1 where it is damaged;
    what could be read is shown.
    """
    objects: list[dict[str, Any]] = []
    damage: CorruptError | None = None

    def take(line: str) -> bool:
        if as_json:
            click.echo(json.dumps(json.loads(line)))  # names in it are UTF-8, which the output may not be
        else:
            objects.append(json.loads(line))
        return True

    try:
        inspect_file(file, entries, take)
    except CorruptError as error:
        damage = error
    for thing in tables(objects):
        show(thing)
    if damage is not None:
        click.echo(f"walkeeper: {damage}", err=True)
        sys.exit(EXIT_DAMAGED)


def tables(objects: list[dict[str, Any]]) -> Iterator[Any]:
    """The file's own object as facts; then a table of each kind of part: blocks, entries, what a footer has."""
    if not objects:
        return
    yield facts([(words(key), cell(value)) for key, value in objects[0].items()])
    kinds: dict[str, list[dict[str, Any]]] = {}
    for part in objects[1:]:
        kinds.setdefault(next(iter(part)), []).append(part)
    for rows in kinds.values():
        keys = list(dict.fromkeys(key for row in rows for key in row))
        yield upright(keys, rows) if len(keys) > COLUMNS_MAX else lying(keys, rows)


def lying(keys: list[str], rows: list[dict[str, Any]]) -> Any:
    """A row for each part."""
    numbers = {key for key in keys if all(isinstance(row.get(key, 0), int) for row in rows)}
    shown = table(*((">" if key in numbers else "") + words(key) for key in keys))
    for row in rows:
        shown.add_row(*(cell(row.get(key)) for key in keys))
    return shown


def upright(keys: list[str], rows: list[dict[str, Any]]) -> Any:
    """A column for each part: of those that have too much to say for a row."""
    shown = table(words(keys[0]), *(cell(row[keys[0]]) for row in rows))
    for key in keys[1:]:
        shown.add_row(words(key), *(cell(row.get(key)) for row in rows))
    return shown


def words(key: str) -> str:
    return key.replace("_", " ")


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return " ".join(f"{key}={cell(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "; ".join(map(cell, value))
    return "" if value is None else printable(str(value))


def bytes_per_second(rate: float | None) -> int:
    """The limit as C takes it, which reads 0 as none."""
    return 0 if rate is None else max(1, int(min(INT64_MAX, rate * 1e6)))


def finding_lines(found: VerifyReport) -> Iterator[str]:
    """A line for each damaged file, and one for those that are not named."""
    for finding in found.findings:
        several = f"{finding.damaged:,} damaged, the first: " if finding.damaged > 1 else ""
        yield printable(f"{finding.name}: {several}{finding.first}")
    if more := found.damaged - sum(finding.damaged for finding in found.findings):
        yield f"and {more:,} more, in other files"


@click.command()
@directory
@click.option("--rate", type=Number(min=0, min_open=True), help="Read at most so many MB a second.")
@json_flag
def verify(directory: Path, rate: float | None, as_json: bool) -> None:
    """Read every byte of DIR that matters, and check every structure.

    Exit status 0: clean. 1: damaged. 2: it could not be told. A torn tail is no damage: it was never acknowledged. A
    warning is none either: it tells of a cache that cannot be used. Each file that is damaged is named, up to 16 of
    them, with the first damage in it. Files that are no part of DIR are named, too.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(None), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("verify", total=None)

        def advance(done: int, total: int) -> bool:
            bar.update(task, completed=done, total=total)
            return True

        found = verify_directory(directory, bytes_per_second(rate), advance, told_journal())
    others = left_overs(directory, told_journal())
    if as_json:
        click.echo(json.dumps({**dataclasses.asdict(found), "others": others}))
    else:
        parts = (
            counted(found.files, "file"),
            counted(found.blocks, "block"),
            counted(found.entries, "entry", "entries"),
        )
        torn = f"{size(found.torn_tail_bytes)}: never acknowledged" if found.torn_tail_bytes else "none"
        rows = [
            ("checked", f"{', '.join(parts)}, {size(found.bytes)} read"),
            ("torn tail", torn),
            ("damaged", f"{found.damaged:,}"),
        ]
        if found.damaged:
            rows.append(("where", "\n".join(finding_lines(found))))
        if found.warnings:
            rows += [("warnings", f"{found.warnings:,}"), ("first", found.first_warning)]
        if others:
            rows.append(("no part of it", left_over_words(others)))
        show(facts(rows))
    if found.damaged:
        sys.exit(EXIT_DAMAGED)
