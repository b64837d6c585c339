"""Opening a directory for a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import walkeeper
from walkeeper.cli._main import DAMAGED, Refusal
from walkeeper.errors import DamagedError

LOCK_TIMEOUT_S = 1.0
"""How long a writing command waits for the lock: longer than the kernel needs to finish a killed process's writes."""


class Place(click.Path):
    """A path on the command line. An empty one is none: it would be the current directory."""

    def __init__(self, **options: bool) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty path names nothing", param, ctx)
        try:
            os.stat(value)
        except (FileNotFoundError, NotADirectoryError):
            pass  # click says so where it must be there
        except (OSError, ValueError) as error:
            self.fail(f"{str(value)!r}: {getattr(error, 'strerror', error)}", param, ctx)
        return super().convert(value, param, ctx)


directory = click.argument("directory", metavar="DIR", type=Place(exists=True, file_okay=False))
directory_to_be = click.argument("directory", metavar="DIR", type=Place(file_okay=False))
destination = click.argument("destination", metavar="DEST", type=Place())
log_name = click.argument("log", metavar="LOG")
json_flag = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


@contextmanager
def reading(path: Path) -> Iterator[walkeeper.Namespace]:
    """The directory, read-only; no lock is taken.

    Where it is damaged, what can be read is shown, with a word about it, and gaps for the rest. Where opening meets the
    damage, and it is in use besides, or without a superblock, that is refused.
    """
    with open_to_read(path) as namespace:
        yield namespace


def open_to_read(path: Path) -> walkeeper.Namespace:
    namespace = walkeeper.open(path, create=False, read_only=True, on_damage="skip")
    report = namespace.recovery()
    if (
        report.damaged_blocks
        or report.lost_files
        or report.lost_entries
        or report.lost_records
        or report.catalogue_lost
    ):
        click.echo(f"walkeeper: damaged, what can be read is shown: {damage_of(path)}", err=True)
        click.get_current_context().meta[DAMAGED] = True
    return namespace


def damage_of(path: Path) -> str:
    """What an open says that accepts none."""
    try:
        walkeeper.open(path, create=False, read_only=True).close()
    except DamagedError as damage:
        return str(damage)
    return f"a file is missing. `walkeeper recover {path} DESTINATION` salvages the rest into a copy"


def check_destination(source: Path, destination: Path) -> None:
    """Refuses a destination that exists, lies inside the source, or is no name."""
    if os.path.lexists(destination):
        raise Refusal(f"{destination} exists", "name a path that does not: the copy is made there")
    if destination.name == "..":
        raise Refusal(f"{destination} does not exist", "DEST ends with the name of a directory that is made")
    if source.resolve() in destination.resolve().parents:
        raise Refusal(f"{destination} is inside {source}", "name a path outside: DIR itself is left as it is")


@contextmanager
def writing(path: Path, *, create: bool = False, **options: Any) -> Iterator[walkeeper.Namespace]:
    """The directory, for writing. DirectoryLockedError names the process that holds it."""
    options.setdefault("lock_timeout", LOCK_TIMEOUT_S)
    with walkeeper.open(path, create=create, **options) as namespace:
        yield namespace
