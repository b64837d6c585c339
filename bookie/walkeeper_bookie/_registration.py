"""Registrar: keeps the bookie registered, writable or read-only, whatever becomes of the session with the metadata.

Losing the session is no reason to end: clients that know the bookie go on using it, and it registers anew as soon as
the store answers. Before that it looks whether that is still its cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from walkeeper.metadata import ClosedError, MetadataError, UnavailableError, UnknownOutcomeError, Watch
from walkeeper_bookie._collector import WrongClusterError
from walkeeper_bookie._disk_watch import FreeSpaceNews
from walkeeper_bookie._log import Log
from walkeeper_bookie._readiness import Check, Outcome, Question

__all__ = ["Registrar", "Registry"]

Answer = TypeVar("Answer")
RETRY_MIN_S = 0.1
RETRY_MAX_S = 5.0
LOOK_S = 10.0
"""How often it looks without being told to, whether the registration is there."""
CLOSE_S = 3.0
"""How long a store that does not answer holds up the end."""


class Registry(Protocol):
    """The store, as far as registering goes. Every call raises MetadataError where the store does not answer."""

    def session(self) -> int: ...

    def on_session(self, callback: Callable[[Literal["lost", "new"]], None]) -> Watch: ...

    def instance_id(self) -> str | None: ...

    def register(self, read_only: bool) -> None:
        """Registered so and not otherwise when it returns, in this session. A stale registration, of an earlier
        session of this bookie, is taken over: who calls holds the directory's lock and a matching cookie."""

    def registered(self) -> bool:
        """Whether that is so still, and clients find it."""
        ...

    def publish_free_bytes(self, free_bytes: int) -> None:
        """The registration says so when it returns, without having been away."""
        ...

    def unregister(self) -> None: ...


class Registrar:
    """One thread of its own from `start` to `close`.

    A store that does not answer says nothing about the registration, which stands as long as the session does: clients
    are sent here for `session_timeout` more, and no longer. `failed` gets what else the thread ended by: the process
    must not live on without it.
    """

    def __init__(
        self,
        registry: Registry,
        instance_id: str,
        log: Log,
        session_timeout: float,
        failed: Callable[[str, BaseException], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry, self._instance_id, self._log = registry, instance_id, log
        self._session_timeout, self._failed, self._monotonic = session_timeout, failed, monotonic
        self._wake = threading.Event()
        self._closing = False
        self._wanted = False
        self._done: tuple[int, bool] | None = None
        """Session and state of the registration that was made, and of which nobody said that it is gone."""
        self._question = Question("whether the bookie is registered", "the metadata store", monotonic)
        self._wrong = ""
        """What the last answer, or the lack of one, was; empty: it is registered as wanted."""
        self._lost_since: float | None = None
        """Since when it is known not to be registered."""
        self._free: int | None = None
        """What the disk has free, as it was seen last."""
        self._news: FreeSpaceNews | None = None
        """Of what was published of it; None: nothing yet."""
        self._thread = threading.Thread(target=self._run, name="registrar", daemon=True)
        self._watch: Watch | None = None
        self.registrations = 0

    def start(self, read_only: bool, free_bytes: int | None = None) -> None:
        """Registers; from then on it is kept up. `free_bytes`: what the registration says of the disk. Raises
        MetadataError, WrongClusterError."""
        self._wanted = read_only
        if free_bytes is not None:
            self._news = FreeSpaceNews(free_bytes, self._monotonic())
        self._watch = self._registry.on_session(lambda _: self._wake.set())
        try:
            self._register()
        except BaseException:
            self._watch.close()
            raise
        self._thread.start()

    def want(self, read_only: bool) -> None:
        """Read-only or writable; it is made so soon."""
        if self._wanted != read_only:
            self._wanted = read_only
            self._wake.set()

    def tell_free_bytes(self, free_bytes: int) -> None:
        """So much is free now. It is published where that is news, at one of the looks that are taken anyway."""
        self._free = free_bytes

    def check(self) -> Check:
        """Whether clients find the bookie, as far as is known, perhaps still in its earlier state. Asks nobody."""
        done, since = self._done, self._lost_since
        if done is None or done[0] != self._registry.session():
            lasts = "" if since is None else f" for {self._monotonic() - since:.0f} s"
            return Check(Outcome.WRONG, f"not registered{lasts}: {self._wrong or 'the session was lost'}")
        check = self._question.silence(self._session_timeout, self._session_timeout + LOOK_S)
        if check.outcome is not Outcome.OK and self._wrong:
            return Check(check.outcome, f"{check.text}: {self._wrong}")
        return check

    @property
    def problem(self) -> str:
        """Why clients may not find the bookie; empty: they do. For people."""
        return self.check().text

    @property
    def registered(self) -> bool:
        return not self.problem

    def close(self) -> None:
        """Clients find it no more; where the store does not answer for CLOSE_S, as soon as the session ends."""
        self._closing = True
        self._wake.set()
        if self._watch is not None:
            self._watch.close()
        # A call may wait longer than a session lasts: one that goes on behind this ends when the store is closed.
        problem: list[object] = ["the store does not answer"]
        end = threading.Thread(target=self._end, args=(problem,), name="unregister", daemon=True)
        end.start()
        end.join(CLOSE_S)
        self._done = None
        for wrong in problem[-1:]:
            self._log.warning("not unregistered: the session's end will do it", error=wrong)

    def _end(self, problem: list[object]) -> None:
        """Empties `problem`, or puts a better one there."""
        if self._thread.is_alive():
            self._thread.join()
        try:
            self._registry.unregister()
            problem.clear()
        except Exception as wrong:
            problem.append(wrong)

    def _run(self) -> None:
        try:
            self._keep_up()
        except BaseException as error:
            self._done, self._wrong = None, f"a defect: {error!r}"
            self._failed(self._thread.name, error)

    def _keep_up(self) -> None:
        pause = RETRY_MIN_S
        while not self._closing:
            told = self._wake.wait(pause if self._wrong else LOOK_S)
            self._wake.clear()
            if self._closing:
                return
            try:
                self._look(ask=bool(self._wrong) or not told)
                self._publish_free_bytes()
            except (UnavailableError, UnknownOutcomeError, ClosedError) as wrong:
                self._say(wrong)
                pause = min(pause * 2, RETRY_MAX_S)
            except (WrongClusterError, MetadataError) as wrong:
                self._done = None
                self._say(wrong)
                pause = min(pause * 2, RETRY_MAX_S)
            else:
                self._wrong, self._lost_since = "", None
                pause = RETRY_MIN_S

    def _look(self, ask: bool) -> None:
        """Registered as wanted when it returns. `ask`: the store is asked also where nothing is known to be wrong."""
        if self._done != (self._registry.session(), self._wanted):
            self._register()
        elif ask and not self._ask(self._registry.registered):
            self._done = None
            self._register()
        elif self._wrong:
            self._log.info("the metadata store answers again, and the bookie is registered")

    def _publish_free_bytes(self) -> None:
        free, now = self._free, self._monotonic()
        if free is None or (self._news is not None and not self._news.due(free, now)):
            return
        self._ask(lambda: self._registry.publish_free_bytes(free))
        self._news = FreeSpaceNews(free, now)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """What the store answers. The answer counts when it comes, whatever is done with it next: what this thread
        waits for then is no silence of the store."""
        self._question.ask()
        try:
            answer = question()
        except (UnavailableError, UnknownOutcomeError, ClosedError):
            raise
        except MetadataError:  # the store has answered
            self._question.answered()
            raise
        self._question.answered()
        return answer

    def _say(self, wrong: Exception) -> None:
        before, self._wrong = self._wrong, str(wrong) or type(wrong).__name__
        if self._wrong != before:
            stands = self._done is not None and self._done[0] == self._registry.session()
            if not stands and self._lost_since is None:
                self._lost_since = self._monotonic()
            what = "whether the bookie is registered cannot be told" if stands else "not registered"
            self._log.warning(f"{what}, trying again", error=wrong)

    def _register(self) -> None:
        session, read_only = self._registry.session(), self._wanted
        found = self._ask(self._registry.instance_id)
        if found != self._instance_id:
            raise WrongClusterError(f"INSTANCEID {found or 'absent'}, the cookie has {self._instance_id}")
        self._ask(lambda: self._registry.register(read_only))
        if self._registry.session() != session:
            raise UnavailableError("the session was lost while the bookie registered")
        self._done = (session, read_only)
        self.registrations += 1
        self._log.info("registered", read_only=read_only, session=session)
