"""cursor ls, set, delete: the named durable positions that hold truncation back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from walkeeper import Log, Position
from walkeeper.cli._directory import json_flag, log_name, namespace_place, reading, writing
from walkeeper.cli._main import Refusal
from walkeeper.cli._place import place
from walkeeper.cli._reading import of_each
from walkeeper.cli._show import counted, dlsn, printable, show, table
from walkeeper.errors import CursorNotFoundError, InvalidError, TruncatedError

cursor_name = click.argument("name", metavar="NAME")


@click.group()
def cursor() -> None:
    """List, move and delete the cursors of logs.

    A cursor is a named position: the first record that its owner still needs. Truncation does not pass it.
    """


def row(log: Log, name: str, at: Position) -> dict[str, Any]:
    """What is told of a cursor that stands there."""
    behind = log.info().next.sequence_id
    return {
        "log": log.name,
        "cursor": name,
        "sequence_id": at.sequence_id,
        "dlsn": list(at.dlsn),
        "lag": max(0, behind - at.sequence_id),
    }


def rows(log: Log) -> list[dict[str, Any]]:
    """What is told of each cursor of a log, by name. One that is deleted meanwhile is left out."""
    return [row(log, name, at) for name in log.cursors() if (at := position(log.cursor, name)) is not None]


def position(opened: Any, name: str) -> Position | None:
    """Where a cursor stands; None where there is none of that name."""
    try:
        found: Position = opened(name, create=False).position
    except CursorNotFoundError:
        return None
    return found


@cursor.command("ls")
@namespace_place
@click.argument("log", metavar="[LOG]", required=False)
@json_flag
def ls(directory: Path | str, log: str | None, as_json: bool) -> None:
    """The cursors of LOG, or of all logs: where each stands, and how many records lie between it and the end."""
    with reading(directory) as namespace:
        if log is None:
            found = [each for told in of_each(namespace, rows) for each in told]
        else:
            found = rows(namespace.log(log, create=False))
    if as_json:
        for each in found:
            click.echo(json.dumps(each))
        return
    if not found:
        click.echo("no cursors", err=True)
        return
    shown = table("log", "cursor", ">record", "dlsn", ">lag")
    for each in found:
        numbers = f"{each['sequence_id']:,}", ",".join(map(str, each["dlsn"])), f"{each['lag']:,}"
        shown.add_row(printable(each["log"]), printable(each["cursor"]), *numbers)
    show(shown)


@cursor.command("set")
@namespace_place
@log_name
@cursor_name
@click.option(
    "--to",
    "target",
    type=place,
    required=True,
    help="The first record still needed: start, end, a sequence id, txid:N, time:ISO, dlsn:S,E,S.",
)
@click.option("--create", is_flag=True, help="Make the cursor where there is none of that name.")
@json_flag
def set_cursor(directory: Path | str, log: str, name: str, target: dict[str, Any], create: bool, as_json: bool) -> None:
    """Move the cursor NAME of LOG forward. It is durable when the command ends.

    A cursor never moves back. Without --create a cursor that does not exist is an error: a misspelt name would hold
    back truncation for ever.
    """
    with writing(directory) as namespace:
        opened = namespace.log(log, create=False)
        before = position(opened.cursor, name)
        if before is None and not create:
            raise Refusal(
                f"log {log} has no cursor {name!r}",
                "walkeeper cursor ls lists the cursors; --create makes this one",
            )
        move(opened, name, target)
        at = opened.cursor(name, create=False).position
        told = row(opened, name, at)
    if as_json:
        click.echo(json.dumps(told))
    elif before is None:
        click.echo(f"{printable(name)} is made, at record {at.sequence_id} ({dlsn(at)})")
    elif before.dlsn == at.dlsn:
        click.echo(f"{printable(name)} stands at record {at.sequence_id} ({dlsn(at)}) already")
    else:
        moved = f"from record {before.sequence_id} to record {at.sequence_id} ({dlsn(at)})"
        click.echo(f"{printable(name)} is moved {moved}")


def move(log: Log, name: str, target: dict[str, Any]) -> None:
    """Puts the cursor there, in one step: a new cursor holds back no more than what was asked for."""
    try:
        log._cursor(name).advance(place_in(log, target))
    except InvalidError as refused:
        said, back, _ = str(refused).partition("; delete it first")
        if not back:
            raise
        hint = "to put it there all the same, delete it with walkeeper cursor delete, and set it with --create"
        raise Refusal(said, hint) from refused
    except TruncatedError as refused:
        raise Refusal(str(refused), "--to start puts the cursor at the first record that is left") from refused


def place_in(log: Log, target: dict[str, Any]) -> Any:
    """A position of the log for what `--to` says. Refuses a sequence id that the log has not come to."""
    start = target.get("start")
    if start in ("start", "end"):
        info = log.info()
        return info.first if start == "start" else info.next
    if start is not None:
        return start
    end = log.info().next.sequence_id
    if target.get("sequence_id", 0) > end:
        said = f"log {log.name} has no record {target['sequence_id']}: its next one will be {end}"
        raise Refusal(said, "--to end puts the cursor behind all that are there")
    return log.find(**target)


@cursor.command("delete")
@namespace_place
@log_name
@cursor_name
@json_flag
def delete(directory: Path | str, log: str, name: str, as_json: bool) -> None:
    """Delete the cursor NAME of LOG. What only it needed may be truncated from then on."""
    with writing(directory) as namespace:
        opened = namespace.log(log, create=False)
        found = opened.cursor(name, create=False)
        at = found.position
        told = row(opened, name, at)
        found.delete()
    if as_json:
        click.echo(json.dumps(told))
    else:
        lag = counted(told["lag"], "record")
        click.echo(f"{printable(name)} is deleted; it stood at record {at.sequence_id}, {lag} before the end")
