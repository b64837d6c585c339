"""Changes of logs through a gateway."""

from __future__ import annotations

import atexit
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark_walkeeper._changes import Changes
from walkeeper.errors import CursorNotFoundError, Error, FencedError, LogNotFoundError, SequenceMismatchError
from walkeeper.gateway import GatewayClient
from walkeeper.idempotent import Staged, staging_log

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow
    from typing_extensions import Self

    from pyspark_walkeeper._options import Place
    from walkeeper.gateway._append_pipeline import AppendPipeline

__all__ = ["GatewayChanges"]

REQUEST_BYTES = 2 * 1024 * 1024
"""Of records in one request."""
UNANSWERED_MAX = 4
"""Requests of a task that are on their way."""
T = TypeVar("T")
TURNS = 8
"""Of an append that another writer takes the log from."""
TRIES = 5
"""Of an append whose outcome is not known."""
_lock = threading.Lock()
_clients: dict[Place, GatewayClient] = {}


class GatewayChanges(Changes):
    """By gateways, any of which may have a log."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def stage(self, log: str, app_id: str, version: int, batches: Iterable[pyarrow.Array]) -> Staged:
        client = self._client()
        name = staging_log(client.open_log(log).log_id, app_id, version)
        client.open_log(name)
        with _Line(client, name, partial(_append_at, client, name), conditional=True) as line:
            return Staged(name, 0, line.append_all(batches))

    def append_once(
        self, log: str, app_id: str, version: int, payloads: Sequence[bytes], staged: Sequence[Staged]
    ) -> bool:
        client = self._client()
        client.open_log(log)
        return self._in_turn(log, lambda: client.append_once(log, app_id, version, payloads, staged))

    def append_all(self, log: str, batches: Iterable[pyarrow.Array]) -> None:
        client = self._client()
        client.open_log(log)
        with _Line(client, log, lambda payloads, _: self.append(log, payloads), conditional=False) as line:
            line.append_all(batches)

    def append(self, log: str, payloads: pyarrow.Array) -> None:
        """One batch, of which nothing else is on its way meanwhile."""
        client = self._client()
        client.open_log(log)
        for piece in _pieces(payloads):
            for _ in range(TRIES - 1):
                if _certain(partial(self._in_turn, log, partial(client.append_many, log, piece))):
                    break
            else:
                client.append_many(log, piece)

    def discard(self, staged: Staged) -> None:
        with suppress(LogNotFoundError):
            self._client().delete_log(staged.log)

    def cursor(self, log: str, name: str) -> int | None:
        try:
            return int(self._client().cursor(log, name, create=False).sequence_id)
        except CursorNotFoundError:
            return None

    def set_cursor(self, log: str, name: str, sequence_id: int) -> None:
        client = self._client()
        client.cursor(log, name)
        client.advance_cursor(log, name, client.find(log, sequence_id=sequence_id))

    def _in_turn(self, log: str, append: Callable[[], T]) -> T:
        """Another gateway, or a program of its own, may have become the log's writer: it is taken back."""
        for attempt in range(TURNS):
            with suppress(FencedError):
                return append()
            self._client().take(log)
            time.sleep(random.uniform(0, 0.05 * 2**attempt))
        return append()

    def _client(self) -> GatewayClient:
        """One for this process."""
        with _lock:
            found = _clients.get(self._place)
            if found is None:
                made = GatewayClient(self._place.gateways, token=self._place.token)
                found = _clients[self._place] = made
            return found


def _close_all() -> None:
    with _lock:
        for client in _clients.values():
            client.close()
        _clients.clear()


atexit.register(_close_all)


class _Line:
    """Appends batches to a log, in order: the next ones are sent before the first one is durable.

    Where one fails, it and those that were sent behind it are appended by `again`, one by one: they may have landed, or
    not. What that raises is the answer.
    """

    def __init__(
        self, client: GatewayClient, log: str, again: Callable[[pyarrow.Array, int], object], *, conditional: bool
    ) -> None:
        """`again` takes a batch and the number of its first record. `conditional`: that is its sequence id, too."""
        self._client = client
        self._log = log
        self._again = again
        self._conditional = conditional
        self._sent: deque[pyarrow.Array] = deque()
        """What is not known to be durable."""
        self._durable_count = self._sent_count = 0
        self._pipeline: AppendPipeline | None = None

    def append_all(self, batches: Iterable[pyarrow.Array]) -> int:
        """How many records they have, all of which are durable."""
        for batch in batches:
            for piece in _pieces(batch):
                self._append(piece)
        self._wait(0)
        return self._durable_count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pipeline is not None:
            self._pipeline.close()

    def _append(self, payloads: pyarrow.Array) -> None:
        first = self._sent_count
        self._sent.append(payloads)
        self._sent_count += len(payloads)
        try:
            if self._pipeline is None:
                self._pipeline = self._client.append_pipeline(self._log)
            self._pipeline.send(payloads, expected=first if self._conditional else None)
        except Error:
            self._append_again()
        self._wait(UNANSWERED_MAX)

    def _wait(self, count_max: int) -> None:
        """Until no more than so many batches may be lost."""
        try:
            while self._pipeline is not None and len(self._sent) > count_max:
                self._pipeline.receive()
                self._is_durable(self._sent.popleft())
        except Error:
            self._append_again()

    def _append_again(self) -> None:
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.drain()
            pipeline.close()
        while self._sent:
            self._again(self._sent[0], self._durable_count)
            self._is_durable(self._sent.popleft())

    def _is_durable(self, payloads: pyarrow.Array) -> None:
        self._durable_count += len(payloads)


def _append_at(client: GatewayClient, log: str, payloads: pyarrow.Array, sequence_id: int) -> None:
    """Appends to a log that nobody else appends to. A beginning of the payloads may be there already."""
    for tries_left in reversed(range(TRIES)):
        landed = max(0, client.log_info(log).next.sequence_id - sequence_id)
        rest = payloads[landed:]
        if not len(rest):
            return
        try:
            client.append_many(log, rest, expected=sequence_id + landed)
            return
        except Error as error:
            late = isinstance(error, SequenceMismatchError)  # what was sent before has landed only now
            if not tries_left or not (late or error.outcome == "unknown"):
                raise


def _certain(append: Callable[[], object]) -> bool:
    """False: whether it was appended is not known. Raises what it raises where nothing was."""
    try:
        append()
    except Error as error:
        if error.outcome != "unknown":
            raise
        return False
    return True


def _pieces(payloads: pyarrow.Array) -> Iterator[pyarrow.Array]:
    """Slices of an array, in order, each for one request."""
    if len(payloads) > 1 and payloads.nbytes > REQUEST_BYTES:
        half = len(payloads) // 2
        yield from _pieces(payloads[:half])
        yield from _pieces(payloads[half:])
    elif len(payloads):
        yield payloads
