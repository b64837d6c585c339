"""Changes of logs through a gateway."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark_walkeeper._changes import Changes
from walkeeper.errors import CursorNotFoundError, Error, FencedError, LogNotFoundError
from walkeeper.gateway import GatewayClient
from walkeeper.idempotent import Staged, staging_log

if TYPE_CHECKING:
    import pyarrow

    from pyspark_walkeeper._options import Place

__all__ = ["GatewayChanges"]

REQUEST_BYTES = 2 * 1024 * 1024
"""Of records in one request."""
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
        count = 0
        for batch in batches:
            for piece in _pieces(batch):
                _append_at(client, name, piece, count)
                count += len(piece)
        return Staged(name, 0, count)

    def append_once(
        self, log: str, app_id: str, version: int, payloads: Sequence[bytes], staged: Sequence[Staged]
    ) -> bool:
        client = self._client()
        client.open_log(log)
        return self._in_turn(log, lambda: client.append_once(log, app_id, version, payloads, staged))

    def append(self, log: str, payloads: pyarrow.Array) -> None:
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


def _append_at(client: GatewayClient, log: str, payloads: pyarrow.Array, sequence_id: int) -> None:
    """Appends to a log that nobody else appends to."""
    for _ in range(TRIES - 1):
        if _certain(lambda: client.append_many(log, payloads, expected=sequence_id)):
            return
        if client.log_info(log).next.sequence_id == sequence_id + len(payloads):
            return  # it had landed
    client.append_many(log, payloads, expected=sequence_id)


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
