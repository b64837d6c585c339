"""Collector: lets go of ledgers that were deleted. There is no message for that: a ledger vanishes from the metadata.

A listing that is wrong would delete everything, so nothing is believed twice: the local ledgers are taken *before* the
listing; a candidate is absent in two passes; then it is asked for directly, by linearizable reads under the keys of
every layout, in a session that has seen the cluster's INSTANCEID; a listing that failed or broke off counts for
nothing; and where the listing as a whole looks wrong, absent ledgers are held back: see `_gc_hold`.

An operator who looked, and finds that the ledgers were deleted indeed, writes the number of held ledgers into the file
`gc-acknowledged` in the data directory (the log line of the alarm names both). The next pass uses it up.
"""

from __future__ import annotations

import os
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from walkeeper.errors import Error
from walkeeper.metadata import ListedLedger, MetadataError
from walkeeper_bookie._gc_hold import REASONS, Found, GcState, Judgement, Reason, judge
from walkeeper_bookie._log import Log

__all__ = ["Acknowledgement", "Collector", "Held", "Listing", "Pass", "WrongClusterError"]

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

    def layout(self) -> str:
        """What LAYOUT says."""
        ...

    def listing(self) -> Iterator[ListedLedger]:
        """Each ledger once, in any order. One that ends without an exception is whole."""
        ...

    def ledger_exists(self, ledger_id: int) -> bool:
        """By linearizable reads, under the keys of every layout."""
        ...


class Stored(Protocol):
    """The directory."""

    def ledgers(self) -> array[int]: ...

    def delete(self, ledger_ids: Iterable[int]) -> int: ...

    def bytes_of(self, ledger_ids: Iterable[int]) -> int: ...


class Tombs(Protocol):
    """The ids of ledgers that were deleted, for as long as they are refused."""

    def add(self, ledger_ids: Iterable[int]) -> None:
        """Durable when it returns."""

    def ids(self) -> Sequence[int]: ...

    def __len__(self) -> int: ...

    def expire(self) -> bool:
        """Forgets the old ones; whether there were any."""
        ...


class States(Protocol):
    """What the passes before found, over restarts; `clock` is the one of its times."""

    clock: Callable[[], float]

    def load(self) -> GcState: ...

    def save(self, state: GcState) -> None:
        """Durable when it returns."""

    def save_if_there_is_room(self, state: GcState) -> None:
        """The same, but that a full disk keeps the state of before."""


class Acknowledgement:
    """The operator's word that so many held ledgers may go; one pass uses it up."""

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
    held: int
    deleted: int


@dataclass(frozen=True)
class Held:
    """The ledgers that are held back for one reason."""

    ledgers: int = 0
    bytes: int = 0
    until: float | None = 0.0
    """When the last of them goes, in seconds since 1970; 0: there is none; None: an operator must look."""
    listed: int = 0
    before: int = 0
    """Ledgers in the listing in which the last of them were missing, and in the one before."""


_WORDS: Mapping[Reason, str] = {
    "emptied": "the metadata list no ledgers any more: the ledgers here are held back",
    "collapsed": "the metadata list far fewer ledgers than before: ledgers that vanished are held back",
    "unlisted": "the metadata list no ledger of this bookie: its ledgers are held back",
}


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Collector:
    """Runs passes, one at a time, by whoever calls `run`; what it counts may be read from any thread."""

    def __init__(
        self,
        directory: Stored,
        metadata: Listing,
        tombs: Tombs,
        set_deleted: Callable[[Sequence[int]], None],
        acknowledgement: Acknowledgement,
        states: States,
        instance_id: str,
        log: Log,
        *,
        hold_time: float,
        stop: Callable[[], bool] = lambda: False,
        forget: Callable[[Sequence[int]], None] = lambda ledger_ids: None,
    ) -> None:
        """`forget`: whoever else keeps ids of ledgers is told of those that were deleted."""
        self.hold_time = hold_time
        """Seconds for which ledgers are held back that are found absent from now on, where an end is set."""
        self._directory, self._metadata, self.tombs = directory, metadata, tombs
        self._set_deleted, self._acknowledgement, self._states = set_deleted, acknowledgement, states
        self._instance_id, self._log, self._stop, self._forget = instance_id, log, stop, forget
        self._absent: frozenset[int] = frozenset()
        self._checked_session: int | None = None
        self._state = GcState()
        self.held: Mapping[Reason, Held] = {reason: Held() for reason in REASONS}
        """What is held back, by reason."""
        self.wrong_cluster = False
        """The last pass found another INSTANCEID, or none."""
        self.listed = 0
        """Ledgers in the cluster's listing, at the last pass."""
        self.other_layout = 0
        """Those of them whose key is not the one that LAYOUT says."""
        self.passes = 0
        self.failures = 0
        self.deleted = 0
        self.last_success = 0.0
        """When a pass last ended well, in seconds since 1970; 0: none yet."""
        self.ledgers = 0
        """Local ones, at the last pass."""

    @property
    def alarm(self) -> bool:
        """Ledgers are held back, or nothing is deleted because the cluster is another one."""
        return self.wrong_cluster or any(held.ledgers for held in self.held.values())

    def start(self) -> None:
        """Ids deleted by earlier processes are refused from now on: before the first request. What an earlier process
        held back stays held. Raises OSError."""
        self.tombs.expire()
        self._set_deleted(self.tombs.ids())
        self._state = self._states.load()
        self._show(self._state.held(self._states.clock()))

    def save(self) -> None:
        """Saves how much time is left of what is held; at the end of a process. Raises OSError."""
        if self._state.holds:
            self._states.save(self._state)

    def run(self) -> Pass | None:
        """One pass. None: it failed, which was logged and counted, and nothing (more) was deleted."""
        try:
            done = self._run()
        except WrongClusterError as wrong:
            self.wrong_cluster = True
            self.failures += 1
            self._log.error(
                "garbage collection stands still: this is not the bookie's cluster. Nothing is deleted until the "
                "metadata have the INSTANCEID of the bookie's cookie again",
                found=wrong,
            )
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
        listed_count = other_count = 0
        other_example = -1
        for one in self._metadata.listing():
            listed_count += 1
            if not one.own:
                other_count, other_example = other_count + 1, one.ledger_id
            at = bisect_left(local, one.ledger_id)
            if at < len(local) and local[at] == one.ledger_id:
                listed[at] = 1
        if self._metadata.session() != session:
            raise MetadataError("the session was lost while ledgers were listed: the listing may have holes")
        self.wrong_cluster = False
        absent = frozenset(id for id, known in zip(local, listed, strict=True) if not known)
        before, self._absent = self._absent, absent
        self._tell_of_layout(listed_count, other_count, other_example)
        held = self._judge(Found(listed_count, len(local), absent))
        deleted = self._let_go(sorted((absent & before) - held))
        return Pass(local=len(local), absent=len(absent), held=len(held), deleted=deleted)

    def _tell_of_layout(self, listed: int, other: int, example: int) -> None:
        """Once, and again after there was none: they are ordinary ledgers, and whoever set the cluster up may not know
        that a client goes by another layout."""
        if other and not self.other_layout:
            self._log.warning(
                "clients keep ledgers under keys of another layout than the cluster's LAYOUT says; they are listed "
                "and kept like all others",
                ledgers=other,
                of=listed,
                example=example,
                layout=self._metadata.layout(),
            )
        self.listed, self.other_layout = listed, other

    def _judge(self, found: Found) -> frozenset[int]:
        """The ledgers that are held back. That they are is durable before anything is deleted."""
        word = self._acknowledgement.count()
        now = self._states.clock()
        judged = judge(self._state, found, now, self.hold_time, word, self._directory.bytes_of)
        before = self._state.held(now)
        if judged.held - before:
            self._states.save(judged.state)
        elif judged.state != self._state or judged.held:
            self._states.save_if_there_is_room(judged.state)
        self._state = judged.state
        self._show(judged.held)
        if word and (judged.acknowledged or not judged.held):
            self._acknowledgement.clear()
        self._tell(before, judged, word)
        return judged.held

    def _show(self, held: frozenset[int]) -> None:
        """What is held, for the log and the metrics."""
        clock = self._states.clock()
        shown: dict[Reason, Held] = {reason: Held() for reason in REASONS}
        for hold in self._state.holds if held else ():
            if hold.holds(clock):
                so_far = shown[hold.reason]
                until = None if hold.until is None else time.time() + hold.until - clock
                shown[hold.reason] = Held(
                    so_far.ledgers + len(hold.ledger_ids),
                    so_far.bytes + hold.bytes,
                    None if until is None or so_far.until is None else max(until, so_far.until),
                    hold.listed,
                    hold.before,
                )
        self.held = shown

    def _tell(self, before: frozenset[int], judged: Judgement, word: int) -> None:
        for reason, held in self.held.items():
            if held.ledgers:
                self._log.error(
                    _WORDS[reason] + ". If they were deleted indeed, write the number of all that are held into the "
                    "file",
                    reason=reason,
                    held=held.ledgers,
                    bytes=held.bytes,
                    until="an operator acknowledges it" if held.until is None else _moment(held.until),
                    listed=held.listed,
                    before=held.before,
                    all=len(judged.held),
                    file=self._acknowledgement.path,
                )
        if judged.acknowledged:
            self._log.info(
                "an operator acknowledged the held ledgers: they are deleted", ledgers=len(before), acknowledged=word
            )
        elif word and not judged.held:
            self._log.info("no ledgers are held: the acknowledgement was removed", acknowledged=word)
        elif word:
            self._log.warning(
                "the acknowledgement names fewer ledgers than are held", acknowledged=word, held=len(judged.held)
            )
        if before and not judged.held and not judged.acknowledged:
            self._log.info("no ledgers are held any more: they are listed again, or their hold is over")

    def _let_go(self, candidates: list[int]) -> int:
        deleted = 0
        for confirmed in self._confirmed(candidates):
            # In this order: once the ledger is forgotten, only its tombstone refuses an add that is still on the way.
            self.tombs.add(confirmed)
            self._set_deleted(self.tombs.ids())
            deleted += self._delete(confirmed)
            self._forget(confirmed)
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
