"""Collector: lets go of ledgers that were deleted. There is no message for that: a ledger vanishes from the metadata.

A listing that is wrong would delete everything, so nothing is believed twice: the local ledgers are taken *before* the
listing; a candidate is absent in two passes; then it is asked for directly, by a linearizable read in a session that
has seen the cluster's INSTANCEID; a listing that failed or broke off counts for nothing; and where many vanish at once
an operator is asked first.

An operator who looked, and finds it right, writes the number of ledgers that may go into the file `gc-acknowledged` in
the data directory (the log line of the alarm names both). It holds for one pass.
"""

from __future__ import annotations

import os
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from walkeeper.errors import Error
from walkeeper.metadata import MetadataError
from walkeeper_bookie._log import Log

__all__ = ["Acknowledgement", "Collector", "Listing", "Pass", "WrongClusterError"]

VANISHED_COUNT_MIN = 100
EMPTIED_COUNT_MIN = 10
BATCH = 1000
TOMBSTONES_AT_ONCE = 100_000
ASKING_S = 10.0
SESSIONS_MAX = 5


class WrongClusterError(Exception):
    """The metadata has another INSTANCEID than this bookie's cookie, or none."""


class Listing(Protocol):
    """What the metadata can tell of ledgers; MetadataError where it cannot."""

    def session(self) -> int: ...

    def instance_id(self) -> str | None:
        """By a linearizable read."""
        ...

    def ledger_ids(self) -> Iterator[int]:
        """All of them, in any order. One that ends without an exception is whole."""
        ...

    def ledger_exists(self, ledger_id: int) -> bool:
        """By a linearizable read."""
        ...


class Stored(Protocol):
    """The directory."""

    def ledgers(self) -> array[int]: ...

    def delete(self, ledger_ids: Iterable[int]) -> int: ...


class Tombs(Protocol):
    """The ids of ledgers that were deleted, for as long as they are refused."""

    def add(self, ledger_ids: Iterable[int]) -> None:
        """Durable when it returns."""

    def ids(self) -> Sequence[int]: ...

    def __len__(self) -> int: ...

    def expire(self) -> bool:
        """Forgets the old ones; whether there were any."""
        ...


class Acknowledgement:
    """The operator's word that so many ledgers may go at once; for one pass."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def count(self) -> int:
        """How many; 0 where there is no word, or none that can be read."""
        try:
            text = self.path.read_text(encoding="ascii", errors="replace")[:32].strip()
        except OSError:
            return 0
        return int(text) if text.isascii() and text.isdigit() else 0

    def clear(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass


@dataclass(frozen=True)
class Pass:
    """What one pass did."""

    local: int
    absent: int
    deleted: int
    alarm: bool


class Collector:
    """Runs passes, one at a time, by whoever calls `run`; what it counts may be read from any thread."""

    def __init__(
        self,
        directory: Stored,
        metadata: Listing,
        tombs: Tombs,
        set_deleted: Callable[[Sequence[int]], None],
        acknowledgement: Acknowledgement,
        instance_id: str,
        log: Log,
        *,
        vanished_part_max: float = 0.1,
        stop: Callable[[], bool] = lambda: False,
        forget: Callable[[Sequence[int]], None] = lambda ledger_ids: None,
    ) -> None:
        """`forget`: whoever else keeps ids of ledgers is told of those that were deleted."""
        self.vanished_part_max = vanished_part_max
        """More at once raises the alarm, if more than VANISHED_COUNT_MIN, or all and more than EMPTIED_COUNT_MIN."""
        self._directory, self._metadata, self.tombs = directory, metadata, tombs
        self._set_deleted, self._acknowledgement = set_deleted, acknowledgement
        self._instance_id, self._log, self._stop, self._forget = instance_id, log, stop, forget
        self._absent: frozenset[int] = frozenset()
        self._checked_session: int | None = None
        self.alarm = False
        """Nothing is deleted until somebody has looked."""
        self.passes = 0
        self.failures = 0
        self.deleted = 0
        self.last_success = 0.0
        """When a pass last ended well, in seconds since 1970; 0: none yet."""
        self.ledgers = 0
        """Local ones, at the last pass."""

    def start(self) -> None:
        """Ids deleted by earlier processes are refused from now on: before the first request."""
        self.tombs.expire()
        self._set_deleted(self.tombs.ids())

    def run(self) -> Pass | None:
        """One pass. None: it failed, which was logged and counted, and nothing (more) was deleted."""
        try:
            done = self._run()
        except WrongClusterError as wrong:
            self.alarm = True
            self.failures += 1
            self._log.error("garbage collection stands still: this is not the bookie's cluster", found=wrong)
            return None
        except (MetadataError, Error, OSError) as wrong:
            self.failures += 1
            self._log.warning("garbage collection failed, nothing more is deleted in this pass", error=wrong)
            return None
        self.passes += 1
        self.last_success = time.time()
        return done

    def _run(self) -> Pass:
        if self.tombs.expire():
            self._set_deleted(self.tombs.ids())
        local = self._directory.ledgers()  # before the listing: a ledger made meanwhile is no candidate
        self.ledgers = len(local)
        session = self._check_cluster()
        listed = bytearray(len(local))
        for ledger_id in self._metadata.ledger_ids():
            at = bisect_left(local, ledger_id)
            if at < len(local) and local[at] == ledger_id:
                listed[at] = 1
        if self._metadata.session() != session:
            raise MetadataError("the session was lost while ledgers were listed: the listing may have holes")
        absent = frozenset(id for id, known in zip(local, listed, strict=True) if not known)
        before, self._absent = self._absent, absent
        if self._too_many(len(absent), len(local)):
            return Pass(local=len(local), absent=len(absent), deleted=0, alarm=True)
        deleted = self._let_go(sorted(absent & before))
        return Pass(local=len(local), absent=len(absent), deleted=deleted, alarm=False)

    def _too_many(self, absent: int, local: int) -> bool:
        """All that are absent count, not only the new ones: what is held back must not pass in small steps."""
        limit = max(VANISHED_COUNT_MIN, local * self.vanished_part_max)
        many = absent > limit or (absent == local and absent > EMPTIED_COUNT_MIN)
        if many and absent > self._acknowledgement.count():
            self.alarm = True
            self._log.error(
                "garbage collection stands still: many ledgers vanished from the metadata at once. If they were "
                "deleted indeed, write their number into the file",
                vanished=absent,
                stored=local,
                file=self._acknowledgement.path,
            )
            return True
        if self.alarm:
            self._log.info("garbage collection goes on", vanished=absent, stored=local)
        self.alarm = False
        return False

    def _let_go(self, candidates: list[int]) -> int:
        deleted = 0
        for confirmed in self._confirmed(candidates):
            # In this order: once the ledger is forgotten, only its tombstone refuses an add that is still on the way.
            self.tombs.add(confirmed)
            self._set_deleted(self.tombs.ids())
            deleted += self._delete(confirmed)
            self._forget(confirmed)
        if self._stop():
            return deleted
        if candidates:
            self._acknowledgement.clear()
        if deleted:
            self._log.info("ledgers deleted", count=deleted)
        return deleted

    def _confirmed(self, candidates: list[int]) -> Iterator[list[int]]:
        """Those that are absent for certain, as many at once as were asked for in some seconds: each time all the
        tombstones are written anew. Ends where it is told to stop."""
        found: list[int] = []
        until = time.monotonic() + ASKING_S
        for candidate in candidates:
            if self._stop():
                return
            if not self._exists(candidate):
                found.append(candidate)
            if found and (len(found) >= TOMBSTONES_AT_ONCE or time.monotonic() >= until):
                yield found
                found, until = [], time.monotonic() + ASKING_S
        if found:
            yield found

    def _delete(self, ledger_ids: list[int]) -> int:
        """How many there were. What is left when it is told to stop has tombstones: the next process deletes it."""
        deleted = 0
        for start in range(0, len(ledger_ids), BATCH):
            if self._stop():
                break
            batch = ledger_ids[start : start + BATCH]
            deleted += self._directory.delete(batch)
            self.deleted += len(batch)
            self._absent -= frozenset(batch)
        return deleted

    def _exists(self, ledger_id: int) -> bool:
        """Whether the metadata has the ledger, for certain: read in one session, which has seen the INSTANCEID."""
        for _ in range(SESSIONS_MAX):
            session = self._metadata.session()
            if session != self._checked_session:
                session = self._check_cluster()
            found = self._metadata.ledger_exists(ledger_id)
            if self._metadata.session() == session:
                return found
        raise MetadataError("sessions are lost as fast as they are made: nothing can be confirmed")

    def _check_cluster(self) -> int:
        """The session in which the INSTANCEID was read, and is ours."""
        session = self._metadata.session()
        found = self._metadata.instance_id()
        if found != self._instance_id:
            self._checked_session = None
            raise WrongClusterError(f"INSTANCEID {found or 'absent'}, the cookie has {self._instance_id}")
        self._checked_session = session
        return session
