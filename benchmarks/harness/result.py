"""A row's answer: what was measured against what, in which rounds, and whether it is good enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.ratio import PAIRS_MIN, Goal, Interval, bootstrap


@dataclass
class Round:
    """One turn through all cells of a question, between two canaries."""

    cells: dict[str, dict[str, Any]]
    canary_before_ns: float
    canary_after_ns: float
    canary_best_ns: float
    """The lowest canary of the run so far: a neighbour who stays for a while does not move the canary, but lifts it."""
    others_cpu_share: float
    """CPU of strangers during the round, in cores."""
    timed: bool = True
    """False: what is measured is counted (bytes), and is the same however slow the disk was."""

    MOVED_LIMIT = 0.10
    LIFTED_LIMIT = 0.50
    OTHERS_LIMIT = 0.05

    @property
    def clean(self) -> bool:
        if not self.timed:
            return True
        moved = abs(self.canary_after_ns / self.canary_before_ns - 1)
        lifted = max(self.canary_before_ns, self.canary_after_ns) / self.canary_best_ns - 1
        return moved <= self.MOVED_LIMIT and lifted <= self.LIFTED_LIMIT and self.others_cpu_share <= self.OTHERS_LIMIT


@dataclass
class Answer:
    """One line of the table."""

    row: int
    name: str
    """What is compared, in words: 'blocking append p50, C / fio 4 KiB dsync p50'."""
    unit: str
    goal: Goal | None
    """None: printed for comparison, nothing is promised."""
    ours: float
    reference: float | None
    """The floor's or the peer's number in the same unit; None for a bound without a reference."""
    reference_name: str
    values: list[float]
    """The ratio (or, without a reference, the value) of each round that counts."""
    clean: int
    """How many of them were clean."""
    state: str = ""
    """'recycled', 'growing' or empty where the question does not arise."""
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    clean_values: list[float] | None = None
    """Those of `values` that are of clean rounds; None where nobody says which they are."""

    @property
    def interval(self) -> Interval:
        return bootstrap(self.values)

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return "-"
        word = self.goal.verdict(self.interval)
        if len(self.values) < PAIRS_MIN:
            word += f", n={len(self.values)}"
        if 2 * self.clean < len(self.values):
            return f"no verdict: {self.clean} of {len(self.values)} rounds clean ({word})"
        if self.clean < len(self.values):
            word += f", {self.clean} clean"
        return word

    def as_dict(self) -> dict[str, Any]:
        interval = self.interval
        return {
            "row": self.row,
            "name": self.name,
            "state": self.state,
            "unit": self.unit,
            "ours": self.ours,
            "reference": self.reference,
            "reference_name": self.reference_name,
            "ratio": interval.median,
            "interval": [interval.low, interval.high],
            "values": self.values,
            "clean": self.clean,
            "clean_values": self.values if self.clean == len(self.values) else self.clean_values,
            "must": self.goal.must if self.goal else None,
            "aim": self.goal.aim if self.goal else None,
            "lower_is_better": self.goal.lower if self.goal else None,
            "verdict": self.verdict,
            "note": self.note,
            "details": self.details,
        }


def at_most(must: float, aim: float) -> Goal:
    return Goal(must, aim, lower=True)


def at_least(must: float, aim: float) -> Goal:
    return Goal(must, aim, lower=False)


def chosen(rounds: Sequence[Round]) -> list[Round]:
    """
    The rounds that count: the clean ones where there are enough of them, otherwise all (and the row says
    'disturbed').
    """
    clean = [each for each in rounds if each.clean]
    return clean if len(clean) >= min(PAIRS_MIN, len(rounds)) else list(rounds)
