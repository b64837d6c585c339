"""Lease: a session on etcd. Ephemeral keys hang on it; a thread keeps it alive, and gets another when it is over."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Literal

from walkeeper.metadata._etcd_client import Stubs, grant, grpc, keep_alive, revoke
from walkeeper.metadata._etcd_connection import Connection
from walkeeper.metadata._log import log
from walkeeper.metadata._store import ClosedError, MetadataError, UnavailableError

RENEWALS = 4  # within the time of a lease: two may fail, and there is time for another server
REVOKE_SECONDS = 1.0  # for the server to end the lease in order
RETRY_SECONDS = 0.1

Event = Literal["lost", "new"]


class Lease:
    """One lease at a time; the first is granted when somebody asks for it. `tell` must not wait for anything."""

    def __init__(
        self, connection: Connection, session_timeout: float, name: str, tell: Callable[[Event], None]
    ) -> None:
        self._connection = connection
        self._seconds = max(1, math.ceil(session_timeout))
        self._name = name
        self._tell = tell
        self._changed = threading.Condition()
        self._id = 0  # 0: there is none
        self._lost = False
        self._due = False  # somebody wants it renewed now
        self._closed = False
        self._thread: threading.Thread | None = None

    def number(self) -> int:
        """The lease's id; 0 between a lost one and the next. Waits for the first. UnavailableError, ClosedError."""
        with self._changed:
            if not self._lost:
                self._wait(None)
            self._connection.check_open()
            return self._id

    def wait(self, key: str) -> int:
        """The id of a lease that lives, as far as is known. UnavailableError, ClosedError."""
        with self._changed:
            return self._wait(key)

    def gone(self, lease: int) -> None:
        """etcd said that this lease is over."""
        with self._changed:
            if self._id == lease and not self._closed:
                self._id = 0
                self._lost = True
                self._changed.notify_all()
                log.warning("%s: the session was lost", self._name)
                self._tell("lost")

    def renew(self) -> None:
        """Now, and not when its time has come."""
        with self._changed:
            self._due = True
            self._changed.notify_all()

    def close(self) -> None:
        """The lease is over, here and at the server, if that can be reached. Before the connection is closed."""
        with self._changed:
            self._closed = True
            lease, self._id = self._id, 0
            self._changed.notify_all()
        if lease and self._connection.is_up:
            try:
                self._connection.read(lambda stubs, seconds: self._revoke(stubs, lease), None, 0)
            except MetadataError:
                log.debug("the lease was not revoked: it ends by itself", exc_info=True)

    def join(self) -> None:
        """The thread has ended. Behind the connection's end, so that nothing is waited for."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(REVOKE_SECONDS)

    def _wait(self, key: str | None) -> int:
        deadline = time.monotonic() + self._connection.timeout
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="walkeeper-etcd-lease", daemon=True)
            self._thread.start()
        while not self._id:
            self._connection.check_open()
            if self._closed:
                raise ClosedError(f"{self._name} was closed")
            left = deadline - time.monotonic()
            if left <= 0:
                raise UnavailableError(f"{self._name} cannot be reached: there is no lease", key)
            self._changed.wait(left)
        return self._id

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._due or (self._lost and not self._id), pause)
                if self._closed:
                    return
                self._due = False
                lease = self._id
            try:
                if lease:
                    self._keep(lease)
                else:
                    self._get()
                pause = self._seconds / RENEWALS
            except ClosedError:
                return
            except MetadataError as error:
                log.debug("the lease was not renewed, trying again: %s", error)
                pause = RETRY_SECONDS
                self._connection.closing.wait(RETRY_SECONDS)

    def _keep(self, lease: int) -> None:
        """What etcd says is certain; its silence says nothing of the lease."""
        if self._connection.read(lambda stubs, seconds: self._keep_alive(stubs, lease), None) <= 0:
            self.gone(lease)

    def _get(self) -> None:
        """One whose grant was not answered ends by itself."""
        request = grant(self._seconds)
        answer = self._connection.write(
            lambda stubs, seconds: stubs.lease.LeaseGrant(request, timeout=self._patience(seconds)), None
        )
        with self._changed:
            if not self._closed:
                self._id = int(answer.ID)
                if self._lost:
                    self._lost = False
                    self._tell("new")
                self._changed.notify_all()
                return
        self._connection.read(lambda stubs, seconds: self._revoke(stubs, int(answer.ID)), None, 0)

    def _keep_alive(self, stubs: Stubs, lease: int) -> int:
        """How long it will live."""
        call = stubs.lease.LeaseKeepAlive(iter([keep_alive(lease)]), timeout=self._patience(self._connection.silence))
        try:
            return int(next(call).TTL)
        except StopIteration:
            return self._seconds  # the server ended the call without a word
        finally:
            call.cancel()

    def _revoke(self, stubs: Stubs, lease: int) -> None:
        try:
            stubs.lease.LeaseRevoke(revoke(lease), timeout=REVOKE_SECONDS)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                log.debug("the lease was not revoked: it ends by itself", exc_info=True)

    def _patience(self, seconds: float) -> float:
        """A server that says nothing for so long is left, while another can still be asked in time."""
        return min(seconds, self._seconds / RENEWALS)
