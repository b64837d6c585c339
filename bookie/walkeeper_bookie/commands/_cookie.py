"""cookie: whose directory this is, in the directory and in the metadata."""

from __future__ import annotations

from pathlib import Path

import click

from walkeeper.metadata import Cookie
from walkeeper_bookie._checked_lines import replace_file
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._directory import refuse_unnameable
from walkeeper_bookie._identity import expected_cookie as cookie_of_a_bookie
from walkeeper_bookie._identity import restore_hint
from walkeeper_bookie._starts import adopt
from walkeeper_bookie._state_files import LimboFile, StartsFile
from walkeeper_bookie.commands._arguments import (
    bookies_directory,
    data_argument,
    held,
    journal_of_store,
    journal_option,
    metadata_option,
)
from walkeeper_bookie.commands._cluster import Cluster, cluster_at, cookie_file
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["cookie"]


@click.group()
def cookie() -> None:
    """What says whose directory it is.

    The same text stands in the data directory (VERSION) and in the metadata. Where one of the two is missing or they
    differ a bookie does not start: its disk may not be mounted, or may be another's.
    """


@cookie.command()
@metadata_option
@click.option("--data", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("bookie_id", metavar="[BOOKIE]", required=False)
def show(metadata: str, data: Path | None, bookie_id: str | None) -> None:
    """Show a bookie's cookie, or those of all; with --data, that of the directory, too."""
    with cluster_at(metadata) as cluster:
        here = None if data is None else cookie_file(DataDirectory(data).cookie)
        if data is not None:
            tell(f"in {data}", here)
            bookie_id = bookie_id or (here.bookie_id if here else None)
        ids = cluster.bookie_ids() if bookie_id is None and data is None else [bookie_id] if bookie_id else []
        for each in ids:
            there = cluster.cookie(each)
            tell(f"of {each} in the cluster", there)
            if here is not None and there is not None and here != there:
                click.echo(f"they differ in {', '.join(name for name, _, _ in here.differences(there))}", err=True)


def tell(where: str, found: Cookie | None) -> None:
    if found is None:
        click.echo(f"there is no cookie {where}", err=True)
        return
    click.echo(
        f"{found.bookie_id}: ledgers {','.join(found.ledger_dirs)}; journal {','.join(found.journal_dirs)}; "
        f"instance {found.instance_id or '-'} ({where})"
    )


@cookie.command()
@data_argument
@journal_option
@metadata_option
@click.option("--bookie-id", metavar="ID", help="Where neither the directory nor the cluster says it.")
def create(data: Path, journal: Path | None, metadata: str, bookie_id: str | None) -> None:
    """Write the cookies of a stopped bookie that are missing: in the directory, in the metadata, or both.

    What is there is not changed, and must be that of this directory and cluster. Where the directory has no cookie
    every ledger is put into limbo: nobody knows whether it still has what this bookie acknowledged.
    """
    directory = bookies_directory(data, "a new directory: walkeeper bookie format", readable=True)
    with cluster_at(metadata) as cluster, held(directory):
        here = cookie_file(directory.cookie)
        name = bookie_id or (here.bookie_id if here else None)
        if name is None:
            raise Refusal(f"{data} does not say whose directory it is", "give --bookie-id")
        expected = expected_cookie(cluster, data, name, journal_of_store(directory, journal))
        there = cluster.cookie(name)
        for found, where in ((here, f"in {data}"), (there, "in the cluster")):
            if found is not None and found != expected:
                names = ", ".join(f"{name} ({a!r}, not {b!r})" for name, a, b in found.differences(expected))
                raise Refusal(
                    f"the cookie {where} is another one: it differs in {names}. Nothing was changed",
                    "if the directory was moved on purpose: walkeeper bookie cookie delete --metadata URI "
                    f"{expected.bookie_id}, " + restore_hint(data, expected.bookie_id),
                )
        if there is None:
            cluster.create_cookie(expected)
            click.echo("written in the cluster")
        if here is None:
            limbo = LimboFile(directory.limbo)
            limbo.save(limbo.load().with_added(None))
            adopt(StartsFile(directory.starts), cluster.starts(name))
            replace_file(directory.cookie, expected.serialise())
            click.echo(f"written in {data}; every ledger is in limbo")


@cookie.command()
@metadata_option
@click.argument("bookie_id", metavar="BOOKIE")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(metadata: str, bookie_id: str, yes: bool) -> None:
    """Delete a stopped bookie's cookie from the metadata.

    Do that when the bookie is gone for good and the others have repaired its ledgers: a bookie with this id may then
    come into the cluster with an empty directory.
    """
    with cluster_at(metadata) as cluster:
        if not yes:
            typed = click.prompt(f"The cluster will forget bookie {bookie_id}. Type its id", err=True)
            if typed != bookie_id:
                raise Refusal("that is another id; nothing was changed")
        cluster.delete_cookie(bookie_id)


def expected_cookie(cluster: Cluster, data: Path, bookie_id: str, journal: Path | None) -> Cookie:
    """The cookie that the bookie writes itself. InvalidError where it could not name the directories."""
    refuse_unnameable(data)
    if journal is not None:
        refuse_unnameable(journal, "journal")
    return cookie_of_a_bookie(bookie_id, data, cluster.instance_id(), journal)
