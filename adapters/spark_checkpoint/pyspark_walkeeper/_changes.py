"""Changes of logs by tasks and drivers: of a cluster's logs by this process, of a directory's through a gateway."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import walkeeper
from pyspark_walkeeper import _namespaces
from walkeeper.errors import CursorNotFoundError, FencedError, InvalidError, LogNotFoundError, UnsupportedError
from walkeeper.idempotent import IdempotentWriter, Staged, staging_log

if TYPE_CHECKING:
    import pyarrow

    from pyspark_walkeeper._options import Place

__all__ = ["Changes", "changes_of"]

TRIES = 8
"""Of an append that another query's takes the log from."""
_lock = threading.Lock()
_writers: dict[tuple[Place, int], IdempotentWriter] = {}
"""By the id of the log: another one may have its name later."""


class Changes(ABC):
    """What the source and the sink change. Methods raise walkeeper's errors."""

    @abstractmethod
    def stage(self, log: str, app_id: str, version: int, batches: Iterable[pyarrow.Array]) -> Staged:
        """Writes records beside the log, durably. One batch at least."""

    @abstractmethod
    def append_once(
        self, log: str, app_id: str, version: int, payloads: Sequence[bytes], staged: Sequence[Staged]
    ) -> bool:
        """See IdempotentWriter.append_once."""

    @abstractmethod
    def append_all(self, log: str, batches: Iterable[pyarrow.Array]) -> None:
        """Durable when it returns. Whoever does not know what became of it appends again."""

    @abstractmethod
    def discard(self, staged: Staged) -> None:
        """Deletes what a task staged of a batch that nobody has begun to append."""

    @abstractmethod
    def cursor(self, log: str, name: str) -> int | None:
        """The sequence id where the cursor stands; None: there is none."""

    @abstractmethod
    def set_cursor(self, log: str, name: str, sequence_id: int) -> None:
        """Makes it, or moves it on. A process that is killed meanwhile may leave it at the log's first record."""


def changes_of(place: Place) -> Changes:
    """InvalidError where the logs are in a directory and no gateway is known: one process alone writes a directory."""
    if place.gateways:
        from pyspark_walkeeper._gateway_changes import GatewayChanges

        return GatewayChanges(place)
    if place.root is not None and walkeeper.is_cluster(place.root):
        return ClusterChanges(place)
    raise InvalidError(
        f"{place.root} is a directory, which one process writes: set walkeeper.gateways to the gateway of that process "
        "(walkeeper_spark_checkpoint.configure starts one, and sets it)"
    )


class ClusterChanges(Changes):
    """By a client of the cluster in this process."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def stage(self, log: str, app_id: str, version: int, batches: Iterable[pyarrow.Array]) -> Staged:
        namespace = self._namespace()
        made = namespace.log(staging_log(namespace.log(log).info().log_id, app_id, version))
        count = 0
        with made.writer(durability="deferred") as writer:
            for batch in batches:
                if len(batch):
                    writer.append_many(batch)
                    count += len(batch)
        return Staged(made.name, 0, count)

    def append_once(
        self, log: str, app_id: str, version: int, payloads: Sequence[bytes], staged: Sequence[Staged]
    ) -> bool:
        for attempt in range(TRIES):
            with suppress(FencedError):  # another query appends to the same log: they take turns
                return self._writer(log).append_once(app_id, version, payloads, staged)
            time.sleep(random.uniform(0, 0.05 * 2**attempt))
        return self._writer(log).append_once(app_id, version, payloads, staged)

    def append_all(self, log: str, batches: Iterable[pyarrow.Array]) -> None:
        raise UnsupportedError(
            "a log has one writer, so tasks append through a gateway: set walkeeper.gateways, or delivery=exactly-once"
        )

    def discard(self, staged: Staged) -> None:
        with suppress(LogNotFoundError):
            self._namespace().delete_log(staged.log)

    def cursor(self, log: str, name: str) -> int | None:
        try:
            return int(self._namespace().log(log, create=False).cursor(name, create=False).position.sequence_id)
        except CursorNotFoundError:
            return None

    def set_cursor(self, log: str, name: str, sequence_id: int) -> None:
        opened = self._namespace().log(log, create=False)
        opened.cursor(name).advance(opened.find(sequence_id=sequence_id))

    def _namespace(self) -> walkeeper.Namespace:
        return _namespaces.opened(self._place, read_only=False)

    def _writer(self, log: str) -> IdempotentWriter:
        """One for this process: a stream asks for each batch anew."""
        opened = self._namespace().log(log)
        key = self._place, opened.info().log_id
        with _lock:
            found = _writers.get(key)
            if found is None:
                found = _writers[key] = IdempotentWriter(self._namespace(), opened)
            return found
