"""limbo: of which ledgers a bookie says nothing about what it does not have."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import click

from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._state_files import LimboFile, LimboState
from walkeeper_bookie.commands._arguments import data_argument, held, json_flag, ledger_id
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["limbo"]


@click.group()
def limbo() -> None:
    """Ledgers of which a bookie may have lost entries.

    Of a ledger in limbo the bookie never says that it, or an entry of it, is absent: such an answer counts in a
    recovery, and a wrong one cuts off what was acknowledged. What it has it gives. A ledger leaves limbo when it was
    repaired from the other bookies.
    """


@limbo.command("list")
@data_argument
@json_flag
def list_ledgers(data: Path, as_json: bool) -> None:
    """Show which ledgers are in limbo. A running bookie may be asked, too."""
    state = LimboFile(DataDirectory(data).limbo).load()
    if as_json:
        click.echo(json.dumps({"everything": state.everything, "ledgers": list(state.ledger_ids)}))
        return
    if state.everything:
        click.echo("every ledger is in limbo")
    for each in state.ledger_ids:
        click.echo(each)
    if not state:
        click.echo("nothing is in limbo", err=True)


@limbo.command()
@data_argument
@click.argument("ledgers", metavar="[LEDGER]...", nargs=-1, type=ledger_id)
@click.option("--all", "everything", is_flag=True, help="Every ledger.")
def add(data: Path, ledgers: tuple[int, ...], everything: bool) -> None:
    """Put ledgers into limbo. The bookie must be stopped."""
    some_or_all(ledgers, everything)
    directory = DataDirectory(data)
    with held(directory):
        file = LimboFile(directory.limbo)
        before = file.load()
        ids = array("q", sorted({*before.ledger_ids, *ledgers}))
        file.save(LimboState(before.everything or everything, ids))


@limbo.command()
@data_argument
@click.argument("ledgers", metavar="[LEDGER]...", nargs=-1, type=ledger_id)
@click.option("--all", "everything", is_flag=True, help="Whatever is in limbo.")
def clear(data: Path, ledgers: tuple[int, ...], everything: bool) -> None:
    """Take ledgers out of limbo, which were repaired. The bookie must be stopped."""
    some_or_all(ledgers, everything)
    directory = DataDirectory(data)
    with held(directory):
        file = LimboFile(directory.limbo)
        before = file.load()
        if everything:
            file.save(LimboState())
            return
        if before.everything:
            raise Refusal(
                "every ledger is in limbo: which ones it concerns is not noted yet",
                "the bookie notes them from the metadata, some time after its start; or --all, if all were repaired",
            )
        if strange := sorted(set(ledgers) - set(before.ledger_ids)):
            raise Refusal(f"not in limbo: {', '.join(map(str, strange))}. Nothing was changed")
        file.save(LimboState(ledger_ids=array("q", sorted(set(before.ledger_ids) - set(ledgers)))))


def some_or_all(ledgers: tuple[int, ...], everything: bool) -> None:
    if everything == bool(ledgers):
        raise Refusal("name ledgers, or --all")
