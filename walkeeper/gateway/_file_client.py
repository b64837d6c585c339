"""FileClient: files behind a gateway, for programs in Python that copy whole directories."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from walkeeper.errors import TimeoutError, UnavailableError
from walkeeper.gateway._connection import Connection, parsed_address
from walkeeper.gateway._path import Path, shown
from walkeeper.gateway._protocol import (
    CONTENT_MAX,
    Body,
    Refused,
    Request,
    Status,
    packed_bytes,
    packed_text,
    packed_u64,
)

if TYPE_CHECKING:
    import ssl

    from typing_extensions import Self

__all__ = ["FileClient"]

NOBODY = packed_u64(0)
"""The epoch of whoever does not own a directory, and knows it."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.02, 1.0
UPLOADS_MAX = 5
"""Times that a large file is sent, where connections break."""


class FileClient:
    """Asks one gateway. Every method may be called from any thread; a context manager.

    A change is durable when its call returns. Refused: the gateway does not do it, for the reason in `status`. A change
    that may not have arrived is sent again, as the same operation, for `timeout` seconds; then UnavailableError or
    TimeoutError is raised, and what became of it is unknown.
    """

    def __init__(self, address: str, *, token: str, tls: ssl.SSLContext | None = None, timeout: float = 60.0) -> None:
        self._address = parsed_address(address)
        self._token = token
        self._tls = tls
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._identity = os.urandom(16)
        self._operations = 0

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---- requests ----

    def exists(self, path: Path) -> bool:
        """Whether a file or a directory is there."""
        try:
            self._ask(Request.STAT, _packed(path) + NOBODY)
        except Refused as refused:
            if refused.status == Status.NOT_FOUND:
                return False
            raise
        return True

    def mkdir(self, path: Path) -> None:
        """Also those above it."""
        self._ask(Request.MKDIR, self._operation() + _packed(path) + NOBODY)

    def put(self, path: Path, size: int, pieces: Callable[[], Iterable[bytes]]) -> None:
        """A new file of `size` bytes, whole or not at all. `pieces` gives them; it is called again where it is sent
        again."""
        operation = self._operation()
        if size > CONTENT_MAX:
            self._upload(path, operation, pieces)
            return
        self._ask(Request.PUT, operation + _packed(path) + NOBODY + b"\0" + packed_bytes(b"".join(pieces())))

    def rename(self, path: Path, target: Path) -> None:
        """With all below it, in one step. Refused: something is at the target."""
        self._ask(Request.RENAME, self._operation() + _packed(path) + _packed(target) + NOBODY + b"\0")

    def delete(self, path: Path) -> None:
        """With all below it; what is not there is no error."""
        self._ask(Request.DELETE, self._operation() + _packed(path) + NOBODY + b"\1")

    # ---- asking ----

    def _ask(self, code: Request, body: bytes) -> Body:
        deadline = time.monotonic() + self._timeout
        pause = PAUSE_SECONDS
        while True:
            try:
                with self._connection(deadline) as connection:
                    status, answer = connection.call(code, body, deadline)
                return _accepted(status, answer)
            except (UnavailableError, TimeoutError):
                if time.monotonic() + pause > deadline:
                    raise
            except Refused as refused:
                if refused.status != Status.UNAVAILABLE or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _upload(self, path: Path, operation: bytes, pieces: Callable[[], Iterable[bytes]]) -> None:
        for tries in range(UPLOADS_MAX):
            try:
                with self._connection(time.monotonic() + self._timeout) as connection:
                    self._upload_once(connection, path, operation, pieces)
                return
            except (UnavailableError, TimeoutError):
                if tries == UPLOADS_MAX - 1:
                    raise
            except Refused as refused:
                if refused.status not in (Status.UNAVAILABLE, Status.GONE) or tries == UPLOADS_MAX - 1:
                    raise
            time.sleep(PAUSE_SECONDS_MAX)

    def _upload_once(
        self, connection: Connection, path: Path, operation: bytes, pieces: Callable[[], Iterable[bytes]]
    ) -> None:
        def asked(code: Request, body: bytes) -> Body:
            return _accepted(*connection.call(code, body, time.monotonic() + self._timeout))

        upload = packed_u64(asked(Request.UPLOAD, _packed(path)).u64())
        offset = 0
        for piece in pieces():
            asked(Request.CHUNK, upload + packed_u64(offset) + packed_bytes(piece))
            offset += len(piece)
        asked(Request.PUBLISH, operation + upload + _packed(path) + NOBODY + b"\0")

    @contextmanager
    def _connection(self, deadline: float) -> Iterator[Connection]:
        """One that nobody else uses. It is kept unless something is raised: an upload that was begun ends with it."""
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        connection = kept or Connection(self._address, self._token, self._tls, deadline)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _operation(self) -> bytes:
        with self._lock:
            self._operations += 1
            return self._identity + packed_u64(self._operations)


def _accepted(status: Status, answer: memoryview) -> Body:
    found = Body(bytes(answer))
    if status != Status.OK:
        raise Refused(status, found.text())
    return found


def _packed(path: Path) -> bytes:
    return packed_text(shown(path))
