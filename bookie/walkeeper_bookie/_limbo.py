"""Limbo: what the bookie does where it may have lost entries that it acknowledged.

It must not say then that a ledger or an entry is absent: such answers are votes of a recovery, and one wrong vote cuts
off what was acknowledged. Every ledger is in limbo at first; once it is known which ledgers of the metadata have this
bookie in an ensemble, only these are, until an operator (later: repair by the other bookies) clears each.

A fence may be among what was lost. So a ledger in limbo takes no ordinary adds, and it is fenced durably before it may
leave limbo: a writer that was fenced once does not go on here (BP-46, "fence on boot").

A ledger that was deleted is forgotten here as it is in the store: to fence it would make it anew.

A kill that left a torn tail is no reason: what is cut there was never acknowledged.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

from walkeeper.errors import Error
from walkeeper.metadata import CorruptMetadataError, MetadataError, UnsupportedMetadataError
from walkeeper_bookie._directory import Recovery
from walkeeper_bookie._log import Log
from walkeeper_bookie._state_files import LimboState

__all__ = ["Limbo", "reason_for_limbo"]

RETRY_MIN_S = 10.0
RETRY_MAX_S = 600.0


class Members(Protocol):
    """What the metadata can tell; MetadataError where it cannot."""

    def session(self) -> int: ...

    def instance_id(self) -> str | None:
        """By a linearizable read."""
        ...

    def ledger_ids(self) -> Iterator[int]: ...

    def ledger_members(self, ledger_id: int) -> frozenset[str] | None:
        """The bookies of all its ensembles; None: there is no such ledger (any more)."""
        ...


class Fences(Protocol):
    """The store."""

    def fence(self, ledger_ids: Iterable[int]) -> None:
        """Durable when it returns, of ledgers that are not known, too. Raises walkeeper.Error."""


class Kept(Protocol):
    """The file that keeps it. Both calls raise OSError."""

    def load(self) -> LimboState: ...

    def save(self, state: LimboState) -> None:
        """Durable when it returns."""


def reason_for_limbo(recovery: Recovery, *, new: bool = False) -> str:
    """Why what was acknowledged may be missing; empty where nothing is.

    `new`: the directory was empty and had no cookie: an earlier one, under this id, may have been lost.
    """
    if recovery.lost:
        return (
            f"opening the directory found damage: {recovery.damaged_blocks} blocks, {recovery.lost_entries} entries, "
            f"{recovery.lost_files} files"
        )
    return "the directory is new" if new else ""


class Limbo:
    """Keeps the state, on disk first, and tells the server. `begin` and `load` come before the server starts."""

    def __init__(
        self,
        file: Kept,
        metadata: Members,
        fences: Fences,
        bookie_id: str,
        instance_id: str,
        log: Log,
        stop: Callable[[], bool] = lambda: False,
        deleted: Callable[[Iterable[int]], set[int]] = lambda ledger_ids: set(),
        stored: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        """`deleted`: those of these ledgers that have tombstones. `stored`: those of which the store has something."""
        self._file, self._metadata, self._fences, self._bookie_id = file, metadata, fences, bookie_id
        self._log, self._stop, self._deleted = log, stop, deleted
        self._instance_id, self._stored = instance_id, stored
        self._lock = threading.RLock()
        self._generation = 0
        self._tell: Callable[[bool, Iterable[int]], None] = lambda everything, ids: None
        self.state = LimboState()
        self.retry_s = RETRY_MIN_S
        """When `note` is to be tried again, where it could not find out."""

    def load(self) -> None:
        """What an earlier process, or an operator, left. Raises OSError, walkeeper.Error: nothing may be served."""
        state = self._file.load()
        named = [*state.ledger_ids, *state.cleared, *state.unfenced]
        deleted = self._deleted(named)
        self._fences.fence([ledger_id for ledger_id in named if ledger_id not in deleted])
        self._keep(state)
        self._thin_out(state.without_deleted(deleted).fenced())

    def begin(self, reason: str) -> None:
        """Every ledger is in limbo, durably when it returns. Raises OSError."""
        with self._lock:
            if not self.state.everything or self.state.cleared:
                self._generation += 1
                self._save(self.state.with_added(None))
        self._log.warning("every ledger is in limbo: nothing is said to be absent", reason=reason)

    def attach(self, tell: Callable[[bool, Iterable[int]], None]) -> None:
        """From now on the server is told of each change, and of the state now: whether every ledger is in limbo but
        those that follow, or these alone."""
        with self._lock:
            self._tell = tell
            tell(self.state.everything, self.state.listed)

    def note(self) -> bool:
        """Finds the ledgers that it concerns, where that is not done yet; whether it is done now.

        Takes as long as reading the metadata of all ledgers. One whose metadata nobody can read is taken for one of
        these. Another failure is logged, and everything stays in limbo; so it does where every ledger was put into
        limbo meanwhile: what was listed is of before.
        """
        generation = self._generation
        if not self.state.everything:
            return True
        try:
            found = self._concerned()
            if found is None or generation != self._generation:
                return not self.state.everything
            # Of what others have taken over since nobody is in limbo here; its fence may be lost all the same.
            fenced = {*found, *self._stored()}
            self._fences.fence(fenced - self._deleted(fenced))
            with self._lock:
                if generation != self._generation:
                    return not self.state.everything
                self._save(self.state.noted(found))
        except (MetadataError, Error, OSError) as wrong:
            self._log.warning("ledgers could not be noted for limbo: every ledger stays in it", error=wrong)
            self.retry_s = min(2 * self.retry_s, RETRY_MAX_S)
            return False
        self._log.warning("ledgers noted for limbo, all others are out of it", ledgers=len(self.state.ledger_ids))
        return True

    def _concerned(self) -> array[int] | None:
        """The ledgers that have this bookie, as one session saw them that has seen the cluster's INSTANCEID; None: told
        to stop."""
        session = self._metadata.session()
        if (instance_id := self._metadata.instance_id()) != self._instance_id:
            raise MetadataError(f"INSTANCEID {instance_id or 'absent'}, the cookie has {self._instance_id}")
        found: array[int] = array("q")
        for ledger_id in self._metadata.ledger_ids():
            if self._stop():
                return None
            if self._may_have(ledger_id):
                found.append(ledger_id)
        if self._metadata.session() != session:
            raise MetadataError("the session was lost while ledgers were listed: the listing may have holes")
        deleted = self._deleted(found)
        return array("q", (ledger_id for ledger_id in found if ledger_id not in deleted))

    def _may_have(self, ledger_id: int) -> bool:
        try:
            members = self._metadata.ledger_members(ledger_id)
        except (CorruptMetadataError, UnsupportedMetadataError) as wrong:
            self._log.warning("a ledger's metadata cannot be read: it is taken for one in limbo", error=wrong)
            return True
        return members is not None and self._bookie_id in members

    def add(self, ledger_ids: Iterable[int] | None) -> None:
        """These, or with None every ledger. Durable, and the server goes by it, when it returns. Raises OSError,
        walkeeper.Error."""
        with self._lock:
            self._generation += ledger_ids is None
            self._save(self.state.with_added(ledger_ids))
            self._fences.fence(ledger_ids or ())
        self._log.warning("put into limbo", ledgers="all" if ledger_ids is None else len(set(ledger_ids)))

    def clear(self, ledger_ids: Iterable[int] | None) -> None:
        """Takes these out, or with None all; fenced they stay. With None before it is noted which ledgers are in limbo,
        only those are fenced that were named. Raises OSError, walkeeper.Error; NotInLimboError: nothing was changed."""
        with self._lock:
            state = self.state.without(ledger_ids)
            self._generation += ledger_ids is None
            self._fences.fence(self.state.ledger_ids if ledger_ids is None else ledger_ids)
            self._save(state)
        self._log.warning("cleared from limbo", ledgers="all" if ledger_ids is None else len(set(ledger_ids)))

    def forget(self, ledger_ids: Collection[int]) -> None:
        """These were deleted, and have tombstones."""
        with self._lock:
            self._thin_out(self.state.without_deleted(ledger_ids))

    def _thin_out(self, state: LimboState) -> None:
        """Without what needs no word any more. Where that cannot be saved the file is behind: who loads it asks for the
        tombstones, and fences once more."""
        with self._lock:
            if state == self.state:
                return
            try:
                self._file.save(state)
            except OSError as wrong:
                self._log.warning("the file of limbo still names ledgers that were deleted or fenced", error=wrong)
            self._keep(state)

    def _save(self, state: LimboState) -> None:
        with self._lock:
            self._file.save(state)
            self._keep(state)

    def _keep(self, state: LimboState) -> None:
        with self._lock:
            self.state = state
            self._tell(state.everything, state.listed)
