"""The C objects of a client: `with … as native:` for each call, which keeps them for so long.

Each may be closed before the call comes to C, by another thread or by a signal handler in this one. Its memory stays
until the last call has returned.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from walkeeper._native import ffi, lib
from walkeeper.errors import ClosedError, ForkedError, check, new_error
from walkeeper.ledgers._errors import failure

__all__ = ["HandleState", "NativeClient", "NativeHandle", "in_this_process"]

_FORKED = "it belongs to the parent process; make a LedgerClient after the fork, in the process that uses it"


class HandleState(NamedTuple):
    """What a wk_handle_state says."""

    lac: int
    length: int
    last_add_pushed: int
    status: int
    failed_slots: int = 0
    """Bit i: bookie i of the last segment is left out."""
    stuck: bool = False
    """Some entry cannot be confirmed by the bookies that are left."""


class NativeClient:
    """A wk_client, and which handles there are of it."""

    __slots__ = ("_handles", "_lock", "_native", "_pid")

    def __init__(self, options: Any) -> None:
        out, error = ffi.new("wk_client **"), new_error()
        check(lib.wk_client_start(options, out, error), error)
        self._pid = os.getpid()
        self._native: Any = ffi.gc(out[0], in_this_process(lib.wk_client_release))
        self._lock = threading.RLock()
        self._handles: weakref.WeakSet[NativeHandle] = weakref.WeakSet()

    def __enter__(self) -> Any:
        native = self._native
        if native is None:
            raise ClosedError("the client was closed")
        if self._pid != os.getpid():
            raise ForkedError(f"this client was made before a fork: {_FORKED}")
        return native

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def closed(self) -> bool:
        return self._native is None

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made it."""
        return self._pid != os.getpid()

    def stop(self) -> None:
        """Ends the driver and the connections; whoever waits is told. In a forked child it is only forgotten.

        The handles are given back to C, which frees all of the client when the last call that is inside has returned.
        """
        native, self._native = self._native, None
        if native is not None and not self.forked:
            lib.wk_client_stop(native)
            with self._lock:
                handles = tuple(self._handles)
            for handle in handles:
                handle.give_back()

    def add(self, handle: NativeHandle) -> None:
        """A new handle, which goes with the client."""
        with self._lock:
            self._handles.add(handle)
        if self._native is None:  # it was stopped since
            handle.give_back()


class NativeHandle:
    """A wk_handle. One that was let go of answers its last state."""

    __slots__ = ("__weakref__", "_last", "_native", "_pid", "closed", "ledger_id")

    def __init__(self, client: NativeClient, ledger_id: int, spec: Any, mode: int) -> None:
        out, error = ffi.new("wk_handle **"), new_error()
        with client as native:
            status = lib.wk_handle_open(native, spec, mode, out, error)
        if status != lib.WK_OK:
            raise failure(status, error, ledger_id)
        self.ledger_id = ledger_id
        self._pid = os.getpid()
        self._native: Any = ffi.gc(out[0], in_this_process(lib.wk_handle_close))
        self._last = HandleState(-1, 0, -1, lib.WK_OK)
        self.closed = False
        """Whether its user closed it; one of a client that was closed is not."""
        client.add(self)

    def __enter__(self) -> Any:
        native = self._native
        if native is None:
            what = "handle" if self.closed else "handle's client"
            raise ClosedError(f"this {what} was closed: ledger {self.ledger_id}", ledger_id=self.ledger_id)
        if self._pid != os.getpid():
            raise ForkedError(f"this handle of ledger {self.ledger_id} was made before a fork: {_FORKED}")
        return native

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def forked(self) -> bool:
        return self._pid != os.getpid()

    def state(self) -> HandleState:
        """What the handle knows now."""
        native = self._native
        if native is None:
            return self._last
        with self as native:
            return _state_of(native)

    def let_go(self) -> None:
        """Closed by its user: no call uses it any more from now on."""
        self.closed = True
        self.give_back()

    def give_back(self) -> None:
        """C frees it when the last call that is inside has returned."""
        native = self._native
        if native is not None and not self.forked:
            self._last = _state_of(native)
        self._native = None


def _state_of(native: Any) -> HandleState:
    state = ffi.new("wk_handle_state *")
    lib.wk_handle_state_get(native, state)
    return HandleState(
        state.lac, state.length, state.last_add_pushed, state.status, int(state.failed_slots), bool(state.stuck)
    )


def in_this_process(release: Callable[[Any], None]) -> Callable[[Any], None]:
    """A destructor that leaves what a forked child inherited alone."""
    pid = os.getpid()

    def destroy(native: Any, getpid: Callable[[], int] = os.getpid) -> None:
        if getpid() == pid:
            release(native)

    return destroy
