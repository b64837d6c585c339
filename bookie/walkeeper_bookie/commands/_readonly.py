"""readonly: an operator's wish that a bookie takes no more adds."""

from __future__ import annotations

from pathlib import Path

import click

from walkeeper_bookie._state_files import ReadOnlyFile
from walkeeper_bookie.commands._arguments import DataArgument, bookies_directory
from walkeeper_bookie.commands._ask import ask
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["readonly"]

PATH = "/api/v1/bookie/state/readonly"
BY_DATA = "--data DIR in its place needs no HTTP"


@click.command()
@click.argument("wish", metavar="on|off|status", type=click.Choice(["on", "off", "status"]))
@click.option("--http", metavar="HOST:PORT", help="The HTTP address of a running bookie, on this machine.")
@click.option("--data", metavar="DIR", type=DataArgument(), help="The data directory of one, running or not.")
@click.option("--reason", metavar="TEXT", default="", help="With --data: is kept for people.")
def readonly(wish: str, http: str | None, data: Path | None, reason: str) -> None:
    """Make a bookie read-only, or writable again; or say what it is.

    Read-only, it answers reads and fences, and refuses adds but those of recovery; clients choose other bookies. The
    wish survives restarts. By --http it holds when the command returns. By --data it is a file in the directory, which
    a running bookie looks at every disk_check_interval. A full disk makes a bookie read-only, too: `off` does not
    change that.
    """
    if (http is None) == (data is None):
        raise Refusal("give --http HOST:PORT of a running bookie, or --data DIR")
    read_only = by_http(http, wish) if http is not None else by_file(ReadOnlyFile(file_of(data)), wish, reason)
    click.echo("read-only" if read_only else "writable")


def file_of(data: Path | None) -> Path:
    assert data is not None
    return bookies_directory(data).read_only


def by_file(file: ReadOnlyFile, wish: str, reason: str) -> bool:
    """The wish in the file, after it was changed."""
    if wish != "status":
        file.set(wish == "on", reason)
    elif words := file.reason():
        click.echo(f"reason: {words}", err=True)
    return file.wished()


def by_http(http: str, wish: str) -> bool:
    """What the bookie says it is, after it was told."""
    found = ask(http, PATH, None if wish == "status" else {"readOnly": wish == "on"}, instead=BY_DATA)
    if not isinstance(found.get("readOnly"), bool):
        raise Refusal(f"what answers at {http} is no bookie")
    if wish == "off" and found["readOnly"]:
        click.echo("it stays read-only for another reason, such as a full disk: see its log", err=True)
    return bool(found["readOnly"])
