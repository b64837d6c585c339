"""ZooKeeperStore: keys are znodes, values their data, versions their data versions: as Java's BookKeeper sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from kazoo.exceptions import RolledBackError, RuntimeInconsistency, ZookeeperError

from walkeeper.metadata._hints import Hint, Hints
from walkeeper.metadata._keys import (
    SEQUENCE_DIGITS,
    check_key,
    check_new,
    check_page,
    check_prefix,
    check_transaction,
    check_value,
    parent_of,
)
from walkeeper.metadata._store import (
    ClosedError,
    ConflictError,
    ExistsError,
    MetadataError,
    MissingError,
    Operation,
    UnknownOutcomeError,
    Value,
    Watch,
)
from walkeeper.metadata._zookeeper_connection import Connection, Event, refusal
from walkeeper.metadata._zookeeper_watches import POLL_SECONDS, Watches

VERSION_MAX = 2**31 - 1
PARENTS_MAX = 50  # made in one transaction
DATA_BESIDE_PARENTS_MAX = 512 * 1024


class ZooKeeperStore:
    """A session with ZooKeeper. `hosts` is "host:port,host:port"; `;` between them will do as well.

    The constructor does not wait for a connection: the calls do, for `timeout` seconds, by default one and a half times
    `session_timeout`. A server that is not heard of for two thirds of `session_timeout` is given up for another one.
    The session, and its ephemeral keys with it, is lost when no server has heard of us for `session_timeout`: we
    learn so when we reach one again, and then there is a new session.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout: float = 10.0,
        uri: str | None = None,
        timeout: float | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        hosts = ",".join(host.strip() for host in hosts.replace(";", ",").split(","))
        if "/" in hosts:
            raise MetadataError(f"{hosts!r} are no ZooKeeper hosts: the path belongs into the keys")
        self.uri = f"zk://{hosts.replace(',', ';')}" if uri is None else uri
        self._hints = Hints("walkeeper-zookeeper")
        self._lock = threading.Lock()
        self._on_session: set[Hint] = set()
        self._closed = False
        self._ready = threading.Event()  # the first connection may be there before the constructor has ended
        self._timeout = session_timeout * 1.5 if timeout is None else timeout
        self._connection = Connection(hosts, session_timeout, self._timeout, self.uri, self._session_event)
        self._watches = Watches(self._connection, self._hints, poll_seconds)
        self._ready.set()

    def __enter__(self) -> ZooKeeperStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- reads ----

    def get(self, key: str, *, linearizable: bool = False) -> Value | None:
        """`linearizable`: the server first learns all that the leader knew (sync)."""
        check_key(key)

        def send(client: Any) -> Sequence[Any]:
            # One connection keeps their order; without sync a server may answer with what was before.
            first = [client.sync_async(key)] if linearizable else []
            return [*first, client.get_async(key)]

        try:
            data, stat = self._connection.read(send, key)[-1]
        except MissingError:
            return None
        return Value(data or b"", stat.version, ephemeral=stat.ephemeralOwner != 0)  # Java can write null

    def children(self, key: str) -> list[str]:
        check_key(key)
        (names,) = self._connection.read(lambda client: [client.get_children_async(key)], key)
        return sorted(names, key=str.encode)

    def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
        """ZooKeeper has no pages: all names come in one answer, whatever `page` says."""
        check_page(check_key(key), page)
        yield from self.children(key)

    # ---- writes ----

    def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
        if check_key(key) == "/":
            raise ExistsError("the root is always there", key)
        data = check_value(key, data)
        try:
            self._connection.write(lambda client: [client.create_async(key, data, ephemeral=ephemeral)], key)
        except MissingError:
            if not parents:
                raise
            self._create_with_parents(Operation("create", key, data, ephemeral=ephemeral))
        return 0

    def create_sequential(self, prefix: str, data: bytes = b"", *, ephemeral: bool = False) -> str:
        data = check_value(check_prefix(prefix), data)
        key: str = self._connection.write(
            lambda client: [client.create_async(prefix, data, ephemeral=ephemeral, sequence=True)], prefix
        )
        if not key[len(prefix) :].isdigit():  # behind the last number ZooKeeper's counter becomes negative
            self._connection.write(lambda client: [client.delete_async(key)], key)
            raise MetadataError(f"{parent_of(prefix)} has no {SEQUENCE_DIGITS} digits left for sequential keys", prefix)
        return key

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        data = check_value(check_new(key), data)
        number = _number(key, version)
        stat = self._connection.write(lambda client: [client.set_async(key, data, number)], key)
        return int(stat.version)

    def delete(self, key: str, version: int | None = None) -> None:
        number = _number(check_new(key), version)
        self._connection.write(lambda client: [client.delete_async(key, number)], key)

    def transact(self, operations: Sequence[Operation]) -> list[int | None]:
        operations = list(operations)
        check_transaction(operations)
        return self._commit(operations, None) if operations else []

    # ---- what happens ----

    def watch(self, key: str, callback: Callable[[], None]) -> Watch:
        """ZooKeeper's own watches, set again after each event and each reconnect, and a look every `poll_seconds`.

        Each look asks for all children of the key: watch none that has a hundred thousand.
        """
        check_key(key)
        return self._watches.add(key, callback)

    def on_session(self, callback: Callable[[Literal["lost", "new"]], None]) -> Watch:
        with self._lock:
            if self._closed:
                raise ClosedError(f"{self.uri} was closed")
            hint = self._hints.hint(callback, self._forget_session_hint)
            self._on_session.add(hint)
            return hint

    def session(self) -> int:
        """ZooKeeper's session id; 0 from the loss of one until there is another. Waits for the first."""
        return self._connection.session()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._hints.close()
        self._watches.close()
        self._connection.close()

    def _session_event(self, event: Event) -> None:
        if event == "up":
            if self._ready.is_set():  # else nothing can be watched yet
                self._watches.reconnected()
            return
        with self._lock:
            hints = list(self._on_session)
        for hint in hints:
            hint.post(event)

    def _forget_session_hint(self, hint: Hint) -> None:
        with self._lock:
            self._on_session.discard(hint)

    def _create_with_parents(self, operation: Operation) -> None:
        """A key and the missing ones above in one transaction: nobody can delete those, as empty, before it is there.

        Those above have no data and no end, as BookKeeper makes them.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            missing = self._missing_above(operation.key)
            try:
                if len(missing) < PARENTS_MAX and len(operation.data) <= DATA_BESIDE_PARENTS_MAX:
                    self._commit([*missing, operation], operation.key)
                    return
                if not missing:
                    self.create(operation.key, operation.data, ephemeral=operation.ephemeral)
                    return
                self._commit(missing[:PARENTS_MAX], operation.key)
            except (ExistsError, MissingError) as error:  # somebody else made or deleted one of those above
                if time.monotonic() > deadline or (isinstance(error, ExistsError) and error.key == operation.key):
                    raise

    def _missing_above(self, key: str) -> list[Operation]:
        missing: list[Operation] = []
        while (key := parent_of(key)) != "/" and not self._is_there(key):
            missing.insert(0, Operation("create", key))
        return missing

    def _is_there(self, key: str) -> bool:
        """Unlike the value, this is told also to who may not read the key."""
        return (
            self._connection.read(lambda client: [client.sync_async(key), client.exists_async(key)], key)[-1]
            is not None
        )

    def _commit(self, operations: Sequence[Operation], key: str | None) -> list[int | None]:
        numbers = [_number(operation.key, operation.version) for operation in operations]

        def send(client: Any) -> Sequence[Any]:
            transaction = client.transaction()
            for operation, number in zip(operations, numbers, strict=True):
                _add(transaction, operation, number)
            return [transaction.commit_async()]

        answers = self._connection.write(send, key)
        for operation, answer in zip(operations, answers, strict=False):
            # Those before the refused one say that they were rolled back, those behind it that they were not tried.
            if isinstance(answer, ZookeeperError) and not isinstance(answer, (RolledBackError, RuntimeInconsistency)):
                raise refusal(answer, operation.key)
        if len(answers) != len(operations) or any(isinstance(answer, Exception) for answer in answers):
            raise UnknownOutcomeError(f"ZooKeeper did not say what became of a transaction: {answers}", key)
        return [_version(operation, answer) for operation, answer in zip(operations, answers, strict=True)]


def _number(key: str, version: int | None) -> int:
    """ZooKeeper's number for a version: -1 is any."""
    if version is None:
        return -1
    if not 0 <= version <= VERSION_MAX:  # no key ever has it, and -1 would be taken for any
        raise ConflictError(f"{key} has another version than {version}", key)
    return version


def _add(transaction: Any, operation: Operation, number: int) -> None:
    if operation.kind == "create":
        transaction.create(operation.key, bytes(operation.data), ephemeral=operation.ephemeral)
    elif operation.kind == "put":
        transaction.set_data(operation.key, bytes(operation.data), number)
    elif operation.kind == "delete":
        transaction.delete(operation.key, number)
    else:
        transaction.check(operation.key, number)


def _version(operation: Operation, answer: Any) -> int | None:
    if operation.kind == "create":
        return 0
    return int(answer.version) if operation.kind == "put" else None
