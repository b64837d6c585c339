"""BookieChoice: chooses the bookies of ledgers, by a placement policy and what the client knows of the cluster.

Where the policy's ensembles are dealt by one client for all, it claims one of these first, and looks whether all of its
bookies are still up.

It asks the metadata store which bookies are writable, and where the chosen ones answer. Free space is what a bookie
published with its registration. For a policy that wants it, that is read once when a bookie is first seen, and again
whenever the bookie is chosen, where its registration is read anyway: no creation of a ledger asks for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from walkeeper.errors import Error, InvalidError, NotEnoughBookiesError, shown
from walkeeper.ledgers._ensemble_pool import EnsemblePool
from walkeeper.ledgers.placement import DEFAULT_RACK, Candidate, PlacementPolicy
from walkeeper.ledgers.placement._centralised import fits
from walkeeper.metadata import Bookies, InvalidBookieIdError, bookie_address

__all__ = ["BookieChoice", "Racks", "racks_of"]

Racks: TypeAlias = Mapping[str, str] | Callable[[str], str | None]
"""The rack of each bookie, by its id; a bookie that is missing, or None, is in the default rack."""

QUARANTINE_SECONDS = 60.0
"""A bookie that failed is not chosen again for so long, unless there is no other."""


def racks_of(racks: Racks | None) -> Callable[[str], str | None]:
    """InvalidError where it is neither a mapping nor callable."""
    if racks is None:
        return dict[str, str]().get
    if isinstance(racks, Mapping):
        return dict(racks).get
    if callable(racks):
        return racks
    raise InvalidError(f"racks={shown(racks)}: a mapping of bookie ids to racks is wanted, or a callable")


class BookieChoice:
    """One for each client."""

    def __init__(self, bookies: Bookies, policy: PlacementPolicy, racks: Callable[[str], str | None]) -> None:
        self._bookies = bookies
        self._policy = policy
        self._racks = racks
        self._lock = threading.Lock()
        self._weights: dict[str, int | None] = {}
        self._quarantine: dict[str, float] = {}
        self._pool: EnsemblePool | None = None

    def claim_from(self, pool: EnsemblePool) -> None:
        """New ensembles are claimed there first."""
        self._pool = pool

    def candidates(self, fresh: bool) -> list[Candidate]:
        """The writable bookies; `fresh`: their free space is read again."""
        if fresh:
            with self._lock:
                self._weights.clear()
        return self._candidates()

    def quarantine(self, bookie_ids: Iterable[str]) -> None:
        """They failed just now."""
        until = time.monotonic() + QUARANTINE_SECONDS
        with self._lock:
            self._quarantine.update(dict.fromkeys(bookie_ids, until))

    def new_ensemble(self, size: int, write_quorum: int, ack_quorum: int) -> tuple[str, ...]:
        """Bookies that are writable and say where they answer. NotEnoughBookiesError."""
        candidates = self._candidates()
        answers: dict[str, bool] = {}
        if self._pool is not None:
            for dealt in self._pool.claims((size, write_quorum, ack_quorum)):
                if fits(dealt, size, candidates) and self._all_answer(dealt, answers):
                    return dealt
        while True:
            silent = {bookie_id for bookie_id, known in answers.items() if not known}
            chosen = tuple(self._policy.new_ensemble(size, write_quorum, ack_quorum, candidates, silent))
            _check(chosen, candidates, silent)
            if len(chosen) != size:
                raise Error(f"the placement policy chose {len(chosen)} bookies for an ensemble of {size}")
            if self._all_answer(chosen, answers):
                return chosen

    def replacements(self, ensemble: Sequence[str], failed: Sequence[int], write_quorum: int) -> dict[int, str]:
        """Other bookies for the slots that failed, for as many as there are; empty where there is none."""
        candidates = self._candidates(ensemble)
        answers: dict[str, bool] = {}
        while True:
            silent = {bookie_id for bookie_id, known in answers.items() if not known}
            try:
                found = self._policy.replacements(ensemble, failed, write_quorum, candidates, silent)
            except NotEnoughBookiesError:
                return {}
            _check(list(found.values()), candidates, {*silent, *ensemble})
            if not set(found) <= set(failed):
                raise Error("the placement policy replaced a bookie that did not fail")
            if self._all_answer(found.values(), answers):
                return found

    def _candidates(self, others: Iterable[str] = ()) -> list[Candidate]:
        """The writable bookies, and `others`, of which only the rack is wanted."""
        writable = self._bookies.writable_bookies()
        if self._policy.needs_weights:
            with self._lock:
                for bookie_id in set(self._weights).difference(writable):  # where it comes back it is read again
                    del self._weights[bookie_id]
            for bookie_id in writable:
                if bookie_id not in self._weights:
                    self._look(bookie_id)
        now = time.monotonic()
        with self._lock:
            weights = dict(self._weights)
            failed = {bookie_id for bookie_id, until in self._quarantine.items() if until > now}
        return [
            Candidate(
                bookie_id, self._rack(bookie_id), weights.get(bookie_id), bookie_id in writable, bookie_id in failed
            )
            for bookie_id in dict.fromkeys((*writable, *others))
        ]

    def _rack(self, bookie_id: str) -> str:
        rack = self._racks(bookie_id)
        if rack is not None and not isinstance(rack, str):
            raise InvalidError(f"the rack of {bookie_id} is {shown(rack)}: text is wanted", outcome="not_written")
        return rack or DEFAULT_RACK

    def _all_answer(self, bookie_ids: Iterable[str], answers: dict[str, bool]) -> bool:
        """Whether all of them say where they answer; `answers` learns of each."""
        for bookie_id in bookie_ids:
            if bookie_id not in answers:
                answers[bookie_id] = self._look(bookie_id)
        return all(answers[bookie_id] for bookie_id in bookie_ids)

    def _look(self, bookie_id: str) -> bool:
        """Learns how much space the bookie has; says whether anybody knows where it answers."""
        try:
            info = self._bookies.service_info(bookie_id)
            answers = (info is not None and info.bookie is not None) or bookie_address(bookie_id) is not None
        except InvalidBookieIdError:
            info, answers = None, False
        with self._lock:
            self._weights[bookie_id] = None if info is None else info.free_bytes
        return answers


def _check(chosen: Sequence[str], candidates: Iterable[Candidate], exclude: Collection[str]) -> None:
    """A policy may be anybody's. Error where its choice cannot be."""
    writable = {bookie.bookie_id for bookie in candidates if bookie.writable}
    if len(set(chosen)) != len(chosen) or not set(chosen) <= writable - set(exclude):
        names = ", ".join(map(str, chosen))
        raise Error(f"the placement policy chose {names}: bookies have to be different, writable and not excluded")
