"""Watches: keys that somebody waits for, on one stream of etcd, which is opened again where it ends.

A stream goes on behind the last revision that was heard of, so that no event is missed between two. Now and then each
key is looked at as well: a stream that is silent for a wrong reason is noticed so late.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from walkeeper.metadata._etcd_client import grpc, range_of, read, transaction, unwatch, watch_of
from walkeeper.metadata._etcd_connection import Connection
from walkeeper.metadata._etcd_names import below, name_of
from walkeeper.metadata._hints import Hint, Hints
from walkeeper.metadata._log import log
from walkeeper.metadata._store import ClosedError, MetadataError

POLL_SECONDS = 30.0  # a backing only
RETRY_SECONDS = 0.1  # between two streams
NEEDS_LEADER = (("hasleader", "true"),)  # a server that is cut off from the others ends the stream

State = tuple[int, ...]


class _KeyWatch:
    """One key, and what was heard of it."""

    def __init__(self, watches: Watches, key: str, callback: Callable[[], None], hints: Hints) -> None:
        self.key = key
        self.name = name_of(key)
        self.below, self.below_end = below(key)
        self.hint = hints.hint(callback, lambda hint: watches.forget(self))
        own = [_Range(self, self.name, b"")] if key != "/" else []
        self.ranges = [*own, _Range(self, self.below, self.below_end)]
        self.state: State | None = None
        self.closed = False

    def known_until(self, revision: int) -> None:
        """Nothing before it needs to be told."""
        for each in self.ranges:
            each.next_revision = max(each.next_revision, revision + 1)

    def is_changed_by(self, event: Any) -> bool:
        """A child's value is no change of its parent, nor is what happens deeper."""
        name = bytes(event.kv.key)
        if name == self.name:
            return True
        child = name[len(self.below) :]
        came_or_went = event.type != 0 or event.kv.create_revision == event.kv.mod_revision
        return came_or_went and b"/" not in child and b"\t" not in child

    def look(self, connection: Connection, timeout: float | None) -> int:
        """How the key is: `state` is another one where it changed since the last look. The revision of the look."""
        question = transaction(
            (),
            [
                read(range_of(self.name, keys_only=True)),
                read(range_of(self.below, self.below_end, limit=1, keys_only=True, newest=True)),
            ],
        )
        answer = connection.read(lambda stubs, seconds: stubs.kv.Txn(question, timeout=seconds), self.key, timeout)
        own, children = (each.response_range for each in answer.responses)
        self.state = (
            *(number for kv in own.kvs for number in (kv.create_revision, kv.mod_revision)),
            int(children.count),
            *(kv.create_revision for kv in children.kvs),
        )
        return int(answer.header.revision)


class _Range:
    """What etcd is asked to watch: a key, or all below it. `next_revision`: what is before that is known."""

    def __init__(self, watch: _KeyWatch, start: bytes, end: bytes) -> None:
        self.watch = watch
        self.start = start
        self.end = end
        self.next_revision = 0


class _Stream:
    """One stream: what was asked on it, and which range an answer is of."""

    def __init__(self) -> None:
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.asked: deque[_Range] = deque()  # not answered yet; etcd answers in order
        self.ranges: dict[int, _Range] = {}

    def add(self, asked: _Range) -> None:
        self.asked.append(asked)
        self.requests.put(watch_of(asked.start, asked.end, asked.next_revision))

    def remove(self, watch: _KeyWatch) -> None:
        for number in [number for number, of in self.ranges.items() if of.watch is watch]:
            self.requests.put(unwatch(number))

    def close(self) -> None:
        self.requests.put(None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.requests.get, None)


class Watches:
    """The watches of one store, and the threads that listen and look; they start with the first."""

    def __init__(self, connection: Connection, hints: Hints, poll_seconds: float = POLL_SECONDS) -> None:
        self._connection = connection
        self._hints = hints
        self._poll_seconds = poll_seconds
        self._lock = threading.RLock()
        self._watches: set[_KeyWatch] = set()
        self._stream: _Stream | None = None
        self._threads: list[threading.Thread] = []
        self.streams = 0
        """How many there have been."""

    def add(self, key: str, callback: Callable[[], None]) -> Hint:
        """Every change after this returns is told of. UnavailableError."""
        watch = _KeyWatch(self, key, callback, self._hints)
        watch.known_until(watch.look(self._connection, None))
        with self._lock:
            self._connection.check_open()
            self._watches.add(watch)
            if self._stream is not None:
                for each in watch.ranges:
                    self._stream.add(each)
            if not self._threads:
                for run in (self._listen, self._poll):
                    self._threads.append(threading.Thread(target=run, name="walkeeper-etcd-watches", daemon=True))
                    self._threads[-1].start()
        return watch.hint

    def forget(self, watch: _KeyWatch) -> None:
        with self._lock:
            watch.closed = True
            self._watches.discard(watch)
            if self._stream is not None:
                self._stream.remove(watch)

    def close(self) -> None:
        """Behind the connection's end, by which the threads end."""
        with self._lock:
            self._watches.clear()
            if self._stream is not None:
                self._stream.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(1.0)

    # ---- the thread that listens ----

    def _listen(self) -> None:
        try:
            while True:
                stubs, judge = self._connection.stubs()
                stream = _Stream()
                with self._lock:
                    self._stream = stream
                    self.streams += 1
                    for watch in self._watches:
                        for each in watch.ranges:
                            stream.add(each)
                try:
                    for answer in stubs.watch.Watch(iter(stream), metadata=NEEDS_LEADER):
                        self._heard(stream, answer)
                except grpc.RpcError as error:
                    judge(error)
                except ValueError:
                    pass  # the channel was closed before the call began
                finally:
                    stream.close()
                    with self._lock:
                        self._stream = None
                self._connection.closing.wait(RETRY_SECONDS)
        except ClosedError:
            pass

    def _heard(self, stream: _Stream, answer: Any) -> None:
        with self._lock:
            if answer.created:
                asked = stream.asked.popleft()
                stream.ranges[answer.watch_id] = asked
                if asked.watch.closed:
                    stream.requests.put(unwatch(answer.watch_id))
            if answer.canceled:
                self._canceled(stream, answer)
                return
            heard = stream.ranges.get(answer.watch_id)
            if heard is None or not answer.events:
                return
            heard.next_revision = max(heard.next_revision, answer.events[-1].kv.mod_revision + 1)
        if any(heard.watch.is_changed_by(event) for event in answer.events):
            heard.watch.hint.post()

    def _canceled(self, stream: _Stream, answer: Any) -> None:
        """By us, or because what it asked for is forgotten (compacted), or because it is not allowed."""
        asked = stream.ranges.pop(answer.watch_id, None)
        if asked is None or asked.watch.closed:
            return
        if answer.compact_revision:
            asked.next_revision = max(asked.next_revision, answer.compact_revision)
            stream.add(asked)
            asked.watch.hint.post()
        else:
            log.warning("%s is not watched, only looked at: %s", asked.watch.key, answer.cancel_reason)

    # ---- the thread that looks ----

    def _poll(self) -> None:
        while not self._connection.closing.wait(self._poll_seconds):
            with self._lock:
                watches = list(self._watches)
            try:
                for watch in watches:
                    before = watch.state
                    watch.known_until(watch.look(self._connection, 0))
                    if watch.state != before:
                        watch.hint.post()
            except ClosedError:
                return
            except MetadataError:
                pass  # no connection, or not now: the next time
