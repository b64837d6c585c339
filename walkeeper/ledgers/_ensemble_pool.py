"""EnsemblePool: ensembles that one client deals for all, in the metadata store; each ledger claims one.

ROOT-walkeeper/placement/lease                     who deals, for as long as its session lasts
ROOT-walkeeper/placement/pool/<E>-<Qw>-<Qa>        the ledgers of these quorums
ROOT-walkeeper/placement/pool/<E>-<Qw>-<Qa>/<id>   an ensemble that nobody has yet

They stand beside BookKeeper's tree and not in it. An ensemble is claimed by deleting its key. The lease is no safety
argument: two clients that deal at once, or an ensemble that is claimed twice because an outcome was unknown, cost
balance and nothing else. Any client that has chosen the policy deals where nobody does (docs/adr/0028).
"""

from __future__ import annotations

import logging
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

from walkeeper.errors import Error, NotEnoughBookiesError
from walkeeper.ledgers.placement import Candidate, Dealer
from walkeeper.metadata import (
    ClosedError,
    ConflictError,
    ExistsError,
    MetadataError,
    MetadataStore,
    MissingError,
    Operation,
    UnknownOutcomeError,
)

__all__ = ["EnsemblePool", "Lease", "Quorums", "ensemble_value", "parsed_ensemble", "short", "stale"]

Quorums = tuple[int, int, int]
"""E, Qw, Qa."""

POOL_ENSEMBLES = 64
"""So many are there of each quorums once they were dealt; they are dealt anew when half of them are gone."""
QUORUMS_MAX = 16
"""For so many different quorums ensembles are dealt; the others do without."""
BATCH = 32
"""Ensembles in one transaction: etcd has room for so many conditions."""
CLAIMS_MAX = 3
"""How many ensembles a ledger tries: one may be claimed by another client meanwhile, or have a bookie that left."""
LOOK_S = (0.5, 10.0)
"""The least and the most between two looks of whoever deals: soon again while ensembles are claimed, else rarely. Who
does not deal looks for the lease at the most."""
WEIGHTS_S = 60.0
"""How old the free space may be by which is dealt. Bookies publish it as often at most."""
VALUE_VERSION = "1"

log = logging.getLogger("walkeeper.ledgers")
_QUORUMS = re.compile("([1-9][0-9]{0,2})-([1-9][0-9]{0,2})-([1-9][0-9]{0,2})")


class Lease:
    """Whether this client deals, by what it wrote and what it sees. It asks nobody.

    The key is ephemeral. One that is ours of an earlier session, or of one that changed while it was made, may go at
    any time or stay for ever: it is dropped, and taken anew.
    """

    def __init__(self) -> None:
        self._written = b""
        self._session: int | None = None

    def step(self, found: bytes | None, session: Callable[[], int]) -> Literal["take", "drop", "deal", "wait"]:
        """What to do where the key holds this. Who only waits needs no session, and makes none."""
        if found is not None and found != self._written:
            return "wait"
        if found is None:
            return "take"
        return "deal" if self._session == session() else "drop"

    def taking(self, session: int) -> bytes:
        """The value to create the key with. Whether it was, the next step tells."""
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        self._written = f"{VALUE_VERSION}\n{os.urandom(8).hex()}\n{owner}\n".encode()
        self._session = session
        return self._written


def short(there: int) -> int:
    """How many ensembles are to be dealt where so many are there."""
    return POOL_ENSEMBLES - there if there <= POOL_ENSEMBLES // 2 else 0


def stale(ensembles: Mapping[str, Sequence[str] | None], writable: Collection[str]) -> list[str]:
    """The names of those that have a bookie which is not up, or that are none."""
    return [name for name, ensemble in ensembles.items() if ensemble is None or not set(ensemble) <= set(writable)]


def ensemble_value(ensemble: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (VALUE_VERSION, *ensemble)).encode()


def parsed_ensemble(data: bytes) -> tuple[str, ...] | None:
    """None where it is none: a newer version's, or damaged. It is passed over."""
    try:
        version, *names, behind = data.decode().split("\n")
    except ValueError:
        return None
    return tuple(names) if version == VALUE_VERSION and names and all(names) and not behind else None


class EnsemblePool:
    """One for each client whose policy deals. Its thread begins with the first claim."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        dealer: Callable[[], Dealer],
        candidates: Callable[[bool], list[Candidate]],
    ) -> None:
        self._store = store
        self._folder = f"{root}-walkeeper/placement"
        self._make_dealer = dealer
        self._candidates = candidates
        """The bookies; with True their free space is read again. It raises MetadataError."""
        self._lease = Lease()
        self._dealer: Dealer | None = None
        self._writable: frozenset[str] | None = None
        self._weighed = 0.0
        self._stopping = False
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    # ---- claiming ----

    def claims(self, quorums: Quorums) -> Iterator[tuple[str, ...]]:
        """Ensembles that are the caller's alone, CLAIMS_MAX at most, each claimed when it is asked for. Whether its
        bookies are up the caller looks. What the store refuses, or does not answer, is an empty pool.
        """
        self._begin()
        try:
            folder = self._pool(quorums)
            try:
                names = self._store.children(folder)
            except MissingError:
                self._store.create(folder, parents=True)  # whoever deals sees that these quorums are wanted
                return
            random.shuffle(names)
            for name in names[:CLAIMS_MAX]:
                ensemble = self._claim(f"{folder}/{name}")
                if ensemble is not None:
                    yield ensemble
        except MetadataError as error:
            log.debug("no ensemble was claimed: %s", error)

    def _claim(self, key: str) -> tuple[str, ...] | None:
        found = self._store.get(key)
        if found is None:
            return None
        try:
            self._store.delete(key, found.version)
        except (MissingError, ConflictError):
            return None  # somebody was quicker
        except UnknownOutcomeError:
            pass  # perhaps it is another's, too: then two ledgers have the same bookies, which does no harm
        return parsed_ensemble(found.data)

    # ---- dealing ----

    def turn(self) -> bool:
        """Looks once, and deals what is missing where that is this client's to do. Whether it dealt. MetadataError."""
        key = f"{self._folder}/lease"
        found = self._store.get(key, linearizable=True)
        step = self._lease.step(None if found is None else found.data, self._store.session)
        if step == "drop" and found is not None:
            try:
                self._store.delete(key, found.version)
            except (MissingError, ConflictError):
                pass
            step = "take"
        if step == "take":
            try:
                self._store.create(key, self._lease.taking(self._store.session()), ephemeral=True, parents=True)
            except (ExistsError, UnknownOutcomeError):
                self._dealer = None
                return False  # the next look tells whose it is
            step = "deal"
            self._dealer = None
        if step == "wait":
            self._dealer = None
            return False
        if self._dealer is None:
            self._dealer, self._writable = self._make_dealer(), None
        return self._deal(self._dealer)

    def _deal(self, dealer: Dealer) -> bool:
        try:
            wanted = self._store.children(f"{self._folder}/pool")
        except MissingError:
            return False
        now = time.monotonic()
        fresh = self._writable is None or now - self._weighed >= WEIGHTS_S
        bookies = self._candidates(fresh)
        if fresh:
            self._weighed = now
        writable = frozenset(bookie.bookie_id for bookie in bookies if bookie.writable)
        changed = writable != self._writable
        dealt = False
        known = [(match, name) for name in wanted if (match := _QUORUMS.fullmatch(name)) is not None]
        for match, name in known[:QUORUMS_MAX]:
            folder = f"{self._folder}/pool/{name}"
            names = self._store.children(folder)
            if changed:
                gone = set(self._discard(folder, names, writable))
                names = [one for one in names if one not in gone]
            size, write_quorum, ack_quorum = (int(part) for part in match.groups())
            try:
                made = [dealer.deal(size, write_quorum, ack_quorum, bookies) for _ in range(short(len(names)))]
            except NotEnoughBookiesError:
                continue
            for at in range(0, len(made), BATCH):
                self._store.transact(
                    [
                        Operation("create", f"{folder}/{os.urandom(8).hex()}", ensemble_value(ensemble))
                        for ensemble in made[at : at + BATCH]
                    ]
                )
            dealt |= bool(made)
        self._writable = writable
        return dealt

    def _discard(self, folder: str, names: Sequence[str], writable: Collection[str]) -> list[str]:
        """Ensembles with a bookie that left go; their names."""
        found = {name: self._store.get(f"{folder}/{name}") for name in names}
        gone = stale(
            {name: parsed_ensemble(value.data) for name, value in found.items() if value is not None}, writable
        )
        for name in gone:
            try:
                self._store.delete(f"{folder}/{name}")
            except MissingError:  # noqa: PERF203 - it was claimed
                pass
        return gone

    # ---- the thread ----

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="walkeeper-allocator", daemon=True)
                self._thread.start()

    def _resign(self) -> None:
        """Another client may deal."""
        try:
            key = f"{self._folder}/lease"
            found = self._store.get(key, linearizable=True)
            if found is not None and self._lease.step(found.data, self._store.session) in ("deal", "drop"):
                self._store.delete(key, found.version)
        except MetadataError as error:
            log.debug("the lease stays until the session ends: %s", error)

    def _run(self) -> None:
        pause = LOOK_S[0]
        while not self._stopping:
            try:
                busy = self.turn()
            except ClosedError:
                return
            except (MetadataError, Error) as error:
                log.debug("no ensembles were dealt: %s", error)
                busy = False
            except Exception:  # a policy, and what says the racks, may be anybody's
                log.exception("this client deals no ensembles any more")
                self._resign()
                return
            pause = LOOK_S[0] if busy else min(2 * pause, LOOK_S[1])
            self._wake.wait(pause)

    def stop(self) -> None:
        """It deals no more. The lease goes with the store's session."""
        self._stopping = True
        self._wake.set()

    def join(self) -> None:
        """Behind closing the store: the thread has ended, or a second is over."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)

    def _pool(self, quorums: Quorums) -> str:
        return f"{self._folder}/pool/{'-'.join(map(str, quorums))}"
