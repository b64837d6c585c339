"""EtcdStore: keys are etcd's keys, versions their mod revisions: as Java's BookKeeper sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from walkeeper.metadata._cluster_keys import ETCD_KEYS
from walkeeper.metadata._etcd_client import Compare, RequestOp, compare, put, range_of, read, transaction
from walkeeper.metadata._etcd_connection import Ask, Connection, LeaseGoneError
from walkeeper.metadata._etcd_lease import Lease
from walkeeper.metadata._etcd_listing import Listing
from walkeeper.metadata._etcd_names import counter_of, name_of
from walkeeper.metadata._etcd_transaction import Hopes, Seen, conditions, reads, walk, writes
from walkeeper.metadata._etcd_watches import POLL_SECONDS, Watches
from walkeeper.metadata._hints import Hint, Hints
from walkeeper.metadata._keys import (
    SEQUENCE_DIGITS,
    SEQUENCE_MAX,
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
    ExistsError,
    LimitError,
    MetadataError,
    MissingError,
    Operation,
    UnavailableError,
    Value,
    Watch,
)

SILENCE_SHARE = 2 / 3  # of the session: a server that answers nothing for so long is given up, in time to try another
PARENTS_MAX = 50  # made in one transaction
FORGOTTEN = "compacted"  # how etcd says that it does not know any more how things were then


class EtcdStore:
    """A session with etcd. `endpoints` is "host:port,host:port"; `;` between them will do as well.

    The constructor does not wait for a connection: the calls do, for `timeout` seconds, by default one and a half times
    `session_timeout`. A server that does not answer for two thirds of `session_timeout` is given up for another one.
    The session is a lease, which is granted when it is needed first. It is lost when etcd has not heard of us for
    `session_timeout`, in whole seconds and at least etcd's two: we learn so when we reach it again, and then there is a
    new one. Every read is linearizable.
    """

    cluster_keys = ETCD_KEYS

    def __init__(
        self,
        endpoints: str,
        *,
        session_timeout: float = 10.0,
        uri: str | None = None,
        timeout: float | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        hosts = [host.strip() for host in endpoints.replace(";", ",").split(",")]
        self.uri = f"etcd://{';'.join(hosts)}" if uri is None else uri
        self._lock = threading.Lock()
        self._hints = Hints("walkeeper-etcd")
        self._on_session: set[Hint] = set()
        self._closed = False
        self._timeout = session_timeout * 1.5 if timeout is None else timeout
        self._connection = Connection(hosts, session_timeout * SILENCE_SHARE, self._timeout, self.uri)
        self._lease = Lease(self._connection, session_timeout, self.uri, self._session_event)
        self._watches = Watches(self._connection, self._hints, poll_seconds)

    def __enter__(self) -> EtcdStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- reads ----

    def get(self, key: str, *, linearizable: bool = False) -> Value | None:
        """The server asks the others whether it is behind, whether `linearizable` or not."""
        check_key(key)
        question = range_of(name_of(key))
        found = self._connection.read(lambda stubs, seconds: stubs.kv.Range(question, timeout=seconds), key)
        for kv in found.kvs:
            return Value(bytes(kv.value), int(kv.mod_revision), ephemeral=kv.lease != 0)
        return Value(b"", 0) if key == "/" else None

    def children(self, key: str) -> list[str]:
        """As they were at one moment."""
        check_key(key)
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return list(Listing(self._connection, key, SEQUENCE_MAX, snapshot=True))
            except MetadataError as error:  # noqa: PERF203 - it rarely is
                if FORGOTTEN not in str(error) or time.monotonic() > deadline:
                    raise

    def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
        check_page(check_key(key), page)
        yield from Listing(self._connection, key, page, snapshot=False)

    # ---- writes ----

    def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
        if check_key(key) == "/":
            raise ExistsError("the root is always there", key)
        operation = Operation("create", key, check_value(key, data), ephemeral=ephemeral)
        if not parents:
            return self._commit([operation], key)
        return self._create_with_parents(operation)

    def create_sequential(self, prefix: str, data: bytes = b"", *, ephemeral: bool = False) -> str:
        """The key and the count of its parent change in one transaction; it is tried again where another was faster."""
        data = check_value(check_prefix(prefix), data)
        parent = parent_of(f"{prefix}0")
        counter = range_of(counter_of(parent))
        seen = self._connection.read(lambda stubs, seconds: stubs.kv.Range(counter, timeout=seconds), prefix).kvs
        number = _count(parent, seen)
        while True:
            key = f"{prefix}{number:0{SEQUENCE_DIGITS}}"
            if number > SEQUENCE_MAX:
                raise MetadataError(f"{parent} has had {SEQUENCE_MAX} sequential keys: no number is left", key)
            asked = [Operation("create", key, data, ephemeral=ephemeral)]
            unchanged = compare(counter_of(parent), "MOD", "EQUAL", seen[0].mod_revision if seen else 0)
            counted = put(counter_of(parent), b"%d" % (number + 1))
            answer = self._send(asked, [*conditions(asked), unchanged], [counted], [read(counter)], key)
            if answer.succeeded:
                return key
            *answers, last = answer.responses
            try:
                walk(asked, Seen(asked, answers))
            except ExistsError:
                number += 1  # somebody made it by name
            except MissingError as error:
                raise MissingError(str(error), prefix) from None
            seen = last.response_range.kvs
            number = max(number, _count(parent, seen))

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        data = check_value(check_new(key), data)
        return self._commit([Operation("put", key, data, version)], key)

    def delete(self, key: str, version: int | None = None) -> None:
        self._commit([Operation("delete", check_new(key), version=version)], key)

    def transact(self, operations: Sequence[Operation]) -> list[int | None]:
        """LimitError also where it has more conditions than etcd takes (CONDITIONS_MAX)."""
        operations = list(operations)
        check_transaction(operations)
        if not operations:
            return []
        revision = self._commit(operations, None)
        return [revision if operation.kind in ("create", "put") else None for operation in operations]

    def count_up(self, key: str) -> int:
        """Writes the key, empty, whether it is there or not; how often it was written since it was made. MissingError:
        there is no key above it. BookKeeper's ids for ledgers come from that."""
        check_new(key)
        hopes = Hopes()
        if parent_of(key) != "/":
            hopes.is_present(parent_of(key))
        name = name_of(key)
        question = transaction(hopes.compares, [put(name, b""), read(range_of(name, keys_only=True))])
        answer = self._connection.write(_transact(question), key)
        if not answer.succeeded:
            raise MissingError(f"there is no {parent_of(key)}: {key} would be below it", key)
        return int(answer.responses[1].response_range.kvs[0].version)

    # ---- what happens ----

    def watch(self, key: str, callback: Callable[[], None]) -> Watch:
        """etcd's own watches, which go on behind a lost connection, and a look every `poll_seconds`.

        All that happens below the key comes here, and is left out here: watch none with much below its children.
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
        """The lease's id; 0 from the loss of one until there is another. Waits for the first."""
        return self._lease.number()

    def close(self) -> None:
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        self._hints.close()
        self._lease.close()
        self._connection.close()
        self._watches.close()
        self._lease.join()

    def _session_event(self, event: Literal["lost", "new"]) -> None:
        with self._lock:
            hints = list(self._on_session)
        for hint in hints:
            hint.post(event)

    def _forget_session_hint(self, hint: Hint) -> None:
        with self._lock:
            self._on_session.discard(hint)

    # ---- transactions ----

    def _commit(self, operations: Sequence[Operation], key: str | None) -> int:
        """All of them; the revision. Raises the first refusal."""
        try:
            wanted = conditions(operations)
        except LimitError:
            raise
        except MetadataError as certain:
            # It is refused whatever there is; there may be a reason before that one.
            walk(operations, Seen(operations, self._look(operations, key)))
            raise certain from None
        answer = self._send(operations, wanted, [], [], key)
        if answer.succeeded:
            return int(answer.header.revision)
        walk(operations, Seen(operations, answer.responses))
        raise MetadataError("etcd refused a transaction without a reason that is known here", key)

    def _look(self, operations: Sequence[Operation], key: str | None) -> Any:
        question = transaction((), reads(operations))
        return self._connection.read(_transact(question), key).responses

    def _send(
        self,
        operations: Sequence[Operation],
        wanted: Sequence[Compare],
        also: Sequence[RequestOp],
        also_read: Sequence[RequestOp],
        key: str | None,
    ) -> Any:
        """The answer. Where the lease was over the write is made again, with the next one."""
        deadline = time.monotonic() + self._timeout
        needs_lease = any(operation.ephemeral for operation in operations if operation.kind == "create")
        while True:
            lease = self._lease.wait(key or "the transaction") if needs_lease else 0
            question = transaction(wanted, [*writes(operations, lease), *also], [*reads(operations), *also_read])
            try:
                return self._connection.write(_transact(question), key)
            except LeaseGoneError as error:
                self._lease.gone(lease)
                if time.monotonic() > deadline:
                    raise UnavailableError(f"{self.uri}: sessions end too soon", key) from error

    def _create_with_parents(self, operation: Operation) -> int:
        """A key and the missing ones above in one transaction: nobody can delete those, as empty, before it is."""
        deadline = time.monotonic() + self._timeout
        key = operation.key
        missing: list[Operation] = []
        while True:
            try:
                if len(missing) <= PARENTS_MAX:
                    return self._commit([*missing, operation], key)
                self._commit(missing[:PARENTS_MAX], key)
            except MissingError:
                pass
            except ExistsError as error:  # the key itself, or somebody else made one of those above
                if error.key == key:
                    raise
            if time.monotonic() > deadline:
                raise UnavailableError(f"the keys above {key} come and go as often as they are looked at", key)
            missing = self._missing_above(key)

    def _missing_above(self, key: str) -> list[Operation]:
        missing: list[Operation] = []
        while (key := parent_of(key)) != "/" and self.get(key) is None:
            missing.insert(0, Operation("create", key))
        return missing


def _transact(question: Any) -> Ask:
    return lambda stubs, seconds: stubs.kv.Txn(question, timeout=seconds)


def _count(parent: str, kvs: Any) -> int:
    """The next number of the parent's sequential children."""
    if not kvs:
        return 0
    if not kvs[0].value.isdigit():
        raise MetadataError(f"the count of sequential keys below {parent} is no number: {kvs[0].value!r}", parent)
    return int(kvs[0].value)
