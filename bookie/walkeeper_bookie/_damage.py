"""A store whose journal is damaged, and what the bookie must have noted before it goes on behind that."""

from __future__ import annotations

from collections.abc import Callable

from walkeeper.errors import DamagedError
from walkeeper_bookie._directory import Directory
from walkeeper_bookie._log import Log
from walkeeper_bookie._state_files import LimboFile

__all__ = ["open_behind_damage"]


def open_behind_damage(open_store: Callable[[bool], Directory], file: LimboFile, log: Log) -> Directory:
    """Opens the store by `open_store(skip_damage)`; where its journal is damaged, behind what is lost.

    Every ledger is in limbo first, durably: once the store went on, nobody could tell any more that it lost
    something, and a process that was killed just then would start as if it had everything. Raises OSError, and what
    `open_store` raises: DamagedError too, where skipping does not help.
    """
    try:
        return open_store(False)
    except DamagedError as damage:
        log.warning(
            "the directory is damaged: to go on behind what is lost, if that helps (on_damage skip)", error=damage
        )
    before = file.load()
    file.save(before.with_added(None))
    try:
        return open_store(True)
    except DamagedError:
        file.save(before)  # nothing went on: put right what is damaged, and nothing is lost
        raise
