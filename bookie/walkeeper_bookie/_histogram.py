"""Histogram: how often values were how large, to a factor of two, as the native side counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Histogram"]


@dataclass(frozen=True)
class Histogram:
    """Bucket i counts values below 2**i, and not below 2**(i - 1)."""

    count: int
    sum: int
    buckets: tuple[int, ...]

    @classmethod
    def of(cls, native: Any) -> Histogram:
        """A copy of a wk_histogram."""
        return cls(int(native.count), int(native.sum), tuple(int(number) for number in native.buckets))
