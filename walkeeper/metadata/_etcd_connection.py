"""Connection: one etcd server of several at a time, and calls that end in one of three ways.

gRPC moves the bytes. What is added: a call is only made on a connection that is up, so that a write without one is
known not to have been sent; a server that does not answer is left for the next one; and of each error is known whether
the server did what it was asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from walkeeper._low_descriptors import occupy_low_descriptors
from walkeeper.metadata._etcd_client import Stubs, grpc, range_of
from walkeeper.metadata._log import log
from walkeeper.metadata._store import (
    ClosedError,
    LimitError,
    MetadataError,
    UnavailableError,
    UnknownOutcomeError,
)

CONNECT_SECONDS_MAX = 5.0
PAUSE_SECONDS = 0.01  # before a call is made again
PAUSE_SECONDS_MAX = 1.0  # it doubles up to this
RECONNECT_SECONDS = 0.05  # between two attempts to connect; it doubles, too
RECONNECT_SECONDS_MAX = 1.0
CLOSE_SECONDS = 2.0  # for the thread to end
PING_SECONDS = 10  # etcd ends connections that are pinged more often than each 5 s
_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection, without the old one's pauses
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # nothing is sent twice, or later, by itself
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", PING_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", int(CONNECT_SECONDS_MAX * 1000)),
    ("grpc.http2.ping_timeout_ms", int(CONNECT_SECONDS_MAX * 1000)),  # the longer one of the two counts
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)

Ask = Callable[[Stubs, float], Any]
"""Makes a call on the stubs, which must end within so many seconds."""


class LeaseGoneError(Exception):
    """etcd refused a write whose lease is over; nothing was written."""


class _Link:
    """A channel to one server. It was asked something and answered; `wait` ends with the connection.

    A stream that nothing is said on tells of the end at once. gRPC's own way to tell wakes five times in a second.
    """

    def __init__(self, endpoint: str) -> None:
        self.lost = False
        self._ended = threading.Event()
        self._channel = grpc.insecure_channel(endpoint, options=_OPTIONS)
        self.stubs = Stubs(self._channel)

    def probe(self, seconds: float) -> None:
        """The server answers. grpc.RpcError."""
        self.stubs.kv.Range(range_of(b"/", serializable=True), timeout=seconds)

    def wait(self) -> None:
        """Until the connection ends, or is given up."""
        stream = self.stubs.watch.Watch(iter(self._ended.wait, True))
        stream.add_done_callback(lambda _: self._ended.set())
        self._ended.wait()
        self.lost = True
        stream.cancel()

    def lose(self) -> None:
        """It is not to be used any more."""
        self.lost = True
        self._ended.set()

    def close(self) -> None:
        """Calls that are still on their way end with an error."""
        self.lose()
        self._channel.close()


class Connection:
    """Calls wait for a connection for `timeout` seconds; one that has no answer within `silence` is given up."""

    def __init__(self, endpoints: Sequence[str], silence: float, timeout: float, name: str) -> None:
        self.silence = silence
        self.timeout = timeout
        self._endpoints = list(endpoints)
        self._name = name
        self._changed = threading.Condition()
        self._link: _Link | None = None  # that is being made, or is up
        self._up: _Link | None = None
        self._said_away = False
        self._closed = False
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="walkeeper-etcd-connection", daemon=True)
        self._thread.start()

    # ---- calls ----

    def read(self, ask: Ask, key: str | None, timeout: float | None = None) -> Any:
        """The answer to what changes nothing; asked again until there is one. UnavailableError."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        pause = PAUSE_SECONDS
        while True:
            link = self._wait_up(deadline, key)
            try:
                return ask(link.stubs, self.silence)
            except ValueError:  # the channel was closed before the call began
                why = "connections change too often"
            except grpc.RpcError as error:
                refused = _refusal(error, key)
                if refused is not None:
                    raise refused from error
                why = self._judge(link, error)
            pause = self._pause(pause, deadline, key, why)

    def write(self, ask: Ask, key: str | None) -> Any:
        """The answer to a call that is made once. UnknownOutcomeError where there is none; LeaseGoneError."""
        deadline = time.monotonic() + self.timeout
        pause = PAUSE_SECONDS
        while True:
            link = self._wait_up(deadline, key)
            try:
                return ask(link.stubs, self.silence)
            except ValueError:
                why = "connections change too often"
            except grpc.RpcError as error:
                refused = _refusal(error, key)
                if refused is not None:
                    raise refused from error
                why = self._judge(link, error)
                if not _was_not_taken(error):
                    what = key or "the transaction"
                    raise UnknownOutcomeError(
                        f"{what} may or may not be written: {why} of {self._name}", key
                    ) from error
            pause = self._pause(pause, deadline, key, why)

    def stubs(self) -> tuple[Stubs, Callable[[Any], str]]:
        """Those of the connection there is, and whom to tell an error of theirs. Waits for one. ClosedError."""
        with self._changed:
            while self._up is None and not self._closed:
                self._changed.wait()
            self.check_open()
            link = self._up
            assert link is not None
            return link.stubs, lambda error: self._judge(link, error)

    def check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self._name} was closed")

    @property
    def is_up(self) -> bool:
        return self._up is not None

    def close(self) -> None:
        """Who waits is told; calls on their way end."""
        with self._changed:
            self._closed = True
            self._up = None
            link = self._link
            self._changed.notify_all()
        self.closing.set()
        if link is not None:
            link.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_SECONDS)

    def _judge(self, link: _Link, error: Any) -> str:
        """Leaves a server that is of no use; the reason in words."""
        text = error.details() or ""
        # etcd says of itself that it has no leader, or no time. Another server may have.
        if not text.startswith("etcdserver:") or len(self._endpoints) > 1:
            link.lose()
        return _words(error)

    def _wait_up(self, deadline: float, key: str | None) -> _Link:
        with self._changed:
            while True:
                self.check_open()
                if self._up is not None and not self._up.lost:
                    return self._up
                left = deadline - time.monotonic()
                if left <= 0:
                    raise UnavailableError(f"{self._name} cannot be reached", key)
                self._changed.wait(left)

    def _pause(self, pause: float, deadline: float, key: str | None, why: str) -> float:
        left = deadline - time.monotonic()
        if left <= 0 and not self._closed:
            raise UnavailableError(f"{self._name} gives no answer: {why}", key)
        self.closing.wait(min(pause, max(left, 0.0)))
        return min(2 * pause, PAUSE_SECONDS_MAX)

    # ---- the thread that connects ----

    def _run(self) -> None:
        pause = RECONNECT_SECONDS
        turn = 0
        while not self._closed:
            endpoint = self._endpoints[turn % len(self._endpoints)]
            turn += 1
            if self._use(endpoint):
                pause = RECONNECT_SECONDS
            elif turn % len(self._endpoints) == 0:
                self.closing.wait(pause)
                pause = min(2 * pause, RECONNECT_SECONDS_MAX)

    def _use(self, endpoint: str) -> bool:
        """One connection, from its making to its end. Whether there was one."""
        occupy_low_descriptors()
        link = _Link(endpoint)
        with self._changed:
            self._link = link
            if self._closed:
                link.close()
                return False
        try:
            link.probe(CONNECT_SECONDS_MAX)
            with self._changed:
                if self._closed:
                    return False
                self._up = link
                self._changed.notify_all()
                if self._said_away:
                    self._said_away = False
                    log.info("%s is reached again", self._name)
            link.wait()
            self._away("does not answer any more, trying again")
            return True
        except (grpc.RpcError, ValueError) as error:
            self._away(f"cannot be reached, trying again: {endpoint}: {_words(error)}")
            return False
        finally:
            with self._changed:
                self._up = None
            link.close()

    def _away(self, how: str) -> None:
        """Said once, until there is a connection again."""
        if not self._said_away and not self._closed:
            self._said_away = True
            log.warning("%s %s", self._name, how)


def _words(error: Any) -> str:
    return f"{error.code().name} ({error.details()})" if isinstance(error, grpc.RpcError) else str(error)


def _was_not_taken(error: Any) -> bool:
    """Whether a server that is busy said so before it did anything."""
    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "too many requests" in (error.details() or "")


def _refusal(error: Any, key: str | None) -> Exception | None:
    """What the server's word means to our caller, where it is certain that nothing was done; None where it is not."""
    code, text = error.code(), error.details() or ""
    codes = grpc.StatusCode
    what = key or "the transaction"
    if "requested lease not found" in text:
        return LeaseGoneError(text)
    if "request is too large" in text or "message larger than max" in text or "too many operations" in text:
        return LimitError(f"{what}: this etcd takes no such request ({text})", key)
    if "space exceeded" in text:
        return UnavailableError(f"{what}: {text}", key)
    if code is codes.OUT_OF_RANGE or (code is codes.INVALID_ARGUMENT and text.startswith("etcdserver:")):
        return MetadataError(f"{what}: etcd does not take this ({text})", key)
    if code in (codes.PERMISSION_DENIED, codes.UNAUTHENTICATED) or "user name is empty" in text:
        return MetadataError(f"{what}: etcd does not allow it ({text})", key)
    if code is codes.UNIMPLEMENTED:
        return MetadataError(f"{what}: this is no etcd, or one that is too old ({text})", key)
    return None
