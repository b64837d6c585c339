"""SqliteKeeper: the thread of a SqliteStore: looks for changes while somebody watches, beats while there is a session.

It sleeps without a limit while there is neither.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walkeeper.metadata._hints import Hint
from walkeeper.metadata._keys import place_of
from walkeeper.metadata._log import log
from walkeeper.metadata._sqlite_file import SqliteFile
from walkeeper.metadata._sqlite_session import SqliteSession
from walkeeper.metadata._store import ClosedError, MetadataError, UnavailableError

if TYPE_CHECKING:
    import sqlite3

LOOK_SECONDS = 0.015
LIVENESS_SECONDS = 0.25
DEFECT_SECONDS = 1.0
"""Until the next turn after one that failed as none should: without this thread the session would end in silence."""

Mark = tuple[int, int] | None


@dataclass(eq=False)
class Watched:
    """A watch and the state of its key when it was last looked at."""

    key: str
    hint: Hint
    mark: Mark


class SqliteKeeper:
    """`bury_dead` buries the sessions that are dead, so that who watches their keys is told."""

    def __init__(self, file: SqliteFile, session: SqliteSession, bury_dead: Callable[[], None]) -> None:
        self._file = file
        self._session = session
        self._bury_dead = bury_dead
        self._changed = threading.Condition()
        self._watched: list[Watched] = []
        self._thread: threading.Thread | None = None
        self._poked = False
        self._stale = False  # a watch came after the last look began: look whatever the data version says
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        self._data_version = -1
        self._liveness_at = 0.0

    def watch(self, key: str, make: Callable[[Callable[[Hint], None]], Hint]) -> Hint:
        """What changes from now on gives a hint."""
        mark = self._file.read(lambda connection: _mark(connection, key), key)
        watched = Watched(key, make(lambda hint: self._forget(watched)), mark)
        with self._changed:
            self._watched.append(watched)
            self._stale = True
        try:
            self.poke()
        except BaseException:
            watched.hint.close()
            raise
        return watched.hint

    def poke(self) -> None:
        """There may be something to do: a change of our own, or a session. UnavailableError: no thread can be had."""
        with self._changed:
            self._poked = True
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name="walkeeper-metadata-sqlite", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise UnavailableError(f"no thread can be started for {self._file.path}: {error}") from error
                self._thread = thread
            self._changed.notify()

    @property
    def has_watches(self) -> bool:
        return bool(self._watched)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _forget(self, watched: Watched) -> None:
        with self._changed:
            if watched in self._watched:
                self._watched.remove(watched)

    def _run(self) -> None:
        beat_in: float | None = None
        try:
            while self._sleep(beat_in):
                beat_in = self._beat_and_look()
        finally:
            self._let_go()

    def _beat_and_look(self) -> float | None:
        """In how many seconds to beat again; whatever happens, the thread goes on."""
        try:
            beat_in = self._session.beat()
            if self._watched and not self._closed:
                with_liveness = time.monotonic() >= self._liveness_at
                if with_liveness:
                    self._liveness_at = time.monotonic() + LIVENESS_SECONDS
                self._turn(with_liveness)
        except Exception:
            log.exception("a turn of the thread of %s failed", self._file.path)
            self._let_go()
            with self._changed:
                self._changed.wait_for(lambda: self._closed, DEFECT_SECONDS)
            return 0.0
        return beat_in

    def _turn(self, with_liveness: bool) -> None:
        try:
            if with_liveness:
                self._bury_dead()
            self._look()
        except (ClosedError, UnavailableError) as error:
            log.debug("watching a metadata store: %s", error)  # the next turn looks again
        except MetadataError as error:
            log.warning("watching a metadata store: %s", error)
            self._let_go()

    def _sleep(self, beat_in: float | None) -> bool:
        """Until there is something to do. False: it is the end."""
        with self._changed:
            seconds = beat_in
            if self._watched:
                seconds = LOOK_SECONDS if seconds is None else min(seconds, LOOK_SECONDS)
            self._changed.wait_for(lambda: self._poked or self._closed, seconds)
            self._poked = False
            return not self._closed

    def _look(self) -> None:
        """Hints for whatever is not as it was when it was last looked at."""
        import sqlite3

        try:
            if self._connection is not None and not self._file.is_current(self._connection):
                self._let_go()
                self._stale = True
            if self._connection is None:
                self._connection = self._file.take(busy_timeout=0)
                self._data_version = -1
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            with self._changed:
                if version == self._data_version and not self._stale:
                    return
                self._stale = False
                watched = list(self._watched)
            for each in watched:
                mark = _mark(self._connection, each.key)
                if mark != each.mark:
                    each.mark = mark
                    each.hint.post()
            self._data_version = version
        except sqlite3.Error as error:
            self._stale = True
            if "locked" not in str(error):  # a writer is at work: the next look sees what it did
                raise self._file.error(error) from error

    def _let_go(self) -> None:
        if self._connection is not None:
            self._file.give(self._connection, healthy=False)
            self._connection = None


def _mark(connection: sqlite3.Connection, key: str) -> Mark:
    """Differs whenever the key came, went, or has another value or other children."""
    found: Mark = connection.execute(
        "SELECT version, changed FROM key WHERE parent = ? AND name = ?", place_of(key)
    ).fetchone()
    return found
