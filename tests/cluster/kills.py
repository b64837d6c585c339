"""What ends a client at any step of its work: a metadata store whose calls are counted, of which one is the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """The process ended here."""


class Steps:
    """Wraps a metadata store. The process ends before, or just after, the call with a number; reads are no steps."""

    def __init__(self) -> None:
        self.calls = 0
        self.kill_at: int | None = None
        self.dead = False

    def wrap(self, store: Any) -> Any:
        return _Counted(store, self)

    def step(self, call: Callable[[], Any]) -> Any:
        """Even numbers: the call is not made. Odd numbers: it is, and nobody hears of it."""
        if self.dead:
            raise Killed
        before, after = self.calls, self.calls + 1
        self.calls += 2
        if self.kill_at == before:
            self.dead = True
            raise Killed
        result = call()
        if self.kill_at == after:
            self.dead = True
            raise Killed
        return result


class _Counted:
    WRITES = ("create", "put", "delete", "transact")

    def __init__(self, store: Any, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in self.WRITES:
            return found
        return lambda *arguments, **named: self._steps.step(lambda: found(*arguments, **named))
