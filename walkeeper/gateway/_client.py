"""GatewayClient: logs behind gateways, for programs that do not open the namespace themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Literal, TypeVar

from walkeeper import DLSN, AppendRange, LogInfo, Position
from walkeeper.errors import ClosedError, Error, InvalidError, TimeoutError, UnavailableError
from walkeeper.gateway import _arguments
from walkeeper.gateway._append_pipeline import AppendPipeline
from walkeeper.gateway._append_request import append_once_request, append_request
from walkeeper.gateway._arguments import flag, natural
from walkeeper.gateway._connection import Connection, parsed_address
from walkeeper.gateway._log_errors import error_of
from walkeeper.gateway._log_fields import (
    Place,
    Way,
    info_of,
    packed_new_log_options,
    packed_place,
    packed_position,
    position_of,
    range_of,
)
from walkeeper.gateway._protocol import (
    Body,
    Request,
    Status,
    packed_text,
    packed_u32,
)
from walkeeper.gateway._read_batch import ReadBatch

if TYPE_CHECKING:
    import ssl
    from datetime import datetime
    from types import TracebackType

    import pyarrow
    from typing_extensions import Buffer, Self, Unpack

    from walkeeper import NewLogOptions
    from walkeeper.idempotent import Staged

__all__ = ["GatewayClient"]

T = TypeVar("T")

ANSWER_SECONDS = 30.0
"""A request that may be repeated is asked of the next gateway after this."""
WAIT_SECONDS = 20.0
"""Of one request for records; a longer wait is several."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.02, 1.0
IDLE_MAX = 8
"""Connections that are kept."""


class GatewayClient:
    """Asks gateways, any of which may have a log. Every method may be called from any thread; a context manager.

    `addresses` are those that Gateway listens on: "HOST:PORT" or "unix:PATH", one or several. `token` is theirs. `tls`,
    a client's SSLContext, is for TCP. A call waits for `timeout` seconds at most, with all that it asks again.

    What a gateway refuses is raised as the embedded API raises it. The gateways are asked in turn. A call that changes
    nothing, or the same when it comes again, is asked again where a connection breaks. Any other call (append_many,
    mark_end_of_stream, delete_log, delete_cursor) is asked again only where it is certain that it was not carried out;
    else it raises UnavailableError, or TimeoutError, with outcome "unknown".

    Where every gateway answers that another writer has the log, the call raises FencedError: take() and call again.
    Where one of them does not answer, another takes the log over from it.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        token: str,
        tls: ssl.SSLContext | None = None,
        timeout: float = 60.0,
    ) -> None:
        given = [addresses] if isinstance(addresses, str) else list(addresses)
        self._addresses = [parsed_address(address) for address in given]
        if not self._addresses:
            raise InvalidError("a client asks one gateway at least")
        self._token = token
        self._tls = tls
        self._timeout = _arguments.seconds("timeout", timeout)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._preferred = 0
        """The address that answered last."""
        self._closed = False

    def close(self) -> None:
        """Closes the connections. Closing twice is fine; calls of other threads are not waited for."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---- logs ----

    def logs(self, prefix: str = "") -> list[str]:
        """See walkeeper.Namespace.logs."""
        return [name for name, _ in self._pages(Request.LOGS, packed_text(prefix), None)]

    def open_log(self, log: str, *, create: bool = True, **options: Unpack[NewLogOptions]) -> LogInfo:
        """Makes the log, with the options, where there is none. See walkeeper.Namespace.log and Log.info."""
        body = packed_text(log) + flag("create", create) + packed_new_log_options(options)
        return _ended(self._call(Request.OPEN_LOG, body, log), info_of)

    def log_info(self, log: str) -> LogInfo:
        """See walkeeper.Log.info."""
        return _ended(self._call(Request.LOG_INFO, packed_text(log), log), info_of)

    def find(
        self,
        log: str,
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        dlsn: Position | DLSN | None = None,
    ) -> Position:
        """See walkeeper.Log.find."""
        place = _number(sequence_id, txid, time, dlsn)
        if place is None:
            raise InvalidError("find wants exactly one of sequence_id, txid, time, dlsn; none was given")
        return _ended(self._call(Request.FIND, packed_text(log) + packed_place(place), log), position_of)

    def truncate(self, log: str, position: Position | DLSN, *, force: bool = False) -> None:
        """See walkeeper.Log.truncate."""
        body = packed_text(log) + packed_position(_arguments.position_of(position)) + flag("force", force)
        self._call(Request.TRUNCATE, body, log)

    def delete_log(self, log: str) -> None:
        """See walkeeper.Namespace.delete_log."""
        self._call(Request.DELETE_LOG, packed_text(log), log, repeats=False)

    def take(self, log: str) -> None:
        """The next append takes the log over from whoever has it: by the gateway that is asked first."""
        self._call(Request.TAKE_LOG, packed_text(log), log)

    # ---- appending ----

    def append_many(
        self,
        log: str,
        payloads: Iterable[Buffer] | pyarrow.Array,
        *,
        txids: Sequence[int] | None = None,
        expected: int | None = None,
        atomic: bool = False,
    ) -> AppendRange:
        """Appends many records. When it returns, all of them are durable. See walkeeper.Writer.append_many.

        They fit one frame: 4 MiB with 8 bytes for each record, and 8 more where it has a txid; TooLargeError where they
        do not. With outcome "unknown", the same call with the same `expected` tells: SequenceMismatchError says which
        record sits there.
        """
        request, data = append_request(log, payloads, txids=txids, expected=expected, atomic=atomic)
        return _ended(self._call(Request.APPEND_MANY, request, log, repeats=False, data=data), range_of)

    def append_pipeline(self, log: str) -> AppendPipeline:
        """Appends to a log, several of which are on their way at once: by the gateway that answered last.

        UnauthorizedError, UnavailableError, TimeoutError: there is no connection to it.
        """
        at = self._preferred
        connection = self._connection(at, monotonic() + self._timeout)
        return AppendPipeline(connection, log, self._timeout, self._keep)

    def append_once(
        self, log: str, app_id: str, version: int, payloads: Sequence[Buffer] = (), staged: Sequence[Staged] = ()
    ) -> bool:
        """Appends the payloads, then the staged records, once. See walkeeper.idempotent.IdempotentWriter."""
        request, data = append_once_request(log, app_id, version, payloads, staged)
        return _ended(self._call(Request.APPEND_ONCE, request, log, data=data), Body.flag)

    def last_version(self, log: str, app_id: str) -> int | None:
        """The last version that append_once appended for the application; None: it never did."""
        body = self._call(Request.LAST_VERSION, packed_text(log) + packed_text(app_id), log)
        known, version = body.flag(), body.u64()
        body.end()
        return version if known else None

    def mark_end_of_stream(self, log: str) -> None:
        """See walkeeper.Writer.mark_end_of_stream."""
        self._call(Request.MARK_END_OF_STREAM, packed_text(log), log, repeats=False)

    # ---- reading ----

    def read(
        self,
        log: str,
        start: Position | DLSN | Literal["start", "end"] = "start",
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        max_records: int | None = None,
        max_bytes: int | None = None,
        wait: float = 0.0,
    ) -> ReadBatch:
        """The records from `start` on, or from the first one with at least this sequence id, txid or time.

        At least one where there is any, at most `max_records` (16,384), about `max_bytes` of payload (1 MiB, at most 2
        MiB; one record may be larger). Where there is none, it waits for one up to `wait` seconds. Read on at the
        batch's `next`. Raises TruncatedError, LogNotFoundError, and GapError before records that are lost: read on at
        error.gap.next.
        """
        place = _number(sequence_id, txid, time)
        if place is None:
            place = _start(start)
        elif start != "start":
            raise InvalidError("a reader starts in one way, not by a number and by start=")
        limits = b"".join(
            packed_u32(_arguments.limit(name, value))
            for name, value in (("max_records", max_records), ("max_bytes", max_bytes))
        )
        deadline = monotonic() + _arguments.seconds("wait", wait)
        while True:
            left = max(0.0, min(WAIT_SECONDS, deadline - monotonic()))
            body = packed_text(log) + packed_place(place) + limits + packed_u32(round(left * 1000))
            batch = ReadBatch(self._answer(Request.READ, body, log, True, left))
            if len(batch) or batch.end_of_stream or monotonic() >= deadline:
                return batch
            place = batch._place  # where the end was: what came since then is not to be missed

    # ---- cursors ----

    def cursors(self, log: str) -> dict[str, Position]:
        """All of them, and where they are."""
        return {name: position_of(body) for name, body in self._pages(Request.CURSORS, packed_text(log), log)}

    def cursor(self, log: str, name: str, *, create: bool = True) -> Position:
        """Where the cursor is. See walkeeper.Log.cursor."""
        body = packed_text(log) + packed_text(name) + flag("create", create)
        return _ended(self._call(Request.CURSOR, body, log), position_of)

    def advance_cursor(self, log: str, name: str, position: Position | DLSN) -> Position:
        """Moves it there. See walkeeper.Cursor.advance; CursorNotFoundError where there is none."""
        body = packed_text(log) + packed_text(name) + packed_position(_arguments.position_of(position))
        return _ended(self._call(Request.ADVANCE_CURSOR, body, log), position_of)

    def delete_cursor(self, log: str, name: str) -> None:
        """See walkeeper.Cursor.delete."""
        self._call(Request.DELETE_CURSOR, packed_text(log) + packed_text(name), log, repeats=False)

    # ---- how it is asked ----

    def _pages(self, request: Request, head: bytes, log: str | None) -> Iterator[tuple[str, Body]]:
        """The names in all answers; the caller takes what stands behind each of them from the body."""
        after, more = "", True
        while more:
            body = self._call(request, head + packed_text(after), log)
            more, count = body.flag(), body.u32()
            for _ in range(count):
                after = body.text()
                yield after, body
            body.end()

    def _call(
        self, request: Request, body: bytes, log: str | None, *, repeats: bool = True, data: bytes | memoryview = b""
    ) -> Body:
        return Body(bytes(self._answer(request, body, log, repeats, data=data)))

    def _answer(
        self,
        request: Request,
        body: bytes,
        log: str | None,
        repeats: bool,
        wait: float = 0.0,
        data: bytes | memoryview = b"",
    ) -> memoryview:
        """The body of the answer `ok`. `repeats`: it may be asked again where nobody knows what became of it. `data` is
        the end of what is sent."""
        deadline = monotonic() + self._timeout + wait
        patience = ANSWER_SECONDS + wait if repeats else self._timeout
        pause = PAUSE_SECONDS
        unknown = False
        earlier: Error | None = None
        while True:
            disowned: tuple[int, Error] | None = None
            perhaps_owned = silent = False
            for at in self._in_turn():
                reason: Error
                try:
                    status, answer = self._attempt(at, request, body, min(deadline, monotonic() + patience), data)
                except (UnavailableError, TimeoutError) as error:
                    if not repeats and error.outcome != "not_written":
                        raise
                    silent, reason = True, error
                    unknown |= error.outcome != "not_written"
                else:
                    if status == Status.OK:
                        self._preferred = at
                        return answer
                    reason = error_of(Body(bytes(answer)), log)
                    if status == Status.NOT_OWNER and reason.outcome == "not_written":
                        disowned = at, reason
                    elif status == Status.UNAVAILABLE and (repeats or reason.outcome == "not_written"):
                        perhaps_owned = True
                        unknown |= reason.outcome == "unknown"
                    else:
                        raise _of_all_tries(reason, unknown)
                if monotonic() >= deadline:
                    told = earlier or reason  # an attempt that the deadline cut short says less
                    raise self._late(_of_all_tries(told, unknown), log) from told
                earlier = reason
            if disowned is not None and not perhaps_owned:
                if not silent:
                    raise _of_all_tries(disowned[1], unknown)
                self._take(disowned[0], log)
            sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _in_turn(self) -> list[int]:
        """All addresses, from the one on that answered last."""
        count, first = len(self._addresses), self._preferred
        return [(first + step) % count for step in range(count)]

    def _take(self, at: int, log: str | None) -> None:
        """None of the gateways that answer has the log: this one takes it over. The next round tells whether it did."""
        assert log is not None
        with suppress(UnavailableError, TimeoutError):
            self._attempt(at, Request.TAKE_LOG, packed_text(log), monotonic() + ANSWER_SECONDS)
        self._preferred = at

    def _attempt(
        self, at: int, request: Request, body: bytes, deadline: float, data: bytes | memoryview = b""
    ) -> tuple[Status, memoryview]:
        connection = self._connection(at, deadline)
        try:
            answered = connection.call(request, body, deadline, data)
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return answered

    def _connection(self, at: int, deadline: float) -> Connection:
        """An idle one, or a new one."""
        connection = self._idle_connection(at)
        return connection or Connection(self._addresses[at], self._token, self._tls, deadline)

    def _idle_connection(self, at: int) -> Connection | None:
        with self._lock:
            if self._closed:
                raise ClosedError("this client was closed", outcome="not_written")
            if self._pid != os.getpid():  # they are the parent's, which keeps them open
                for connection in self._idle:
                    connection.close()
                self._pid, self._idle = os.getpid(), []
            kept = [connection for connection in self._idle if connection.address == self._addresses[at]]
            for connection in reversed(kept):
                self._idle.remove(connection)
                if not connection.ended:
                    return connection
                connection.close()
        return None

    def _keep(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _late(self, reason: Error, log: str | None) -> TimeoutError:
        text = f"no gateway answered for good in {self._timeout} s; the last one: {reason}"
        late = TimeoutError(text, log=log)
        late.outcome = reason.outcome
        return late


def _of_all_tries(error: Error, unknown: bool) -> Error:
    """That of the last try. `unknown`: what became of an earlier one is not known."""
    if unknown and error.outcome is not None:
        error.outcome = "unknown"
    return error


def _ended(body: Body, field: Callable[[Body], T]) -> T:
    """The one field of a body."""
    found = field(body)
    body.end()
    return found


def _start(start: Position | DLSN | str) -> Place:
    if isinstance(start, str):
        if start not in ("start", "end"):
            raise InvalidError(f'start={start!r}: a Position, a DLSN, "start" or "end"')
        return Place(Way.START if start == "start" else Way.END)
    return Place.at(_arguments.position_of(start))


def _number(
    sequence_id: int | None, txid: int | None, time: datetime | float | None, dlsn: Position | DLSN | None = None
) -> Place | None:
    """The place that a number names; None: there is none. InvalidError: there are several."""
    given = [value for value in (sequence_id, txid, time, dlsn) if value is not None]
    if len(given) > 1:
        raise InvalidError("a place in a log is named by one number")
    if sequence_id is not None:
        return Place(Way.SEQUENCE_ID, natural("sequence_id", sequence_id))
    if txid is not None:
        return Place(Way.TXID, natural("txid", txid))
    if time is not None:
        return Place(Way.TIME, _arguments.milliseconds(time))
    return None if dlsn is None else _start(dlsn)
