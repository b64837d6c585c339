"""EnsembleChanges: other bookies for those that a writer had to leave out.

One daemon thread of a client waits in C, without the GIL, for a bookie that failed. It chooses another one, has C hold
the LAC, writes the new segment to the metadata by compare-and-set, and tells C, which sends what is not confirmed to
the new bookie. Acknowledgements stop for the time of that one write. Where no other bookie is up, the writer stays
degraded: it goes on with those that are left, and the thread tries again once in a while.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from walkeeper._native import ffi, lib
from walkeeper.errors import ClosedError, Error, FencedError, LedgerNotFoundError, new_error
from walkeeper.ledgers._bookie_choice import BookieChoice
from walkeeper.ledgers._bookie_numbers import BookieNumbers
from walkeeper.ledgers._metadata_change import change
from walkeeper.ledgers._native_handles import NativeClient, NativeHandle
from walkeeper.metadata import (
    Cluster,
    LedgerMetadata,
    LedgerState,
    MetadataError,
    UnavailableError,
)

__all__ = ["EnsembleChanges"]

RETRY_SECONDS = 1.0
"""Between two looks for bookies while a writer is degraded."""
STUCK_SECONDS = 2.0
"""Adds wait so long for a bookie that could take the place of one that failed: a registration may be late. Then they
fail."""
_WAIT_NS = 200_000_000
"""How long the thread stays in C at most, so that it sees that bookies came, or that the client was closed."""

log = logging.getLogger("walkeeper.ledgers")


class WatchedWriter:
    """A writer's handle and the metadata that its ledger has, as far as the writer knows."""

    __slots__ = ("__weakref__", "handle", "ledger_id", "lock", "metadata", "stuck_since")

    def __init__(self, handle: NativeHandle, ledger_id: int, metadata: LedgerMetadata) -> None:
        self.handle = handle
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.lock = threading.Lock()
        """Held while the ensemble is changed: who closes the ledger waits for the end of that."""
        self.stuck_since: float | None = None
        """Since when adds wait for a bookie and none is up."""


class EnsembleChanges:
    """The writers of one client, and the thread that looks after them; it starts with the first failure."""

    def __init__(self, client: NativeClient, cluster: Cluster, numbers: BookieNumbers, choice: BookieChoice) -> None:
        self._client = client
        self._cluster = cluster
        self._numbers = numbers
        self._choice = choice
        self._writers: weakref.WeakSet[WatchedWriter] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def watch(self, handle: NativeHandle, ledger_id: int, metadata: LedgerMetadata) -> WatchedWriter:
        """Looks after a new writer for as long as what is returned lives."""
        watched = WatchedWriter(handle, ledger_id, metadata)
        with self._lock:
            self._writers.add(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="walkeeper-ensembles", daemon=True)
                self._thread.start()
        return watched

    def stop(self) -> None:
        """The client was stopped: the thread ends by itself."""
        self._stopping.set()

    def _run(self) -> None:
        turn = ffi.new("uint32_t *")
        look_at = 0.0
        while not self._stopping.is_set():
            try:
                with self._client as native:
                    status = lib.wk_client_wait_failure(native, turn, _WAIT_NS)
            except Error:
                return
            if status == lib.WK_CLOSED:
                return
            if status == lib.WK_OK or time.monotonic() >= look_at:
                degraded = self._look()
                wait = 0.0 if self._is_stuck() else RETRY_SECONDS
                look_at = time.monotonic() + wait if degraded else float("inf")

    def _is_stuck(self) -> bool:
        with self._lock:
            return any(watched.stuck_since is not None for watched in self._writers)

    def _look(self) -> bool:
        """Whether some writer stays degraded."""
        with self._lock:
            writers = list(self._writers)
        degraded = [self._serve(watched) for watched in writers]  # each of them
        return any(degraded)

    def _serve(self, watched: WatchedWriter) -> bool:
        """Whether the writer stays degraded."""
        try:
            with watched.lock:
                state = watched.handle.state()
                if state.status != lib.WK_OK or not state.failed_slots:
                    return False
                return not self._change(watched, state.failed_slots, state.stuck)
        except ClosedError:
            return False
        except Exception as error:  # the store, or the name service: it is tried again
            log.warning("the ensemble of ledger %d is not changed, trying again: %s", watched.ledger_id, error)
            return True

    def _change(self, watched: WatchedWriter, failed_slots: int, stuck: bool) -> bool:
        """Whether every slot that failed has another bookie now."""
        first = list(watched.metadata.segments)[-1]
        ensemble = watched.metadata.segments[first]
        failed = [slot for slot in range(len(ensemble)) if failed_slots >> slot & 1]
        self._choice.quarantine(ensemble[slot] for slot in failed)
        replaced = self._choice.replacements(ensemble, failed, watched.metadata.write_quorum)
        if not replaced:
            now = time.monotonic()
            watched.stuck_since = (watched.stuck_since or now) if stuck else None
            if watched.stuck_since is not None and now - watched.stuck_since >= STUCK_SECONDS:
                names = ", ".join(ensemble[slot] for slot in failed)
                log.warning("ledger %d: no bookie is up that could replace %s", watched.ledger_id, names)
                self._abort(watched, lib.WK_UNAVAILABLE)
            return False
        watched.stuck_since = None
        other = tuple(replaced.get(slot, bookie_id) for slot, bookie_id in enumerate(ensemble))
        numbers = self._numbers.of(other)
        self._write(watched, ensemble, other, replaced, [numbers[bookie_id] for bookie_id in other])
        return len(replaced) == len(failed)

    def _write(
        self,
        watched: WatchedWriter,
        ensemble: tuple[str, ...],
        other: tuple[str, ...],
        replaced: dict[int, str],
        numbers: list[int],
    ) -> None:
        first, error = ffi.new("int64_t *"), new_error()
        with watched.handle as native:
            if lib.wk_handle_change_begin(native, first, error) != lib.WK_OK:
                return
        outcome = lib.WK_UNAVAILABLE  # nobody knows what was written
        committed = False
        try:
            decide = _with_segment(watched.ledger_id, ensemble, int(first[0]), other)
            found = change(self._cluster.ledgers, watched.ledger_id, decide)
            with watched.handle as native:
                slots = sum(1 << slot for slot in replaced)
                lib.wk_handle_change_commit(native, slots, ffi.new("uint32_t[]", numbers), error)
            committed = True
            watched.metadata = found.value
        except (FencedError, LedgerNotFoundError):
            outcome = lib.WK_FENCED
        except UnavailableError:
            outcome = lib.WK_OK  # nothing was written: the writer goes on with what it has
            raise
        except MetadataError:
            raise
        finally:
            if not committed:
                self._abort(watched, outcome)

    def _abort(self, watched: WatchedWriter, status: int) -> None:
        with watched.handle as native:
            lib.wk_handle_change_abort(native, status)


def _with_segment(
    ledger_id: int, ensemble: tuple[str, ...], first: int, other: tuple[str, ...]
) -> Callable[[LedgerMetadata], LedgerMetadata | None]:
    """The decision of a writer that goes on with `other` from entry `first` on. FencedError where it may not."""

    def decide(now: LedgerMetadata) -> LedgerMetadata | None:
        segments: dict[int, Any] = dict(now.segments)
        last = list(segments)[-1]
        if now.state is not LedgerState.OPEN:
            raise FencedError(
                f"ledger {ledger_id} is {now.state.name}: another client recovers it", ledger_id=ledger_id
            )
        if last == first and segments[last] == other:
            return None
        if last > first or segments[last] != ensemble:
            raise FencedError(f"another client changed the ensemble of ledger {ledger_id}", ledger_id=ledger_id)
        segments[first] = other
        return replace(now, segments=segments)

    return decide
