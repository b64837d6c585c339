"""A namespace whose process dies at one step: the call before or behind which it raises Killed, for good."""

from __future__ import annotations

from typing import Any

CHANGES = {"append", "append_many", "flush", "truncate", "delete_log", "writer", "log"}


class Killed(BaseException):
    """The process is gone: nothing that it has can be used any more."""


class Steps:
    """Counts the calls that change something; the one with this number, or all behind it, raise."""

    def __init__(self, last: int, *, done: bool) -> None:
        self.last = last
        self.done = done
        """Whether the last one takes place."""
        self.count = 0
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def of(self, thing: Any) -> Any:
        return _Watched(thing, self)

    def take(self, call: Any, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        self.calls.append((call.__name__, options))
        if self.count > self.last or (self.count == self.last and not self.done):
            raise Killed
        found = call(*arguments, **options)
        if self.count == self.last:
            raise Killed
        return found


class _Watched:
    def __init__(self, thing: Any, steps: Steps) -> None:
        self._thing = thing
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if name not in CHANGES:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            made = self._steps.take(found, *arguments, **options)
            return _Watched(made, self._steps) if name in ("writer", "log") else made

        return call
