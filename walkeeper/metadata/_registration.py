"""Registration: a bookie says that it is up, for as long as this process lives."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Literal

from walkeeper.metadata._bookie_id import InvalidBookieIdError, bookie_address, check_bookie_id
from walkeeper.metadata._bookies import Bookies
from walkeeper.metadata._cluster_keys import ClusterKeys
from walkeeper.metadata._cookie import Cookie
from walkeeper.metadata._log import log
from walkeeper.metadata._service_info import ServiceInfo
from walkeeper.metadata._settle import TRIES_MAX, settle_delete
from walkeeper.metadata._store import (
    ClosedError,
    ConflictError,
    ExistsError,
    MetadataError,
    MetadataStore,
    MissingError,
    UnknownOutcomeError,
    Watch,
)

RETRY_MIN_S = 0.1
RETRY_MAX_S = 5.0
MAY_SAY_MAX = 8
"""Updates whose outcome nobody knows that are remembered."""


@dataclass(frozen=True)
class _Wanted:
    bookie_id: str
    data: bytes
    read_only: bool
    cookie: Cookie | None


class Registration(Bookies):
    """One bookie's registration; also tells of the others, as `Bookies` does.

    After the session with the store was lost it registers again by itself, and tries until it succeeds: `keep` False
    leaves that to the caller, who looks at `registered`.
    """

    def __init__(self, store: MetadataStore, root: str, keys: ClusterKeys | None = None, *, keep: bool = True) -> None:
        super().__init__(store, root, keys)
        self._root = root
        self._keep = keep
        self._lock = threading.RLock()
        self._wanted: _Wanted | None = None
        self._session: int | None = None  # in which it was registered as wanted
        self._ours: int | None = None  # in which this made a node
        self._perhaps: int | None = None  # in which this may have made one: nobody knew
        self._maybe_other = False  # the node of the other state may still be there
        self._may_say: tuple[bytes, ...] = ()  # what the node says, where an update's outcome is not known
        self._watch: Watch | None = None
        self._timer: threading.Timer | None = None
        self.registrations = 0
        """How often it was made: one more after each lost session."""
        self.problem: MetadataError | None = None
        """Why it is not registered at the moment."""

    def register(
        self, bookie_id: str, info: ServiceInfo, read_only: bool = False, *, cookie: Cookie | None = None
    ) -> None:
        """The bookie is registered, writable or read-only and not the other, when this returns.

        A bookie that was killed is registered until its session ends. Who holds the lock of the bookie's directory
        gives its `cookie`: where the store has the same, such a registration is removed, and a new one made at once.
        Without it: ExistsError.

        MissingError where there is no cluster, or no cookie; CookieMismatchError; InvalidBookieIdError where
        registrations have no value (etcd) and the id is not the bookie's address; otherwise what the store raises, and
        then nobody knows whether it is registered: call again, or `unregister`.
        """
        wanted = _Wanted(check_bookie_id(bookie_id), self._value(bookie_id, info), read_only, cookie)
        with self._lock:
            if self._wanted is not None and self._wanted.bookie_id != bookie_id:
                raise ValueError(f"this registers {self._wanted.bookie_id}, not {bookie_id}")
            self._wanted = wanted
            if self._keep and self._watch is None:
                self._watch = self._store.on_session(self._session_changed)
            self._establish(wanted)

    def set_read_only(self, read_only: bool) -> None:
        """Registered so and not otherwise when this returns; in between it is registered as both. As `register`."""
        with self._lock:
            if self._wanted is None:
                raise ValueError("there is no bookie registered here")
            wanted = self._wanted
            self._wanted = replace(wanted, read_only=read_only)
            self._establish(self._wanted)

    def update(self, info: ServiceInfo) -> None:
        """The registration says this when this returns, and so do those that are made later.

        The value alone is written: the node stays, with its session, and clients find the bookie all the while. Where
        the node is gone, or somebody else's, nothing is written, and `check` tells. UnavailableError: it says what it
        did; UnknownOutcomeError: nobody knows.
        """
        with self._lock:
            before = self._wanted
            if before is None:
                raise ValueError("there is no bookie registered here")
            wanted = self._wanted = replace(before, data=self._value(before.bookie_id, info))
            if not self.registered:
                return
            # Until the write is certain to be over, what was said before is still right.
            self._may_say = (*self._may_say, before.data)[-MAY_SAY_MAX:]
            key = self._key(wanted, wanted.read_only)
            found = self._store.get(key, linearizable=True)
            if found is None or found.data not in (wanted.data, *self._may_say):
                return
            if found.data != wanted.data:
                try:
                    self._store.put(key, wanted.data, found.version)
                except (ConflictError, MissingError):
                    return
            self._may_say = ()

    @property
    def registered(self) -> bool:
        """Whether it was registered as wanted, in the session that there is now. Asks nobody."""
        try:
            return self._session is not None and self._session == self._store.session()
        except ClosedError:
            return False

    def check(self) -> bool:
        """Whether it is registered as wanted, and somebody who asks the store finds it."""
        with self._lock:
            wanted = self._wanted
            if wanted is None or not self.registered:
                return False
            found = self._store.get(self._key(wanted, wanted.read_only), linearizable=True)
            return found is not None and found.data in (wanted.data, *self._may_say) and self.registered

    def unregister(self) -> None:
        """The bookie is not registered any more by this. Where the store does not answer, its session's end does it."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
            sessions = {self._ours, self._perhaps} - {None}
            self._session = self._ours = self._perhaps = None
            watch, self._watch = self._watch, None
            if watch is not None:
                watch.close()
            if self._timer is not None:
                self._timer.cancel()
            # What another session made is not ours: the bookie may run elsewhere by now.
            if wanted is not None and self._store.session() in sessions:
                self._delete(self._key(wanted, wanted.read_only))
                if self._maybe_other:
                    self._delete(self._key(wanted, not wanted.read_only))

    def _establish(self, wanted: _Wanted) -> None:
        """The new node, then away with the other one: clients always find the bookie in one of the two."""
        for _ in range(TRIES_MAX):
            session = self._store.session()
            self._session = None
            self._check_cookie(wanted)
            self._maybe_other = True
            self._create(wanted, session)
            self._delete(self._key(wanted, not wanted.read_only))
            self._maybe_other = False
            self._may_say = ()
            if self._store.session() == session:
                self._session = session
                self.registrations += 1
                self.problem = None
                return
        raise UnknownOutcomeError(f"the session was lost {TRIES_MAX} times while {wanted.bookie_id} registered")

    def _check_cookie(self, wanted: _Wanted) -> None:
        if wanted.cookie is not None:
            stored = self._cookies.get(wanted.bookie_id)
            if stored is None:
                raise MissingError(f"the cluster at {self._root} has no cookie of {wanted.bookie_id}")
            wanted.cookie.check(stored.value)

    def _create(self, wanted: _Wanted, session: int) -> None:
        """A node of this session. One that is there already is ours, or it is removed, where the cookie says so."""
        key = self._key(wanted, wanted.read_only)
        ours = self._ours == session
        unsure: UnknownOutcomeError | None = None
        for _ in range(TRIES_MAX):
            try:
                self._store.create(key, wanted.data, ephemeral=True)
                self._ours = session
                return
            except MissingError:
                if not wanted.read_only:
                    raise
                self._create_folder()
                continue
            except UnknownOutcomeError as error:
                unsure = error
                self._perhaps = session
            except ExistsError:
                if wanted.cookie is None and unsure is None and not ours:
                    raise
            found = self._store.get(key, linearizable=True)
            if found is None:
                continue
            if ours and found.ephemeral and found.data == wanted.data and unsure is None:
                return
            if wanted.cookie is None and not ours and found.data != wanted.data:
                raise ExistsError(f"{key} is another process's", key)
            # Whose session it belongs to is not to be seen. Made anew it is ours for certain.
            try:
                self._store.delete(key, found.version)
            except (MissingError, ConflictError):
                pass
            except UnknownOutcomeError as error:
                unsure = error
        raise unsure or ExistsError(f"{key} came back {TRIES_MAX} times: this bookie runs twice", key)

    def _create_folder(self) -> None:
        """Older clusters have no folder for read-only bookies. MissingError where there is no cluster."""
        try:
            self._store.create(self._read_only)
        except (ExistsError, UnknownOutcomeError):
            pass

    def _delete(self, key: str) -> None:
        settle_delete(lambda: self._store.delete(key))

    def _key(self, wanted: _Wanted, read_only: bool) -> str:
        return f"{self._read_only if read_only else self._writable}/{wanted.bookie_id}"

    def _value(self, bookie_id: str, info: ServiceInfo) -> bytes:
        """What the node says of the bookie. Where clients go by the id alone: nothing, unless it has properties."""
        if self._cluster_keys.service_info:
            return info.serialise()
        bookie = info.bookie
        if bookie is None or bookie_address(bookie_id) != (bookie.host, bookie.port):
            where = "nowhere" if bookie is None else f"at {bookie.host}:{bookie.port}"
            raise InvalidBookieIdError(
                f"{bookie_id} answers {where}: on {self._store.uri} clients learn of a bookie its id alone, which must "
                f"be its address"
            )
        return info.serialise() if info.properties else b""

    def _session_changed(self, what: Literal["lost", "new"]) -> None:
        if what == "new":
            self._again(RETRY_MIN_S)

    def _again(self, pause: float) -> None:
        """Registers after the session was lost; where that fails, after a pause, which doubles."""
        with self._lock:
            if self._wanted is None or self.registered:
                return
            try:
                self._establish(self._wanted)
            except ClosedError:
                return
            except MetadataError as error:
                self.problem = error
                log.warning("%s is not registered, trying again: %s", self._wanted.bookie_id, error)
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = threading.Timer(pause, self._again, [min(2 * pause, RETRY_MAX_S)])
                self._timer.daemon = True
                self._timer.start()
