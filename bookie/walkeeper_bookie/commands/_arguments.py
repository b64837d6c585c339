"""What several commands are given: a data directory, ledger ids; and whether a bookie has the directory now."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from walkeeper.errors import Error
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._directory import holds_logs, journal_of
from walkeeper_bookie.commands._refusal import Refusal

__all__ = [
    "bookies_directory",
    "data_argument",
    "data_argument_to_be",
    "held",
    "journal_of_store",
    "journal_option",
    "json_flag",
    "ledger_id",
    "metadata_option",
]

ID_MAX = 2**63 - 1
LOCK_TIMEOUT_S = 1.0


def ledger_id(value: str) -> int:
    """A ledger id in decimal digits, as the type of an argument."""
    if not re.fullmatch("[0-9]{1,19}", value) or int(value) > ID_MAX:
        raise click.BadParameter(f"{value!r} is no ledger id: a number from 0 to {ID_MAX}")
    return int(value)


class DataArgument(click.Path):
    """The path of a data directory."""

    def __init__(self, exists: bool = True) -> None:
        super().__init__(exists=exists, file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty path names nothing", param, ctx)
        return super().convert(value, param, ctx)


data_argument = click.argument("data", metavar="DIR", type=DataArgument())
data_argument_to_be = click.argument("data", metavar="DIR", type=DataArgument(exists=False))
metadata_option = click.option(
    "--metadata", "metadata", metavar="URI", required=True, help="The metadata store of the cluster."
)
journal_option = click.option(
    "--journal",
    metavar="JDIR",
    type=DataArgument(),
    help="Where its journal directory is now, if it has one; by default where it was at the last start.",
)
json_flag = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


def bookies_directory(data: Path, hint: str | None = None, *, readable: bool = False) -> DataDirectory:
    """The data directory at this path. Refusal where none is there: what is written beside no store reaches no bookie,
    and what is missing there says nothing of one. `readable`: of a store whose superblock cannot be read, too; without,
    it may be under repair."""
    found = DataDirectory(data)
    if found.store.is_dir():
        refuse_logs(found, readable)
        return found
    above = DataDirectory(Path(os.path.abspath(data)).parent)
    if above.store.is_dir() and os.path.samefile(above.store, data):
        hint = f"it is the store in one: give {above.path}"
    raise Refusal(f"{data} is no bookie's data directory: there is no {found.store}", hint)


def refuse_logs(data: DataDirectory, readable: bool) -> None:
    try:
        logs = holds_logs(data.store)
    except Error as wrong:
        if readable:
            raise Refusal(f"{data.path} cannot be told to be a bookie's data directory: {wrong}", wrong.hint) from wrong
        return
    if logs:
        raise Refusal(f"{data.path} is no bookie's data directory: {data.store} is a namespace of logs")


def journal_of_store(data: DataDirectory, told: Path | None) -> Path | None:
    """The journal directory: told, or where it was at the store's last open; None: the journal is in the store."""
    if told is not None:
        return told
    return journal_of(data.store)


@contextmanager
def held(data: DataDirectory, or_else: str = "") -> Iterator[None]:
    """No bookie can start on the directory meanwhile. Refusal where one has it; `or_else`: what else may be done then.

    A directory that has no store yet cannot be held, and nobody serves from it.
    """
    with ExitStack() as opened:
        for name in ("superblock", "lock"):  # a bookie holds both, as somebody may remove the second
            if name == "superblock" and not (data.store / name).is_file():
                continue  # what stands there is no store's
            try:
                descriptor = os.open(data.store / name, os.O_RDWR | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                continue
            opened.callback(os.close, descriptor)
            if not locked(descriptor):
                raise Refusal(
                    f"a bookie serves {data.path}, or another command is at it",
                    f"stop it; it reads this when it starts{or_else}",
                )
        yield


def locked(descriptor: int) -> bool:
    """Whether the lock was to be had within LOCK_TIMEOUT_S; a reader of the store has it for a moment."""
    until = time.monotonic() + LOCK_TIMEOUT_S
    while not try_lock(descriptor):
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True
