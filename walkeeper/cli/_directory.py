"""Opening a directory for a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import walkeeper
from walkeeper.cli._main import DAMAGED
from walkeeper.errors import DamagedError

LOCK_TIMEOUT_S = 1.0
"""How long a writing command waits for the lock: longer than the kernel needs to finish a killed process's writes."""

directory = click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
log_name = click.argument("log", metavar="LOG")
json_flag = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


@contextmanager
def reading(path: Path) -> Iterator[walkeeper.Namespace]:
    """The directory, read-only; no lock is taken. A damaged one is opened all the same, with a word about it."""
    with open_to_read(path) as namespace:
        yield namespace


def open_to_read(path: Path) -> walkeeper.Namespace:
    try:
        return walkeeper.open(path, create=False, read_only=True)
    except DamagedError as damage:
        try:
            namespace = walkeeper.open(path, create=False, read_only=True, on_damage="skip")
        except walkeeper.Error:
            raise damage from None
        click.echo(f"walkeeper: damaged, what can be read is shown: {damage}", err=True)
        click.get_current_context().meta[DAMAGED] = True
        return namespace


@contextmanager
def writing(path: Path, *, create: bool = False, **options: Any) -> Iterator[walkeeper.Namespace]:
    """The directory, for writing. DirectoryLockedError names the process that holds it."""
    options.setdefault("lock_timeout", LOCK_TIMEOUT_S)
    with walkeeper.open(path, create=create, **options) as namespace:
        yield namespace
