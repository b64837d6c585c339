"""migrate: a Java bookie's bk_server.conf, as a configuration of ours."""

from __future__ import annotations

from pathlib import Path

import click

from walkeeper_bookie._printable import printable
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["migrate"]


@click.command()
@click.argument("file", metavar="bk_server.conf", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def migrate(file: Path) -> None:
    """Write the configuration (TOML) that does what a Java bookie's does.

    For each key that cannot be carried over a comment says why; what needs a decision is said on standard error, too.
    The ledgers of a Java bookie are not converted: give the new bookie a directory of its own, and let the cluster move
    the ledgers.
    """
    from walkeeper_bookie._migration import migrated

    try:
        text = file.read_bytes().decode("latin-1")
    except OSError as error:
        raise Refusal(f"{file}: {error.strerror}") from None
    result = migrated(text)
    click.echo(result.toml, nl=False)
    for warning in result.warnings:
        click.echo(f"walkeeper: {printable(warning)}", err=True)
