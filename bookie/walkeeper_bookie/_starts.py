"""Starts: whether this directory is the bookie's newest, or an older copy of it.

A cookie says whose a directory is, and not of when: of a copy that was put back it is right, and what was acknowledged
and fenced since is not there. So each start is counted, in the directory first and then in the metadata. A directory
that counts less than the metadata do was left behind, and every ledger of it is in limbo.

A kill between the two writes leaves a directory that counts more: it is the newest. That every ledger is in limbo is
durable before the directory catches up, so a kill does not hide that it was older. A copy that is made while the bookie
runs, and put back before it is started again, counts as much and is not told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from walkeeper.metadata import ConflictError, ExistsError, MissingError, Versioned
from walkeeper_bookie._identity import IdentityError

__all__ = ["adopt", "count_start"]


class Counted(Protocol):
    """The numbers in the metadata. MetadataError where they cannot be read or written."""

    def starts(self, bookie_id: str, instance_id: str) -> Versioned[int] | None: ...

    def put_starts(self, bookie_id: str, instance_id: str, number: int, version: int | None) -> None:
        """ConflictError, MissingError, ExistsError: another process did that meanwhile. UnknownOutcomeError."""


class Kept(Protocol):
    """The number in the directory. Both calls raise OSError."""

    def load(self) -> int: ...

    def save(self, number: int) -> None:
        """Durable when it returns."""


def count_start(
    metadata: Counted, file: Kept, bookie_id: str, instance_id: str, is_older: Callable[[str], None]
) -> None:
    """One start more, in the directory and in the metadata. The caller holds the directory's lock, and its cookies are
    right. `is_older` is called with the reason where it is an older copy, and returns once that is durable.

    Where it fails it may be called again. Raises MetadataError, OSError, IdentityError, and what `is_older` does.
    """
    here, there = file.load(), metadata.starts(bookie_id, instance_id)
    if there is not None and here < there.value:
        is_older(
            f"the directory is an older copy: it counts {here} starts of this bookie, and the cluster {there.value}. "
            "What was acknowledged since is not in it: let the other bookies repair its ledgers, then clear each of "
            "them: walkeeper bookie limbo clear"
        )
    number = max(here, there.value if there else 0) + 1
    file.save(number)
    try:
        metadata.put_starts(bookie_id, instance_id, number, there.version if there else None)
    except (ConflictError, ExistsError, MissingError) as wrong:
        raise IdentityError(
            f"another bookie with the id {bookie_id} was started just now",
            "look whether a copy of its directory is started elsewhere; one of the two must go",
        ) from wrong


def adopt(file: Kept, there: Versioned[int] | None) -> None:
    """The directory becomes this bookie's, and what it may lack is known otherwise: it is no older copy. Raises
    OSError."""
    if there is not None and file.load() < there.value:
        file.save(there.value)
