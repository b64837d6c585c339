"""What a command says instead of a traceback."""

from __future__ import annotations

from typing import Any

import click

from walkeeper_bookie._printable import printable

__all__ = ["Refusal"]


class Refusal(click.ClickException):
    """It could not be done. `hint` is what can be done about it."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: Any = None) -> None:
        click.echo(f"walkeeper: {printable(self.message)}", file=file, err=file is None)
        if self.hint:
            click.echo(f"  {printable(self.hint)}", file=file, err=file is None)
