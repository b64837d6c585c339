"""What a bookie knows of what it depends on: each question has an answer, or nobody knows, and since when.

A thread that asks (the disks, the metadata store) may wait for an answer, or be kept from asking. Neither says that
something is wrong, and the one is not the other: both are told as what they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

__all__ = ["Check", "Outcome", "Question", "not_ready"]


class Outcome(Enum):
    OK = "ok"
    WRONG = "not ok"
    UNKNOWN = "not known"


class Check(NamedTuple):
    """What is known of one thing that the bookie needs."""

    outcome: Outcome
    text: str = ""
    """For people: what is wrong, or what is not known and since when. Empty where it is ok."""


def not_ready(checks: list[Check]) -> str:
    """Why clients should not be sent here; empty: every check is ok."""
    return "; ".join(check.text for check in checks if check.outcome is not Outcome.OK)


class Question:
    """When something was asked and when it answered. One thread asks; any thread looks.

    `what` is what is not known, and `whom` who is asked, for people.
    """

    def __init__(self, what: str, whom: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._what, self._whom, self._monotonic = what, whom, monotonic
        self._answered = monotonic()
        self._asked: float | None = None

    def ask(self) -> None:
        """It is being asked; repeated until it answers, the first time counts."""
        if self._asked is None:
            self._asked = self._monotonic()

    def answered(self) -> None:
        self._answered, self._asked = self._monotonic(), None

    def silence(self, silent_max: float, unasked_max: float) -> Check:
        """Unknown where it has not answered for more than `silent_max` seconds, or was not asked for more than
        `unasked_max` seconds."""
        now, asked = self._monotonic(), self._asked
        if asked is not None:
            silent = now - asked
            if silent > silent_max:
                return Check(
                    Outcome.UNKNOWN, f"{self._what} is not known: {self._whom} has not answered for {silent:.0f} s"
                )
            return Check(Outcome.OK)
        unasked = now - self._answered
        if unasked > unasked_max:
            return Check(Outcome.UNKNOWN, f"{self._what} is not known: {self._whom} was not asked for {unasked:.0f} s")
        return Check(Outcome.OK)
