"""Retention: lets old segments of logs go while their namespace is open; one daemon thread, where a log wants it."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING

from walkeeper.errors import Error

if TYPE_CHECKING:
    from walkeeper.cluster._namespace import ClusterNamespace

__all__ = ["NEVER", "Retention"]

NEVER = (0, 2**64 - 1)
"""Retentions by which nothing goes by itself."""
PAUSE_SECONDS = (0.25, 60.0)
"""The least and the most between two looks at a log: a quarter of its retention, within these."""

log = logging.getLogger("walkeeper.cluster")


class Retention:
    """The logs of one namespace that this process has opened."""

    def __init__(self, namespace: ClusterNamespace) -> None:
        self._namespace = weakref.ref(namespace)
        self._logs: dict[str, float] = {}
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, log_id: str, seconds: int) -> None:
        if seconds in NEVER:
            return
        with self._lock:
            self._logs[log_id] = min(max(seconds / 4, PAUSE_SECONDS[0]), PAUSE_SECONDS[1])
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="walkeeper-retention", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(5.0)

    def _pause(self) -> float:
        with self._lock:
            return min(self._logs.values())

    def _run(self) -> None:
        while not self._stopping.wait(self._pause()):
            namespace = self._namespace()
            if namespace is None:
                return
            with self._lock:
                logs = list(self._logs)
            for log_id in logs:
                try:
                    namespace._retain(log_id, namespace._store.read(log_id)[0])
                except Error as error:  # noqa: PERF203 - it is tried again
                    log.debug("old segments of log %s stay for now: %s", log_id, error)
            del namespace
