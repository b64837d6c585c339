"""Settling: a write whose outcome nobody knew is tried and looked for again until somebody does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from walkeeper.metadata._store import (
    ConflictError,
    ExistsError,
    MissingError,
    UnavailableError,
    UnknownOutcomeError,
)

TRIES_MAX = 10

Result = TypeVar("Result")


@dataclass(frozen=True)
class Versioned(Generic[Result]):
    """What a key meant when it was read, and the version to give to the write that changes it."""

    value: Result
    version: int


def settle(write: Callable[[], Result], find: Callable[[], Result | None]) -> Result:
    """What `write` returned, or `find`, which reads the key again and tells by it that the write was done.

    The write must be one that does no harm where it is made twice: a create, or one that names the version. Refused
    means refused, and that `find` found nothing. UnavailableError: nothing was written. UnknownOutcomeError: it was
    tried TRIES_MAX times.
    """
    unsure: UnknownOutcomeError | None = None
    last: UnavailableError | None = None
    for _ in range(TRIES_MAX):
        try:
            try:
                return write()
            except (ConflictError, ExistsError, MissingError):
                found = find()
                if found is None:
                    raise
                return found
        except UnknownOutcomeError as error:  # noqa: PERF203 - that is what it is for
            unsure = error
        except UnavailableError as error:
            if unsure is None:
                raise
            last = error
    assert unsure is not None
    raise unsure from last


def settle_delete(delete: Callable[[], None]) -> None:
    """The key is gone, whoever deleted it. Raises what `settle` does, and ConflictError, NotEmptyError."""

    def gone() -> bool:
        try:
            delete()
        except MissingError:
            pass
        return True

    settle(gone, lambda: None)
