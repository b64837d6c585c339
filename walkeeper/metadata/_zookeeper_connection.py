"""Connection: a ZooKeeper session that is made again when it is lost, and requests that end in one of three ways.

kazoo moves the bytes. What is added: a request is only given to a connection that is up (kazoo would keep it for a
later one, long after its caller gave up), one that is not answered for most of the session's time ends the connection
(kazoo notices a half-open one only while nobody asks anything), and kazoo is started again should its loop ever end.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    QuotaExceededError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    UnimplementedError,
)
from kazoo.exceptions import NotEmptyError as NodeNotEmptyError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from walkeeper._low_descriptors import occupy_low_descriptors
from walkeeper.metadata._log import kazoo_log, log
from walkeeper.metadata._store import (
    ClosedError,
    ConflictError,
    ExistsError,
    MetadataError,
    MissingError,
    NotEmptyError,
    UnavailableError,
    UnknownOutcomeError,
)

SILENCE_SHARE = 2 / 3  # of the session: a server that answers nothing for so long is given up, in time to try another
SILENCE_SECONDS_MAX = 26.0  # ZooKeeper grants sessions of 40 s at most, unless it is told otherwise
CONNECT_SECONDS_MAX = 5.0
RECONNECT_SECONDS_MAX = 1.0  # between two attempts
CLOSE_SECONDS = 1.0  # for the server to end the session in order
CUT_SECONDS_MAX = 5.0  # until kazoo has noticed that its connection was cut
WAIT_SECONDS = 0.25  # between two looks at whether a wait still makes sense
PAUSE_SECONDS = 0.01  # kazoo tells a request of the loss a moment before it tells us
PAUSE_SECONDS_MAX = 1.0  # it doubles up to this: a server that answers "not now" is not asked all the more

Event = Literal["up", "lost", "new"]
Send = Callable[[Any], Sequence[Any]]

# No answer came, or none that says anything: what changes nothing can be asked again.
_SILENT = (
    ConnectionLoss,
    KazooTimeoutError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionMovedError,
    ThrottledOpError,
    RuntimeError,  # kazoo did not understand what the server said
)

# What the server answers where it did nothing. Of a write, every other error is an unknown outcome.
_REFUSALS: dict[type[Exception], tuple[type[MetadataError], str]] = {
    NoNodeError: (MissingError, "{key} is not there, or the key above it is not"),
    NodeExistsError: (ExistsError, "{key} is there already"),
    BadVersionError: (ConflictError, "{key} has another version"),
    NodeNotEmptyError: (NotEmptyError, "{key} has children"),
    NoChildrenForEphemeralsError: (MetadataError, "the key above {key} is ephemeral: it can have no children"),
    NoAuthError: (MetadataError, "ZooKeeper's access list (ACL) of {key} or of the key above does not allow it"),
    InvalidACLError: (MetadataError, "ZooKeeper does not take the access list (ACL) of {key}"),
    AuthFailedError: (MetadataError, "ZooKeeper did not accept who we say we are (authentication failed)"),
    QuotaExceededError: (MetadataError, "{key} is under a quota of ZooKeeper, which is used up"),
    BadArgumentsError: (MetadataError, "ZooKeeper does not take {key}"),
    UnimplementedError: (MetadataError, "this ZooKeeper is too old for what was asked of {key}"),
}


def refusal(error: Exception, key: str | None) -> MetadataError:
    """What the server's answer means to our caller."""
    kind, text = _REFUSALS.get(type(error), (MetadataError, "{key}: ZooKeeper failed with {error!r}"))
    return kind(text.format(key=key or "the transaction", error=error), key)


@dataclass(frozen=True)
class _Up:
    """A connection on which requests can be sent. `number` is another one for each."""

    client: Any
    socket: socket.socket
    number: int


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets. Its connection can be cut, and somebody is told when one of its threads ends."""

    def __init__(self, connect_seconds: float, ended: Callable[[], None], refused: Callable[[Exception], None]) -> None:
        super().__init__()
        self.connection: socket.socket | None = None
        self.established = False
        self.closing = False
        self._connect_seconds = connect_seconds
        self._ended = ended
        self._refused = refused

    def create_connection(self, *arguments: Any, **options: Any) -> socket.socket:
        if self.closing:
            raise ConnectionAbortedError("the store is being closed")
        options["timeout"] = min(options.get("timeout") or self._connect_seconds, self._connect_seconds)
        self.established = False
        occupy_low_descriptors()
        try:
            made: socket.socket = super().create_connection(*arguments, **options)
        except Exception as error:
            self._refused(error)
            raise
        self.connection = made
        return made

    def select(self, *arguments: Any, **options: Any) -> Any:
        """A server that is just starting can take a connection and never answer; kazoo gives it the whole session."""
        if not self.established and len(arguments) == 4:
            *sockets, timeout = arguments
            arguments = (*sockets, self._connect_seconds if timeout is None else min(timeout, self._connect_seconds))
        return super().select(*arguments, **options)

    def spawn(self, func: Callable[..., None], *arguments: Any, **options: Any) -> threading.Thread:
        def run() -> None:
            try:
                func(*arguments, **options)
            except Exception:  # kazoo has logged it
                log.debug("a thread of kazoo failed", exc_info=True)
            finally:
                self._ended()

        thread: threading.Thread = super().spawn(run)
        return thread


def _cut(connection: socket.socket | None) -> None:
    """kazoo, which reads this socket, sees its end."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class Connection:
    """One session at a time. `tell` is called at each change, from kazoo's threads: it must not wait for anything."""

    def __init__(
        self, hosts: str, session_timeout: float, timeout: float, name: str, tell: Callable[[Event], None]
    ) -> None:
        self._hosts = hosts
        self._session_timeout = session_timeout
        self._timeout = timeout
        self._name = name
        self._tell = tell
        self._silence = min(session_timeout * SILENCE_SHARE, SILENCE_SECONDS_MAX)
        self._changed = threading.Condition()
        self._client: Any = None
        self._handler: Any = None
        self._up: _Up | None = None
        self._number = 0
        self._session = 0  # 0: there is none
        self._lost = False
        self._said_away = False
        self._closed = False
        self._closing = threading.Event()
        self._stopped = threading.Event()
        self._start()

    # ---- requests ----

    def read(self, send: Send, key: str, timeout: float | None = None) -> list[Any]:
        """The answers to what `send` asks, from one connection; asked again until there are some. UnavailableError."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        pause = PAUSE_SECONDS
        while True:
            up = self._wait_up(deadline, key)
            try:
                answers = [self._answer(result, up) for result in send(up.client)]
            except (*_SILENT, SessionExpiredError) as error:
                pause = self._pause(pause, deadline, key, type(error).__name__)
                continue
            except Exception as error:
                raise refusal(error, key) from error
            now = self._up
            if len(answers) == 1 or (now is not None and now.number == up.number):
                return answers
            # One came from another server, which may be behind the first.
            pause = self._pause(pause, deadline, key, "connections change too often")

    def write(self, send: Send, key: str | None) -> Any:
        """The answer to a request that is sent once. UnknownOutcomeError where there is none."""
        deadline = time.monotonic() + self._timeout
        pause = PAUSE_SECONDS
        while True:
            up = self._wait_up(deadline, key)
            (result,) = send(up.client)
            try:
                return self._answer(result, up)
            except SessionExpiredError:  # it was never sent, or the server did not take it from a dead session
                pause = self._pause(pause, deadline, key, "sessions end too soon")
            except tuple(_REFUSALS) as error:
                raise refusal(error, key) from error
            except Exception as error:
                what, why = key or "the transaction", type(error).__name__
                raise UnknownOutcomeError(f"{what} may or may not be written: {why} of {self._name}", key) from error

    def session(self) -> int:
        """ZooKeeper's number of the session; 0 between a lost one and the next. Waits for the first."""
        deadline = time.monotonic() + self._timeout
        with self._changed:
            if not self._session and not self._lost:
                self._wait(lambda: self._session != 0, deadline, None)
            self._check_open()
            return self._session

    def close(self) -> None:
        """The session ends, here and at the server if that can be reached; who waits is told."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._up = None
            client, handler = self._client, self._handler
            handler.closing = True
            self._changed.notify_all()
        self._closing.set()
        timer = threading.Timer(CLOSE_SECONDS, lambda: _cut(handler.connection))
        timer.daemon = True
        timer.start()
        try:
            client.stop()
            client.close()
        except Exception:
            log.debug("kazoo did not stop in order", exc_info=True)
            handler.stop()
        finally:
            timer.cancel()
            self._stopped.set()

    def cut(self) -> None:
        """The TCP connection ends, as a network does it; the session does not."""
        _cut(self._handler.connection)

    def _answer(self, result: Any, up: _Up) -> Any:
        limit = time.monotonic() + self._silence
        given_up = False
        while not result.ready():
            result.wait(WAIT_SECONDS)
            if result.ready():
                break
            if self._stopped.is_set():
                raise KazooTimeoutError("the store was closed")
            if time.monotonic() < limit:
                continue
            if given_up:
                raise KazooTimeoutError(f"no answer within {self._silence:.1f} s")
            _cut(up.socket)  # kazoo now ends all requests of this connection
            given_up = True
            limit = time.monotonic() + CUT_SECONDS_MAX
        return result.get()

    def _wait_up(self, deadline: float, key: str | None) -> _Up:
        with self._changed:
            self._wait(lambda: self._up is not None, deadline, key)
            self._check_open()
            assert self._up is not None
            return self._up

    def _wait(self, holds: Callable[[], bool], deadline: float, key: str | None) -> None:
        while not self._closed and not holds():
            left = deadline - time.monotonic()
            if left <= 0:
                raise UnavailableError(f"{self._name} cannot be reached", key)
            self._changed.wait(left)

    def _pause(self, pause: float, deadline: float, key: str | None, why: str) -> float:
        """Waits before a request is sent again; how long to wait the next time. UnavailableError: the time is over."""
        left = deadline - time.monotonic()
        if left <= 0 and not self._closed:
            raise UnavailableError(f"{self._name} gives no answer: {why}", key)
        self._closing.wait(min(pause, max(left, 0.0)))
        return min(2 * pause, PAUSE_SECONDS_MAX)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self._name} was closed")

    # ---- the session: called by kazoo's threads ----

    def _start(self) -> None:
        ends = iter([True])  # kazoo's other threads end when it is stopped
        attempts = self._hosts.count(",") + 2
        handler = _Handler(
            min(CONNECT_SECONDS_MAX, self._session_timeout / attempts),
            lambda: self._kazoo_ended(client) if next(ends, False) else None,
            lambda error: self._away(f"cannot be reached, trying again: {error}"),
        )
        client = KazooClient(
            hosts=self._hosts,
            timeout=self._session_timeout,
            handler=handler,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=0.05,
                max_delay=min(RECONNECT_SECONDS_MAX, self._session_timeout / 8),
                sleep_func=handler.sleep_func,
            ),
            logger=kazoo_log,
        )
        client.add_listener(lambda state: self._state_changed(client, handler, state))
        with self._changed:
            if self._closed:
                return
            self._client, self._handler = client, handler
            client.start_async()

    def _state_changed(self, client: Any, handler: _Handler, state: str) -> None:
        """SUSPENDED is no loss of the session: the server keeps it, for its time, while we look for a connection."""
        with self._changed:
            if client is not self._client or self._closed:
                return
            if state == KazooState.CONNECTED:
                self._connected(client, handler)
            else:
                if self._up is not None:
                    self._away("does not answer any more, trying again")
                self._up = None
                if state == KazooState.LOST:
                    self._session_lost()
            self._changed.notify_all()

    def _connected(self, client: Any, handler: _Handler) -> None:
        assert handler.connection is not None
        handler.established = True
        self._session = client.client_id[0]
        self._number += 1
        self._up = _Up(client, handler.connection, self._number)
        if self._lost:
            self._lost = False
            self._tell("new")
        self._tell("up")
        if self._said_away:
            self._said_away = False
            log.info("%s is reached again", self._name)

    def _session_lost(self) -> None:
        if self._session:
            self._session = 0
            self._lost = True
            log.warning("%s: the session was lost", self._name)
            self._tell("lost")

    def _away(self, how: str) -> None:
        """Said once, until there is a connection again."""
        with self._changed:
            said, self._said_away = self._said_away, True
        if not said:
            log.warning("%s %s", self._name, how)

    def _kazoo_ended(self, client: Any) -> None:
        """Its loop ended, by an error of its own or because we are not let in: soon there is another one."""
        with self._changed:
            if self._closed or client is not self._client:
                return
            self._up = None
            self._session_lost()
            handler = self._handler
            self._changed.notify_all()
        self._away("has no client any more (it was refused, or failed): there will be another one")
        handler.stop()
        with contextlib.suppress(Exception):
            client.close()
        if not self._closing.wait(RECONNECT_SECONDS_MAX):
            self._start()
