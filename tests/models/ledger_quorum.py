"""Quorums, a ledger's writer and its recovery, the obvious way: the model of quorum.c, ledger_writer.c and
ledger_recovery.c in native/core. Sets are sets; coverage is asked of every set of bookies that can confirm an entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations


@dataclass(frozen=True)
class Quorum:
    ensemble: int
    write: int
    ack: int

    @property
    def is_valid(self) -> bool:
        return 1 <= self.ack <= self.write <= self.ensemble <= 64

    def write_set(self, entry: int) -> list[int]:
        return [(entry + index) % self.ensemble for index in range(self.write)]

    def is_covered(self, known: set[int]) -> bool:
        """Whether any Qa bookies of a write set, which confirm an entry, have one that is known among them."""
        sets = (self.write_set(entry) for entry in range(self.ensemble))
        return all(known & set(confirming) for slots in sets for confirming in combinations(slots, self.ack))


@dataclass
class Writer:
    """Entries by their ids: who has stored them. Methods do as those of wk_ledger_writer."""

    quorum: Quorum
    capacity: int
    lac: int = -1
    failed: set[int] = field(default_factory=set)
    acks: dict[int, set[int]] = field(default_factory=dict)  # of entries behind `first`
    lengths: dict[int, int] = field(default_factory=dict)
    status: str = "WK_OK"
    patient: bool = False
    stuck: bool = False
    frozen: bool = False

    @property
    def last(self) -> int:
        return max(self.acks, default=self.lac)

    @property
    def has_room(self) -> bool:
        return self.last - self.lac < self.capacity

    def is_confirmed(self, entry: int) -> bool:
        return len(self.acks[entry]) >= self.quorum.ack

    def is_hopeless(self) -> bool:
        """Whether some entry behind the LAC cannot be confirmed any more."""
        return any(
            len(self.acks[entry] | (set(self.quorum.write_set(entry)) - self.failed)) < self.quorum.ack
            for entry in range(self.lac + 1, self.last + 1)
        )

    def look_for_failure(self) -> None:
        if self.is_hopeless():
            if self.patient:
                self.stuck = True
            else:
                self.fail("WK_UNAVAILABLE")

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> bool:
        self.frozen = False
        return self.status == "WK_OK" and self.advance()

    def replace(self, slots: set[int]) -> None:
        self.failed -= slots
        for entry in range(self.lac + 1, self.last + 1):
            self.acks[entry] -= slots
        self.stuck = self.stuck and self.is_hopeless()

    def push(self, length: int) -> None:
        self.lengths[self.last + 1] = length
        self.acks[self.last + 1] = set()
        self.look_for_failure()

    def ack(self, entry: int, slot: int) -> bool:
        if self.status != "WK_OK" or slot in self.failed or not self.lac < entry <= self.last:
            return False
        if slot not in self.quorum.write_set(entry):
            return False
        self.acks[entry].add(slot)
        return self.advance()

    def advance(self) -> bool:
        before = self.lac
        while not self.frozen and self.lac < self.last and self.is_confirmed(self.lac + 1):
            self.lac += 1
        return self.lac > before

    def slot_failed(self, slot: int) -> None:
        self.failed.add(slot)
        self.look_for_failure()

    def fail(self, status: str) -> None:
        if self.status == "WK_OK":
            self.status = status


KNOWN = {"entry", "absent"}


@dataclass
class Recovery:
    """What every bookie answered in this phase; what follows from it is derived anew after each answer."""

    quorum: Quorum
    floor: int  # the entry before the last segment
    phase: str = "FENCE"
    status: str = "WK_OK"
    next: int = 0
    answers: dict[int, set[str]] = field(default_factory=dict)  # by slot in FENCE, by index else
    lacs: list[int] = field(default_factory=list)

    def said(self, what: set[str]) -> set[int]:
        return {one for one, answers in self.answers.items() if answers & what}

    def go_to(self, phase: str, entry: int) -> bool:
        self.phase, self.next, self.answers = phase, entry, {}
        return True

    def fail(self, status: str) -> bool:
        self.phase, self.status = "FAILED", status
        return True

    def fenced(self, slot: int, answer: str, lac: int) -> bool:
        if self.phase != "FENCE":
            return False
        if answer == "unauthorized":
            return self.fail("WK_WRONG_KEY")
        self.answers.setdefault(slot, set()).add(answer)
        if answer == "entry":
            self.lacs.append(lac)
        if self.quorum.is_covered(self.said(KNOWN)):
            highest = max([self.floor, *self.lacs])
            return self.go_to("READ", 0) if highest < 0 else self.go_to("LENGTH", highest)
        if len(self.answers) == self.quorum.ensemble:
            return self.fail("WK_DAMAGED" if self.said({"damaged"}) else "WK_UNAVAILABLE")
        return False

    def read(self, entry: int, index: int, answer: str) -> bool:
        if self.phase not in ("LENGTH", "READ") or entry != self.next:
            return False
        if answer == "unauthorized":
            return self.fail("WK_WRONG_KEY")
        if answer == "entry":
            return self.go_to("READ", entry + 1)
        self.answers.setdefault(index, set()).add(answer)
        absent = self.said({"absent"})
        may_have_it = set(range(self.quorum.write)) - absent
        if self.phase == "READ" and len(may_have_it) < self.quorum.ack:
            return self.go_to("END", entry)
        if len(self.answers) < self.quorum.write:
            return False
        lost = len(absent) == self.quorum.write
        return self.fail("WK_DAMAGED" if lost or self.said({"damaged"}) else "WK_UNAVAILABLE")
