"""RestoredLog: the log that an archive is restored to. What is appended is told by its sequence id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from walkeeper.errors import Error, SequenceMismatchError
from walkeeper.gateway import GatewayClient
from walkeeper_spark_checkpoint.jobs._place import Place

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow
    from typing_extensions import Self

    from walkeeper import Writer

__all__ = ["RestoredLog"]

REQUEST_BYTES = 2 * 1024 * 1024
"""Of records in one request to a gateway."""
TRIES = 5
"""Of an append through a gateway whose outcome is not known."""


class RestoredLog:
    """A log that one restoration appends to. A context manager: leaving it without an error, all of it is durable."""

    def __init__(self, place: Place, log: str) -> None:
        self._place, self._log = place, log
        self._stack = ExitStack()
        self._client: GatewayClient | None = None
        self._writer: Writer | None = None
        self.next_sequence_id = 0
        """Of the next record."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._place.gateways:
                self._client = stack.enter_context(GatewayClient(self._place.gateways, token=self._place.token))
                self.next_sequence_id = int(self._client.open_log(self._log).next.sequence_id)
            else:
                namespace = stack.enter_context(self._place.open(read_only=False))
                self._writer = stack.enter_context(namespace.log(self._log).writer(durability="deferred"))
                self.next_sequence_id = self._writer.next_sequence_id
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)  # a writer that is closed has made everything durable

    def append(self, payloads: pyarrow.Array, txids: pyarrow.Array) -> None:
        """Appends records at `next_sequence_id`. Raises what Writer.append_many raises."""
        if self._writer is not None:
            self._writer.append_many(payloads, txids=txids.to_pylist(), expected=self.next_sequence_id)
            self.next_sequence_id += len(payloads)
            return
        for begin, count in _pieces(payloads, 0):
            self._append_by_gateway(payloads.slice(begin, count), txids.slice(begin, count))

    def _append_by_gateway(self, payloads: pyarrow.Array, txids: pyarrow.Array) -> None:
        assert self._client is not None
        behind = self.next_sequence_id + len(payloads)
        for attempt in range(TRIES):
            try:
                self._client.append_many(self._log, payloads, txids=txids.to_pylist(), expected=self.next_sequence_id)
                break
            except SequenceMismatchError:
                if not attempt or self._client.log_info(self._log).next.sequence_id != behind:
                    raise
                break  # an earlier attempt had landed
            except Error as error:
                if error.outcome != "unknown" or attempt == TRIES - 1:
                    raise
        self.next_sequence_id = behind


def _pieces(payloads: pyarrow.Array, begin: int) -> Iterator[tuple[int, int]]:
    """Where pieces of an array begin, each for one request, and how many values they have."""
    if len(payloads) > 1 and payloads.nbytes > REQUEST_BYTES:
        half = len(payloads) // 2
        yield from _pieces(payloads.slice(0, half), begin)
        yield from _pieces(payloads.slice(half), begin + half)
    elif len(payloads):
        yield begin, len(payloads)
