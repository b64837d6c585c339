"""Ratios and what may be concluded from them. Pure: numbers in, numbers out."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

PAIRS_MIN = 7
"""Fewer pairs than this and a row says so: its interval means little."""

RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A median and its bootstrap 95 % interval."""

    median: float
    low: float
    high: float


def bootstrap(values: Sequence[float], seed: int = 1) -> Interval:
    """
    The median of `values` with its percentile-bootstrap 95 % interval. The same values always give the same interval.
    """
    if not values:
        raise ValueError("no values to take the median of")
    if len(values) == 1:
        return Interval(values[0], values[0], values[0])
    source = random.Random(seed)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return Interval(statistics.median(values), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1])


@dataclass(frozen=True)
class Goal:
    """What a row must reach and what it aims at; `lower` says which side of them is good."""

    must: float
    aim: float
    lower: bool

    def reaches(self, value: float, bound: float) -> bool:
        return value <= bound if self.lower else value >= bound

    def verdict(self, interval: Interval) -> str:
        """By the median; where the interval holds the deciding bound, the verdict says that it is not certain."""
        if self.reaches(interval.median, self.aim):
            word, bounds = "aim met", [self.aim]
        elif self.reaches(interval.median, self.must):
            word, bounds = "must met", [self.must, self.aim]
        else:
            word, bounds = "NOT MET", [self.must]
        certain = all(
            self.reaches(interval.low, bound)
            == self.reaches(interval.high, bound)
            == self.reaches(interval.median, bound)
            for bound in bounds
        )
        return word if certain else word + " (?)"

    def text(self, bound: float) -> str:
        return f"{'<=' if self.lower else '>='} {bound:g}"


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the least-squares line through (log x, log y): y grows as x to that power."""
    if len(points) < 2:
        raise ValueError("a curve needs two points")
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which the share `q` of the sorted copy lies."""
    ordered = sorted(values)
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)]
