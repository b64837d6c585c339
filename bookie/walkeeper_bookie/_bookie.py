"""Bookie: the parts of a running bookie, brought up in an order in which none believes what is not checked yet.

addresses     bound, before anything is made or read: nobody else has them, and nobody can connect yet
metadata      the URI names a store, it answers, and its ledgers have the keys that the URI says
directory     its lock: nobody else is this bookie while we hold it
cluster       its INSTANCEID, and the cookies: this directory is that bookie; its starts: it is no older copy
limbo, tombs  what must not be said to be absent, and what is refused: before the first request
server        told what holds, and ready to serve
HTTP          not ready yet
listening     whoever knows the address may come: from the first connection on it is what it will be
registration  clients find it
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from walkeeper.errors import Error, StorageError
from walkeeper.metadata import MetadataError, MissingError, UnavailableError, UnknownOutcomeError
from walkeeper_bookie._addresses import AddressError, is_in_use, is_locked, reserved
from walkeeper_bookie._collector import Acknowledgement, Collector
from walkeeper_bookie._damage import open_behind_damage
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._descriptors import connections_permitted, limit_for, raise_limit
from walkeeper_bookie._directory import (
    Directory,
    DirectoryStats,
    JournalTimes,
    Recovery,
    make_data_directory,
    make_journal_directory,
    refuse_file,
    refuse_nested,
    refuse_unnameable,
)
from walkeeper_bookie._disk_watch import DiskState, DiskWatch, Space, look
from walkeeper_bookie._emergency_space import EmergencySpace
from walkeeper_bookie._gc_state_file import GcStateFile
from walkeeper_bookie._identity import establish, expected_cookie, is_directory_of, no_cluster, refuse_lost_store
from walkeeper_bookie._limbo import Limbo, reason_for_limbo
from walkeeper_bookie._log import Log
from walkeeper_bookie._metadata import BookieMetadata, open_metadata
from walkeeper_bookie._metadata_retry import MetadataRetry, MetadataUnreachableError, StoppedError
from walkeeper_bookie._native_options import backend_name, directory_options, server_options, thresholds
from walkeeper_bookie._readiness import Check, Outcome, Question, not_ready
from walkeeper_bookie._registration import Registrar
from walkeeper_bookie._server import Server, ServerStats
from walkeeper_bookie._settings import Settings
from walkeeper_bookie._starts import adopt, count_start
from walkeeper_bookie._state_files import LimboFile, LimboState, ReadOnlyFile, StartsFile, TombstoneFile
from walkeeper_bookie._worker import Worker

if TYPE_CHECKING:
    from walkeeper_bookie._http import HttpServer
    from walkeeper_bookie._kinds import Address
    from walkeeper_bookie._metrics import Facts
    from walkeeper_bookie._views import BookieViews

__all__ = ["Bookie", "MetadataUnreachableError", "MetadataUriError", "StoppedError"]

NOTE_S = 10.0
NOTE_LIMBO_S = 10.0
LINGER_S = 1.0
"""So long the kernel may keep the address of a bookie that was just killed."""
RESERVE_S = 0.05
"""How often it tries to bind an address that whoever has the directory has still."""
SILENCE_S = 10.0
"""So long the disks, the journal and the server may be silent, or unasked beyond their interval, and count as known."""
WORKER_END_S = 5.0
"""How long, beyond drain_timeout, the directory stays open for threads that are at work in it."""


class MetadataUriError(Exception):
    """The metadata URI names no store."""


class Bookie:
    """One bookie. `start`, then `stop`, once each, the one behind the other, also where `start` failed; the rest from
    any thread."""

    directory: Directory
    metadata: BookieMetadata
    server: Server
    collector: Collector
    registrar: Registrar
    limbo: Limbo
    bookie_id: str

    def __init__(self, settings: Settings, log: Log, told_to_stop: Callable[[], bool]) -> None:
        self.settings, self.log = settings, log
        self._told_to_stop = told_to_stop
        self._data = DataDirectory(Path(os.path.abspath(settings.data)))
        self._journal = None if settings.journal is None else Path(os.path.abspath(settings.journal))
        self._switch = ReadOnlyFile(self._data.read_only)
        self._started = time.monotonic()
        self._undo: list[tuple[str, Callable[[], object]]] = []
        """What `stop` does, the last first, each with its name for people."""
        self._workers: dict[str, Worker] = {}
        self._watch = DiskWatch(thresholds(settings))
        self._watching = threading.Lock()
        self._journal_question = Question("whether the journal failed", "the ledger store")
        self._journal_failed = False
        self._disks_question = Question("how much of the disks is free", "the disk")
        self._server_question = Question("whether requests are served", "the server's thread")
        self._emergency_space = EmergencySpace(
            self._data.spare, self._data.limbo, self._data.tombstones, self._data.gc_state
        )
        self._tombs: TombstoneFile | None = None
        self._reserved: dict[str, socket.socket] = {}
        """By setting: where it will listen. Bound, and not listening yet."""
        self._lock_timeout = settings.lock_timeout
        """What is left of it."""
        self._http: HttpServer | None = None
        self._views: BookieViews | None = None
        self._recovery = Recovery(0, 0, 0, 0, 0, 0)
        self._ready = False
        self.start_seconds = 0.0
        self.disk_state = DiskState(read_only=False, high_priority=True, reason="")
        self.space: Space | None = None
        self.journal_space: Space | None = None
        """Of its own disk, where the journal has a directory of its own."""
        self.stopping = False
        self.stop_step = ""
        """What `stop` waits for now."""
        self.crashed: tuple[str, BaseException] | None = None
        """A thread that ended by what it raised: the process must not live on without it."""
        self.drained = True
        self._stop_at = 0.0
        self.close_error: Error | None = None

    # ---- start ----

    def start(self, init: bool) -> None:
        """Serves and is registered when it returns. Raises what went wrong; `stop` then undoes what was done."""
        settings = self.settings
        if settings.http is not None:
            threading.Thread(target=_load_http, name="load http", daemon=True).start()
        refuse_unnameable(self._data.path)
        refuse_file(self._data.path)
        refuse_lost_store(self._data, init)
        if self._journal is not None:
            refuse_unnameable(self._journal, "journal")
            refuse_file(self._journal, "journal")
            refuse_nested(self._data.path, self._journal)
        new = not self._data.cookie.exists()
        # What a new one makes names its address and its journal: a start that fails must leave neither behind.
        self._undo.append(("freeing its addresses", self._free_addresses))
        self._reserve_addresses(0.0 if new else LINGER_S, opened=False)
        retry = self._metadata_retry()
        self._undo.append(("closing the metadata store", self._close_metadata))
        self.metadata = retry.call(lambda: self._open_metadata(init), BookieMetadata.close)
        retry.call(self.metadata.check_layout)
        if new:
            retry.call(self.metadata.instance_id)
        make_data_directory(self._data.path)
        if self._journal is not None and not self._data.store.is_dir():
            make_journal_directory(self._journal)
        skips = settings.on_damage == "skip" and self._is_its_own(retry)
        limbo = LimboFile(self._data.limbo, self._emergency_space)
        self.directory = (
            open_behind_damage(self._open_store, limbo, self.log) if skips else self._open_store(skip_damage=False)
        )
        self._undo.insert(
            0, ("closing the directory", self._close_directory)
        )  # behind the metadata, whose end also ends what waits for them
        self._reserve_addresses(LINGER_S, opened=True)  # of who had the directory until now
        self._recovery = self.directory.recovery()
        retry = self._metadata_retry()
        instance_id = retry.call(lambda: self._cluster(init))
        self.bookie_id = settings.identity(0)
        self._tombs = TombstoneFile(self._data.tombstones, settings.gc_tombstone_time, spare=self._emergency_space)
        self.limbo = self._new_limbo(instance_id, self._tombs)
        self.limbo.load()
        if reason := reason_for_limbo(self._recovery):
            self.limbo.begin(reason)
        expected = expected_cookie(self.bookie_id, self._data.path, instance_id, self._journal)
        retry.call(
            lambda: establish(
                self.metadata,
                self._data,
                expected,
                self._is_empty,
                lambda: self._before_it_counts(instance_id),
                init=init,
            ),
        )
        starts = StartsFile(self._data.starts, self._emergency_space)
        retry.call(lambda: count_start(self.metadata, starts, self.bookie_id, instance_id, self.limbo.begin))
        self._serve(instance_id, self._tombs)
        self._listen_http()
        free = None if self.space is None else self.space.free
        self.metadata.publish(expected, settings.advertised(self._port()), self._http_address(), free)
        self.registrar = Registrar(self.metadata, instance_id, self.log, settings.session_timeout, self._thread_failed)
        self._undo.append(("unregistering", self.registrar.close))
        self._start_noting()
        self._listen()
        retry.call(lambda: self.registrar.start(self._takes_no_ledgers(), free))
        self._start_workers()
        self.start_seconds = time.monotonic() - self._started
        self._ready = True
        self._workers["disk watch"].wake()  # the registration may be that of before an operator's wish

    def _is_its_own(self, retry: MetadataRetry) -> bool:
        """As far as can be told before the directory is open: what is another bookie's is left as it is."""
        return is_directory_of(self._data, self.settings.identity(0), retry.call(self.metadata.instance_id))

    def _open_store(self, skip_damage: bool) -> Directory:
        return Directory.open(
            self._data.store,
            directory_options(self.settings),
            journal=self._journal,
            skip_damage=skip_damage,
            lock_timeout=self._lock_timeout,
            stop=self._told_to_stop,
        )

    def _addresses(self) -> list[tuple[str, Address]]:
        """Where it listens, each with its setting's name."""
        addresses = [("listen", self.settings.listen)]
        if self.settings.http is not None:
            addresses.append(("http", self.settings.http))
        return addresses

    def _reserve_addresses(self, linger: float, opened: bool) -> None:
        """Binds those that are not bound yet, and waits `linger` seconds for one that is in use. Before the directory
        is `opened`: whoever has that may still have its addresses, too. They are waited for as the directory is, and
        where it has them still, the directory's lock is what to tell of. Raises AddressError, StoppedError."""
        began, patience = time.monotonic(), self._lock_timeout
        until = began + linger
        for name, address in self._addresses():
            while name not in self._reserved:
                try:
                    self._reserved[name] = reserved(name, address)
                except AddressError as wrong:  # noqa: PERF203 - it waits anyway
                    if not is_in_use(wrong):
                        raise
                    now = time.monotonic()
                    if not opened and is_locked(self._data.store):
                        self._lock_timeout = max(0.0, patience - (now - began))
                        if self._lock_timeout == 0:
                            return
                        until = now + linger
                    elif now >= until:
                        raise
                    if self._told_to_stop():
                        raise StoppedError from None
                    time.sleep(RESERVE_S)

    def _free_addresses(self) -> None:
        for bound in self._reserved.values():
            bound.close()
        self._reserved.clear()

    def _port(self) -> int:
        """Where it serves, or will."""
        return int(self._reserved["listen"].getsockname()[1]) if "listen" in self._reserved else self.server.port

    def _metadata_retry(self) -> MetadataRetry:
        settings = self.settings
        return MetadataRetry(
            settings.start_timeout, self._told_to_stop, self._close_metadata, settings.metadata, self.log
        )

    def _open_metadata(self, init: bool) -> BookieMetadata:
        try:
            return open_metadata(self.settings.metadata, self.settings.session_timeout, create=init)
        except MissingError as wrong:
            raise no_cluster(self.settings.metadata, str(wrong)) from wrong
        except (UnavailableError, UnknownOutcomeError):
            raise
        except MetadataError as wrong:
            raise MetadataUriError(str(wrong)) from wrong

    def _close_metadata(self) -> bool:
        """Whether there was one already."""
        if not hasattr(self, "metadata"):
            return False
        self.metadata.close()
        return True

    def _cluster(self, init: bool) -> str:
        found = self.metadata.initialize() if init else self.metadata.instance_id()
        if found is None:
            raise no_cluster(self.metadata.uri, "no INSTANCEID")
        return found

    def _is_empty(self) -> bool:
        return len(self.directory.ledgers()) == 0

    def _before_it_counts(self, instance_id: str) -> None:
        """The directory is new. If one was lost under this id, ledgers of the cluster may be those that it held."""
        if next(self.metadata.ledger_ids(), None) is not None:
            self.limbo.begin(reason_for_limbo(self._recovery, new=True))
        adopt(StartsFile(self._data.starts, self._emergency_space), self.metadata.starts(self.bookie_id, instance_id))

    def _new_limbo(self, instance_id: str, tombs: TombstoneFile) -> Limbo:
        return Limbo(
            LimboFile(self._data.limbo, self._emergency_space),
            self.metadata,
            self.directory,
            self.bookie_id,
            instance_id,
            self.log,
            stop=self._told_to_stop,
            deleted=tombs.among,
            stored=self.directory.ledgers,
        )

    def _serve(self, instance_id: str, tombs: TombstoneFile) -> None:
        """What must hold from the first request on is told to the server before it is writable."""
        settings = self.settings
        options = {**server_options(settings), "connections_max": self._connections_max()}
        self.server = Server.start(self.directory, options)
        self._undo.append(("draining the server", self._stop_server))
        self.limbo.attach(self.server.set_limbo)
        self.collector = Collector(
            self.directory,
            self.metadata,
            tombs,
            self.server.set_deleted,
            Acknowledgement(self._data.acknowledged),
            GcStateFile(self._data.gc_state, self._emergency_space),
            instance_id,
            self.log,
            hold_time=settings.gc_hold_time,
            stop=lambda: self.stopping,
            forget=self.limbo.forget,
        )
        self.collector.start()
        if not self._emergency_space.keep():
            self.log.warning(
                "there is no room for the spare: nothing is deleted on a full disk", file=self._emergency_space.path
            )
        self.collector.ledgers = len(self.directory.ledgers())
        self.look_at_disk(first=True)

    def _listen(self) -> None:
        """From here on clients are served, as what the bookie is: writable, unless it is read-only for a reason."""
        try:
            self.server.listen(self._reserved["listen"])
        except StorageError as wrong:
            raise AddressError(f"listen {self.settings.listen}: {wrong}") from wrong
        del self._reserved["listen"]

    def _connections_max(self) -> int:
        limit = raise_limit()
        permitted = connections_permitted(self.settings.connections_max, limit)
        if permitted < self.settings.connections_max:
            self.log.warning(
                "the limit of open files allows fewer connections than connections_max",
                connections=permitted,
                connections_max=self.settings.connections_max,
                limit=limit,
                hint=f"raise it to {limit_for(self.settings.connections_max)} (LimitNOFILE of systemd, ulimit -n), or "
                "lower connections_max",
            )
        return permitted

    def _listen_http(self) -> None:
        if self.settings.http is None:
            return
        http_server, views = _load_http()
        self._views = views(self)
        try:
            self._http = http_server(
                self.settings.http.host, self.settings.http.port, self._views, self.log, self._reserved["http"]
            )
        except OSError as wrong:
            raise AddressError(f"http {self.settings.http}: {wrong.strerror or wrong}") from wrong
        del self._reserved["http"]
        # Closed behind the server: it says "stopping" while that drains.
        server = [undo for _, undo in self._undo].index(self._stop_server)
        self._undo.insert(server, ("closing HTTP", self._http.close))

    def _http_address(self) -> Address | None:
        """Where it listens indeed."""
        if self.settings.http is None or self._http is None:
            return None
        return self.settings.http._replace(port=self._http.port)

    def _add_worker(self, name: str, work: Callable[[], object], interval: Callable[[], float]) -> Worker:
        worker = self._workers[name] = Worker(name, work, interval, self._thread_failed)
        self._undo.append((f"stopping the {name}", worker.stop))
        return worker

    def _start_noting(self) -> None:
        """Where every ledger is in limbo, those that it concerns are found before the bookie is registered, unless that
        takes long: to be registered as read-only first costs clients that see it change their connections."""
        noting = self._add_worker(
            "limbo", self._note_limbo, lambda: self.limbo.retry_s if self.limbo.state.everything else 1e6
        )
        if not self.limbo.state.everything:
            return
        noting.wake()
        until = time.monotonic() + NOTE_LIMBO_S
        while self.limbo.state.everything and time.monotonic() < until and not self._told_to_stop():
            time.sleep(0.01)

    def _start_workers(self) -> None:
        add = self._add_worker
        add("disk watch", self.look_at_disk, lambda: self.settings.disk_check_interval)
        add("collector", self.collector.run, lambda: self.settings.gc_interval)
        if self._views is not None:
            add("metrics", self._views.note, lambda: NOTE_S)

    def _thread_failed(self, name: str, error: BaseException) -> None:
        self.crashed = (name, error)

    # ---- while it runs ----

    def look_at_disk(self, first: bool = False) -> None:
        """Looks how much is free, and becomes read-only or writable accordingly."""
        with self._watching:
            self._disks_question.ask()
            disks = [self._space_of("data", self._data.path)]
            self.space = disks[0]
            if self._journal is not None:
                disks.append(self._space_of("journal", self._journal))
                self.journal_space = disks[1]
            self._disks_question.answered()
            state = self._watch.judge(
                *disks, engine_full=self.directory.stats().disk_full, operator=self._switch.wished()
            )
            before, self.disk_state = self.disk_state, state
            self._server_question.ask()
            if self.space is not None:
                self.server.set_space(self.space.total, self.space.free)
            # The server first, both ways: who finds us registered as writable must be able to write.
            self.server.set_read_only(state.read_only, state.high_priority)
            self._server_question.answered()
            if not first:
                if self.space is not None:
                    self.registrar.tell_free_bytes(self.space.free)
                self.registrar.want(self._takes_no_ledgers())
            if before.read_only != state.read_only:
                if state.read_only:
                    self.log.warning("read-only now", reason=state.reason)
                else:
                    self.log.info("writable again")

    def _takes_no_ledgers(self) -> bool:
        """Whether clients are told to make none here. Where every ledger is in limbo, until those that it concerns are
        found, new ones would be refused as well."""
        return self.disk_state.read_only or self.limbo.state.everything

    def _note_limbo(self) -> bool:
        done = self.limbo.note()
        self._tell_of_limbo()
        return done

    def _tell_of_limbo(self) -> None:
        with self._watching:
            if self._ready:
                self.registrar.want(self._takes_no_ledgers())

    def _space_of(self, what: str, path: Path) -> Space | None:
        try:
            return look(path)
        except OSError as wrong:
            self.log.warning(f"the {what} directory cannot be looked at", error=wrong)
            return None

    def wish_read_only(self, read_only: bool) -> None:
        """The operator's wish; kept over restarts. While it still registers the server goes by it at once, and the
        registration when it is there. Raises OSError."""
        self._switch.set(read_only, "over HTTP" if read_only else "")
        if not self.stopping:
            self.look_at_disk(first=not self._ready)

    def limbo_state(self) -> LimboState:
        return self.limbo.state

    def change_limbo(self, add: bool, ledger_ids: Collection[int] | None) -> None:
        """The operator's word, as `add` and `clear` of Limbo."""
        if add:
            self.limbo.add(ledger_ids)
        else:
            self.limbo.clear(ledger_ids)
        self._tell_of_limbo()
        if self.limbo.state.everything and (worker := self._workers.get("limbo")):
            worker.wake()

    def reload(self, settings: Settings) -> None:
        """Other settings, of those that can change."""
        self.settings = settings
        self.log.level = settings.log_level
        self._watch.thresholds = thresholds(settings)
        self.collector.hold_time = settings.gc_hold_time
        if self._tombs is not None:
            self._tombs.keep = settings.gc_tombstone_time
        for worker in self._workers.values():
            worker.look_at_interval()
        if self._ready:
            self._workers["disk watch"].wake()  # the thresholds may be other ones

    def journal_failed(self) -> bool:
        """A write or a sync of it was refused: nothing more becomes durable. To be called now and then, by one thread:
        `problem` goes by what it found."""
        self._journal_question.ask()
        self._journal_failed = self.directory.stats().failed
        self._journal_question.answered()
        return self._journal_failed

    def problem(self) -> str:
        """Why clients should not be sent here; empty: they may. It names each check that is not ok, and each whose
        outcome is not known. It waits for nobody."""
        if self.stopping:
            return "stopping"
        if not self._ready:
            return "starting"
        return not_ready(self._checks())

    def _checks(self) -> list[Check]:
        interval = self.settings.disk_check_interval
        return [
            Check(Outcome.WRONG, "the journal failed")
            if self._journal_failed
            else self._journal_question.silence(SILENCE_S, SILENCE_S),
            self._disks_question.silence(SILENCE_S, interval + SILENCE_S),
            self._server_question.silence(SILENCE_S, interval + SILENCE_S),
            self.registrar.check(),
        ]

    def facts(self) -> Facts:
        from walkeeper_bookie._metrics import Facts

        ready = self._ready
        return Facts(
            version=_version(),
            bookie_id=self.bookie_id,
            read_only=self._takes_no_ledgers(),
            registered=ready and not self.stopping and self.registrar.registered,
            space=self.space,
            journal_space=self.journal_space,
            ledgers=self.collector.ledgers,
            limbo_all=self.limbo.state.everything,
            limbo_ledgers=len(self.limbo.state.ledger_ids),
            tombstones=len(self.collector.tombs),
            gc_alarm=self.collector.alarm,
            gc_wrong_cluster=self.collector.wrong_cluster,
            gc_held=self.collector.held,
            gc_listed=self.collector.listed,
            gc_other_layout=self.collector.other_layout,
            gc_passes=self.collector.passes,
            gc_failures=self.collector.failures,
            gc_deleted=self.collector.deleted,
            gc_last_success=self.collector.last_success,
            registrations=self.registrar.registrations if ready else 0,
            start_seconds=self.start_seconds,
            log_lines_dropped=self.log.dropped,
        )

    def server_stats(self) -> ServerStats:
        return self.server.stats()

    def directory_stats(self) -> DirectoryStats:
        return self.directory.stats()

    def backends(self) -> Mapping[str, str]:
        """By what files and sockets are used, in the words of the setting `backend`."""
        return {
            "files": backend_name(self.directory.stats().backend),
            "sockets": backend_name(self.server.stats().backend),
        }

    def journal_times(self) -> JournalTimes:
        return self.directory.journal_times()

    def recovery(self) -> Recovery:
        return self._recovery

    # ---- stop ----

    def stop(self, until: float | None = None) -> None:
        """Clients find it no more, what was accepted is answered until that monotonic time at most (None: for
        drain_timeout), everything is closed. It goes through whatever fails: `drained` and `close_error` say how it
        went."""
        self.stopping = True
        self._stop_at = time.monotonic() + self.settings.drain_timeout if until is None else until
        for what, undo in reversed(self._undo):
            self.stop_step = what
            try:
                undo()
            except Exception as wrong:
                self.log.error("stopping", step=what, error=wrong, urgent=True)
        self._undo.clear()

    def _stop_server(self) -> None:
        self.drained = self.server.stop(max(0.0, self._stop_at - time.monotonic()))

    def _close_directory(self) -> None:
        workers_until = max(self._stop_at, time.monotonic()) + WORKER_END_S
        for name, worker in self._workers.items():
            self.stop_step = f"the end of the {name}"
            worker.join(max(0.0, workers_until - time.monotonic()))
        self.stop_step = "closing the directory"
        if self._tombs is not None:
            try:
                self._tombs.save()
            except OSError as wrong:
                self.log.warning("the tombstones keep an older count", error=wrong)
            if hasattr(self, "collector"):
                try:
                    self.collector.save()
                except OSError as wrong:
                    self.log.warning("ledgers are held for longer than they should be", error=wrong)
        self.close_error = self.directory.close()


def _load_http() -> tuple[type[HttpServer], type[BookieViews]]:
    """Takes as long as opening the directory does, and is done beside it. What nobody asked for takes no memory."""
    from walkeeper_bookie._http import HttpServer
    from walkeeper_bookie._views import BookieViews

    _version()  # of what runs, and not of what may be installed meanwhile
    return HttpServer, BookieViews


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # with it come email, zipfile and more

    try:
        return version("walkeeper")
    except PackageNotFoundError:
        return "unknown"
