"""AppendPipeline: appends to one log of which several are on their way to a gateway."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING

from walkeeper.errors import ClosedError, Error, InvalidError
from walkeeper.gateway._append_request import append_request
from walkeeper.gateway._log_errors import error_of
from walkeeper.gateway._log_fields import range_of
from walkeeper.gateway._protocol import Body, Request, Status

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow
    from typing_extensions import Buffer, Self

    from walkeeper import AppendRange
    from walkeeper.gateway._connection import Connection

__all__ = ["AppendPipeline"]


class AppendPipeline:
    """Sends appends before the earlier ones are answered. The gateway makes them in the order in which they were sent.

    Made by GatewayClient.append_pipeline, for one thread. It is one connection to one gateway, and asks nothing again.
    Where a method raises, the requests that are not answered may or may not be carried out. A context manager.
    """

    def __init__(self, connection: Connection, log: str, timeout: float, keep: Callable[[Connection], None]) -> None:
        """`keep` takes the connection when all is answered."""
        self._connection: Connection | None = connection
        self._log = log
        self._timeout = timeout
        self._keep = keep
        self._sent: deque[int] = deque()
        """Requests that receive() has not returned yet, by their numbers."""
        self._answers: dict[int, tuple[Status, memoryview]] = {}
        """Of those that were answered before an earlier one."""

    @property
    def unanswered(self) -> int:
        """How many appends receive() has not told of yet."""
        return len(self._sent)

    def send(self, payloads: Iterable[Buffer] | pyarrow.Array, *, expected: int | None = None) -> None:
        """Sends an append. See GatewayClient.append_many; what it raises of a refusal, receive() raises."""
        body, data = append_request(self._log, payloads, txids=None, expected=expected, atomic=False)
        with self._whole() as connection:
            self._sent.append(connection.send(Request.APPEND_MANY, body, self._deadline(), data))

    def receive(self) -> AppendRange:
        """The answer to the earliest append that has none yet: its records are durable. Raises what append_many raises.

        Where the connection breaks, or no answer comes in time, the pipeline is closed.
        """
        if not self._sent:
            raise InvalidError("every append is answered")
        while self._sent[0] not in self._answers:
            with self._whole() as connection:
                number, status, answer = connection.receive(self._deadline())
            self._answers[number] = status, answer
        status, answer = self._answers.pop(self._sent.popleft())
        body = Body(bytes(answer))
        if status != Status.OK:
            raise error_of(body, self._log)
        found = range_of(body)
        body.end()
        return found

    def drain(self) -> None:
        """Waits until each append is answered, or the pipeline is closed. What the answers say is left aside."""
        while self._sent and self._connection is not None:
            with suppress(Error):
                self.receive()

    def close(self) -> None:
        """Closing twice is fine. Appends that are not answered may be carried out later."""
        connection, self._connection = self._connection, None
        if connection is not None and self._sent:
            connection.close()
        elif connection is not None:
            self._keep(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _whole(self) -> Iterator[Connection]:
        """The connection, which is closed where less than a whole frame is sent or received."""
        if self._connection is None:
            raise ClosedError("this pipeline is closed", log=self._log, outcome="not_written")
        try:
            yield self._connection
        except BaseException:
            self._connection.close()
            self._connection = None
            raise

    def _deadline(self) -> float:
        return monotonic() + self._timeout
