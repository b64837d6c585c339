"""format: a new directory of a bookie, with its cookies."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import click

from walkeeper._native import ffi, lib
from walkeeper.errors import DamagedError, StorageError, check, new_error
from walkeeper_bookie._checked_lines import replace_file, sync_directory
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._directory import (
    holds_logs,
    journal_field,
    journal_of,
    make_data_directory,
    make_journal_directory,
    refuse_nested,
)
from walkeeper_bookie._identity import PENDING
from walkeeper_bookie._settings import BY_NAME, parse_value
from walkeeper_bookie._starts import adopt
from walkeeper_bookie._state_files import LimboFile, LimboState, StartsFile
from walkeeper_bookie.commands._arguments import DataArgument, data_argument_to_be, held, metadata_option
from walkeeper_bookie.commands._cluster import cluster_at, cookie_file
from walkeeper_bookie.commands._cookie import expected_cookie
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["format"]

FOREVER = 2**64 - 1
OF_A_STORE = re.compile(
    r"lock|shared|superblock|(journal|entries|index)(/[0-9a-z-]+\.(wk[a-z]|tmp|damaged))?|probe-\d+\.tmp"
)
"""What the engine makes in a store, by its path there."""


@click.command()
@data_argument_to_be
@click.option(
    "--journal", metavar="JDIR", type=DataArgument(exists=False), help="Its journal directory, if it is to have one."
)
@metadata_option
@click.option("--bookie-id", metavar="ID", required=True, help="Its id; of most, the HOST:PORT that it advertises.")
@click.option(
    "--force", is_flag=True, help="Also a directory that is not empty, whose ledgers are lost; asks for the id."
)
def format(data: Path, journal: Path | None, metadata: str, bookie_id: str, force: bool) -> None:
    """Prepare DIR for a new bookie of the cluster, and write its cookies.

    `walkeeper-bookie --init` does that by itself at the first start. Every ledger is put into limbo: a bookie of this
    id may have been in the cluster before, and what that one acknowledged this one does not have.
    """
    directory = DataDirectory(data)
    parse_value(BY_NAME["bookie_id"], bookie_id)
    if journal is not None:
        refuse_nested(data, journal)
    with cluster_at(metadata) as cluster, held(directory):
        cookie = expected_cookie(cluster, data, bookie_id, journal)
        if cluster.is_registered(bookie_id):
            raise Refusal(f"bookie {bookie_id} is registered: it runs", "stop it, and wait for its session to end")
        there = cluster.cookie(bookie_id)
        if there is not None and not force:
            raise Refusal(
                f"bookie {bookie_id} has been in this cluster before: its cookie is in the metadata",
                "where it is gone for good: cookie delete, once the other bookies have repaired its ledgers",
            )
        if data.is_dir() and any(data.iterdir()):
            if not force:
                by_force = "" if others(directory) else ", or --force to lose what is in it"
                raise Refusal(f"{data} is not empty", f"name another directory{by_force}")
            confirm(directory, bookie_id)
        elif force and there is not None:
            confirm(directory, bookie_id)
        make(directory, journal)
        adopt(StartsFile(directory.starts), cluster.starts(bookie_id))
        if there is not None:
            cluster.delete_cookie(bookie_id)
        # As a start does: one that finds the first without the last finishes it, and takes no disk for lost.
        pending = data / PENDING
        replace_file(pending, cookie.serialise())
        cluster.create_cookie(cookie)
        os.rename(pending, directory.cookie)
        sync_directory(data)
    click.echo(f"{data} is the directory of bookie {bookie_id}")


def others(data: DataDirectory) -> str:
    """What is in the directory and no bookie's, nor what a start, or a command, that was killed left of one; empty:
    nothing. Raises OSError, walkeeper.Error where that cannot be told."""
    if strange := data.strange():
        return f"there is {strange[0]!r}"
    if not data.store.is_dir():
        return f"{data.store} is no directory" if os.path.lexists(data.store) else ""
    try:
        return f"{data.store} is a namespace of logs" if holds_logs(data.store) else ""
    except DamagedError:
        pass
    except StorageError as wrong:
        if wrong.system_error not in (errno.ENOENT, errno.EISDIR):
            raise
    strange = sorted(name for name in paths_in(data.store) if not OF_A_STORE.fullmatch(name))
    return f"there is {str(data.store / strange[0])!r}" if strange else ""


def paths_in(folder: Path) -> Iterator[str]:
    """Of everything in it, from the folder on. Raises OSError."""

    def fail(wrong: OSError) -> None:
        raise wrong

    for above, folders, files in os.walk(folder, onerror=fail):
        yield from (os.path.relpath(os.path.join(above, name), folder) for name in (*folders, *files))


def confirm(data: DataDirectory, bookie_id: str) -> None:
    """The operator types the id of the bookie that will be lost. Refusal for a directory that is no bookie's."""
    here = cookie_file(data.cookie) if data.path.is_dir() else None
    if here is not None and here.bookie_id != bookie_id:
        raise Refusal(f"{data.path} is the directory of bookie {here.bookie_id}, not of {bookie_id}")
    if found := others(data):
        raise Refusal(f"{data.path} is not empty, and no bookie's directory: nothing in it is removed", found)
    click.echo(f"All ledgers in {data.path} will be lost. Other bookies must have their entries.", err=True)
    if click.prompt(f"Type {bookie_id} to go on", err=True) != bookie_id:
        raise Refusal("that is another id; nothing was changed")


def clear_journal(data: DataDirectory, journal: Path) -> None:
    """The journal that the store in this data directory has there is removed: what says whose it is first."""
    known = journal_of(data.store)
    if known is not None and os.path.realpath(known) == os.path.realpath(journal):
        (journal / "owner").unlink(missing_ok=True)
        if (journal / "journal").is_dir():
            shutil.rmtree(journal / "journal")


def make(data: DataDirectory, journal: Path | None) -> None:
    """The directory is there, with an empty store, and everything in limbo. What a bookie left is removed: its cookie
    first, so that a kill leaves a directory that no bookie starts on."""
    make_data_directory(data.path)
    if journal is not None:
        make_journal_directory(journal)
    if any(data.path.iterdir()):
        for old in data.beside:
            old.unlink(missing_ok=True)
        sync_directory(data.path)
        if data.store.is_dir():
            if journal is not None:
                clear_journal(data, journal)
            shutil.rmtree(data.store)
    LimboFile(data.limbo).save(LimboState(everything=True))
    options, out, error = ffi.new("wk_open_options *"), ffi.new("wk_namespace **"), new_error()
    lib.wk_open_options_init(options)
    options.kind = lib.WK_KIND_LEDGERS
    options.journal = named = journal_field(journal)
    check(lib.wk_open(os.fsencode(data.store), options, out, error), error)
    del named  # until here C looked at it
    check(lib.wk_close(out[0], FOREVER, error), error)
