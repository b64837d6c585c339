"""What ends a client at any step of its work: a metadata store whose calls are counted, of which one is the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import walkeeper


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


@contextmanager
def victim(uri: str, name: str, kill_at: int) -> Iterator[Any]:
    """The namespace in a process of its own, so to say, which ends at that step."""
    steps = Steps()
    ns: Any = walkeeper.open(uri, namespace=name)
    _ = ns._client._cluster.ledgers
    ns._store._store = steps.wrap(ns._store._store)
    ns._client._cluster.ledgers._store = steps.wrap(ns._client._cluster.ledgers._store)
    ns._client._cluster.ledgers._ids._store = ns._client._cluster.ledgers._store._store
    steps.kill_at = kill_at
    ns.steps = steps
    try:
        yield ns
    finally:
        ns._at_exit.detach()
        ns._client.close()


def ledgers_of(uri: str, log_id: str) -> set[int]:
    """The ledgers that were made for a log."""
    found = set()
    with walkeeper.LedgerClient(uri) as client:
        for ledger_id in client.list():
            with suppress(walkeeper.LedgerNotFoundError):
                if client.metadata(ledger_id).custom_metadata.get("walkeeper.log") == log_id.encode():
                    found.add(ledger_id)
    return found


def each_step(act: Callable[[int], bool]) -> int:
    """Acts with a kill at each step, until the action ends before it; how many there were."""
    for kill_at in range(400):
        if not act(kill_at):
            return kill_at
    raise AssertionError("the action never ends")
