"""Watches: keys that somebody waits for, looked at again after each event, after each reconnect, and now and then.

ZooKeeper's watches fire once and die with the connection. So an event is only a reason to look: a look sets the watches
anew and reads when the key and its children last changed. What changed between two looks is seen by the difference.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kazoo.protocol.states import EventType

from walkeeper.metadata._hints import Hint, Hints
from walkeeper.metadata._log import log
from walkeeper.metadata._store import ClosedError, MetadataError, MissingError, UnavailableError
from walkeeper.metadata._zookeeper_connection import Connection

POLL_SECONDS = 30.0  # a backing only: an event that was lost is noticed so late
RETRY_SECONDS = 0.1  # between two looks while there is no connection


State = tuple[int, int, int] | None  # the transactions that created, wrote, and changed the children; None: not there


def _state(stat: Any) -> State:
    return None if stat is None else (stat.czxid, stat.mzxid, stat.pzxid)


class _KeyWatch:
    """One key, and what it was like at the last look."""

    def __init__(self, watches: Watches, key: str, callback: Callable[[], None], hints: Hints) -> None:
        self.key = key
        self.hint = hints.hint(callback, lambda hint: watches.forget(self))
        self._watches = watches
        self._lock = threading.Lock()  # one look at a time
        self._state: State = None
        self._known = False

    def look(self, connection: Connection, timeout: float | None, *, changed: bool) -> None:
        """Sets the watches, then has the callback called if `changed`, or if the key is not as it was."""
        with self._lock:
            while True:
                # In this order: a child that comes between the two is in what the second one reads.
                children = self._children(connection, timeout)
                (stat,) = connection.read(
                    lambda client: [client.exists_async(self.key, watch=self._watches.event)], self.key, timeout
                )
                if children or stat is None:
                    break  # else the key came meanwhile, and nothing watches its children yet
            changed = changed or (self._known and _state(stat) != self._state)
            self._state, self._known = _state(stat), True
        if changed:
            self.hint.post()

    def poll(self, connection: Connection) -> bool:
        """Whether the key is not as it was."""
        (stat,) = connection.read(lambda client: [client.exists_async(self.key)], self.key, 0)
        return _state(stat) != self._state

    def _children(self, connection: Connection, timeout: float | None) -> bool:
        try:
            connection.read(
                lambda client: [client.get_children_async(self.key, watch=self._watches.event)], self.key, timeout
            )
        except MissingError:
            return False
        return True


class Watches:
    """The watches of one store, and the thread that looks; it starts with the first."""

    def __init__(self, connection: Connection, hints: Hints, poll_seconds: float = POLL_SECONDS) -> None:
        self._connection = connection
        self._hints = hints
        self._poll_seconds = poll_seconds
        self._changed = threading.Condition()
        self._watches: set[_KeyWatch] = set()
        self._waiting: dict[_KeyWatch, bool] = {}  # to look at, and whether something is known to have changed
        self._thread: threading.Thread | None = None
        self._closed = False
        self._pause = threading.Event()

    def add(self, key: str, callback: Callable[[], None]) -> Hint:
        """Every change after this returns is told of. UnavailableError."""
        watch = _KeyWatch(self, key, callback, self._hints)
        with self._changed:
            self._watches.add(watch)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="walkeeper-zookeeper-watches", daemon=True)
                self._thread.start()
        try:
            watch.look(self._connection, None, changed=False)
        except BaseException:
            watch.hint.close()
            raise
        return watch.hint

    def event(self, event: Any) -> None:
        """Called by kazoo, whose thread must not wait. That a connection was lost is told to us otherwise.

        One function for all keys: kazoo keeps one for each key until it is called, also when nobody watches any more.
        """
        if event.type != EventType.NONE:
            with self._changed:
                for watch in self._watches:
                    if watch.key == event.path:
                        self._waiting[watch] = True
                self._changed.notify()

    def forget(self, watch: _KeyWatch) -> None:
        with self._changed:
            self._watches.discard(watch)
            self._waiting.pop(watch, None)

    def reconnected(self) -> None:
        """The server's watches went with the connection: every key is looked at."""
        with self._changed:
            self._waiting = {watch: self._waiting.get(watch, False) for watch in self._watches}
            self._changed.notify()

    def close(self) -> None:
        self._pause.set()
        with self._changed:
            self._closed = True
            self._watches.clear()
            self._waiting.clear()
            self._changed.notify()

    def _run(self) -> None:
        poll_at = time.monotonic() + self._poll_seconds
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting, max(0.0, poll_at - time.monotonic()))
                if self._closed:
                    return
                waiting, self._waiting = self._waiting, {}
                watches = list(self._watches)
            try:
                for watch, changed in waiting.items():
                    self._look(watch, changed)
                if time.monotonic() >= poll_at:
                    poll_at = time.monotonic() + self._poll_seconds
                    for watch in watches:
                        self._poll(watch)
            except ClosedError:
                return

    def _look(self, watch: _KeyWatch, changed: bool) -> None:
        try:
            watch.look(self._connection, 0, changed=changed)
        except UnavailableError:
            self._look_again(watch, changed)
            self._pause.wait(RETRY_SECONDS)
        except ClosedError:
            raise
        except MetadataError:
            log.warning("%s cannot be watched", watch.key, exc_info=True)

    def _poll(self, watch: _KeyWatch) -> None:
        try:
            if watch.poll(self._connection):
                self._look_again(watch, True)
        except ClosedError:
            raise
        except MetadataError:
            pass  # no connection: all keys are looked at when there is one

    def _look_again(self, watch: _KeyWatch, changed: bool) -> None:
        with self._changed:
            if watch in self._watches:
                self._waiting[watch] = changed or self._waiting.get(watch, False)
