"""`walkeeper bookie …`: what operators do to bookies and their directories.

`walkeeper` finds this group by the entry point walkeeper.commands, so that it need not know of bookies. Each command's
module is imported when it is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["bookie"]

COMMANDS = {
    "format": "_format",
    "cookie": "_cookie",
    "readonly": "_readonly",
    "limbo": "_limbo",
    "sanity": "_sanity",
    "inspect": "_inspect",
    "migrate": "_migrate",
}


class BookieCommands(click.Group):
    """Loads its subcommands when they are asked for, and says in a sentence what they refuse."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = getattr(importlib.import_module(f"{__name__}.{COMMANDS[cmd_name]}"), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        with refusing():
            return super().invoke(ctx)


@contextmanager
def refusing() -> Iterator[None]:
    """Turns what metadata, settings and state files raise into a Refusal."""
    from walkeeper.metadata import MetadataError
    from walkeeper_bookie._checked_lines import StateFileError
    from walkeeper_bookie._settings import SettingsError

    try:
        yield
    except (MetadataError, SettingsError, StateFileError) as error:
        raise Refusal(str(error)) from error


@click.command(cls=BookieCommands)
def bookie() -> None:
    """Prepare, look at and repair bookies.

    The bookie itself is `walkeeper-bookie`.
    """
