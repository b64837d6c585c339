"""limbo: of which ledgers a bookie says nothing about what it does not have."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._state_files import LimboFile, LimboState, NotInLimboError, batches
from walkeeper_bookie.commands._arguments import DataArgument, bookies_directory, held, json_flag, ledger_id
from walkeeper_bookie.commands._ask import ask
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["limbo"]

PATH = "/api/v1/bookie/limbo"


@click.group()
def limbo() -> None:
    """Ledgers of which a bookie may have lost entries.

    Of a ledger in limbo the bookie never says that it, or an entry of it, is absent: such an answer counts in a
    recovery, and a wrong one cuts off what was acknowledged. What it has it gives. A ledger leaves limbo when it was
    repaired from the other bookies.
    """


http_option = click.option("--http", metavar="HOST:PORT", help="The HTTP address of a running bookie; then no DIR.")
ledgers_or_directory = click.argument("words", metavar="[DIR] [LEDGER]...", nargs=-1)
all_option = click.option("--all", "everything", is_flag=True, help="Every ledger.")


@limbo.command("list")
@click.argument("data", metavar="[DIR]", type=DataArgument(), required=False)
@http_option
@json_flag
def list_ledgers(data: Path | None, http: str | None, as_json: bool) -> None:
    """Show which ledgers are in limbo, and how many were cleared that are still to be fenced. A running bookie's
    directory may be asked, too."""
    if (data is None) == (http is None):
        raise Refusal("give DIR, or --http HOST:PORT of a running bookie")
    if http is not None:
        state = state_of(ask(http, PATH, instead="DIR in its place needs no HTTP"), http)
    else:
        state = LimboFile(directory_of(data).limbo).load()
    if as_json:
        click.echo(json.dumps({"everything": state.everything, **{name: list(ids) for name, ids in lists(state)}}))
        return
    if state.everything:
        but = f", but for {len(state.cleared)} that were cleared" if state.cleared else ""
        click.echo(f"every ledger is in limbo{but}")
    for each in state.ledger_ids:
        click.echo(each)
    if not state:
        click.echo("nothing is in limbo", err=True)
    if state.unfenced:
        click.echo(f"{len(state.unfenced)} that were cleared are fenced when the bookie starts", err=True)


@limbo.command()
@ledgers_or_directory
@all_option
@http_option
def add(words: tuple[str, ...], everything: bool, http: str | None) -> None:
    """Put ledgers into limbo: of a bookie that runs by --http, of one that is stopped by its directory."""
    change(words, everything, http, "add", LimboState.with_added)


@limbo.command()
@ledgers_or_directory
@all_option
@http_option
def clear(words: tuple[str, ...], everything: bool, http: str | None) -> None:
    """Take ledgers out of limbo, which were repaired: of a bookie that runs by --http, of one that is stopped by its
    directory, and it fences them when it starts. Where every ledger is in limbo, these no more are, and the others
    stay."""
    change(words, everything, http, "clear", LimboState.without_a_fence)


def change(
    words: tuple[str, ...],
    everything: bool,
    http: str | None,
    what: str,
    changed: Callable[[LimboState, Iterable[int] | None], LimboState],
) -> None:
    data = None if http is not None else directory_of(Path(words[0]) if words else None)
    ledgers = sorted({ledger_id(word) for word in (words if data is None else words[1:])})
    if everything == bool(ledgers):
        raise Refusal("name ledgers, or --all")
    if http is not None:
        for some in [None] if everything else batches(ledgers):
            wish = {what: "all" if some is None else some}
            ask(http, PATH, wish, instead=f"Of a bookie that is stopped: walkeeper bookie limbo {what} DIR")
        return
    assert data is not None
    with held(data, "; or tell the bookie itself: --http HOST:PORT"):
        file = LimboFile(data.limbo)
        try:
            file.save(changed(file.load(), None if everything else ledgers))
        except NotInLimboError as wrong:
            raise Refusal(str(wrong)) from None


def directory_of(data: Path | None) -> DataDirectory:
    if data is None:
        raise Refusal("give DIR, or --http HOST:PORT of a running bookie")
    return bookies_directory(data, "a running bookie's ledgers: --http HOST:PORT LEDGER...")


def lists(state: LimboState) -> list[tuple[str, array[int]]]:
    return [("ledgers", state.ledger_ids), ("cleared", state.cleared), ("unfenced", state.unfenced)]


def state_of(found: Mapping[str, Any], http: str | None) -> LimboState:
    try:
        return LimboState(bool(found["everything"]), array("q", found["ledgers"]), array("q", found["cleared"]))
    except (KeyError, TypeError, OverflowError):
        raise Refusal(f"what answers at {http} is no bookie") from None
