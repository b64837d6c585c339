"""What is special about the etcd store: a tree that etcd has not, leases, watches, limits, and two client packages.

What it shares with every other store is in tests/metadata; how its calls end when the network or the server fails, in
test_etcd_outcomes.py; what BookKeeper's own driver has, in test_etcd_layout.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from etcd_backing import expire
from etcd_fixtures import LONG, SHORT, Open, Raw
from etcd_server import EtcdServer
from metadata.stores import Calls, settle, until
from tcp_proxy import TcpProxy

from walkeeper.metadata import (
    KEY_BYTES_MAX,
    ConflictError,
    ExistsError,
    LimitError,
    MetadataError,
    MissingError,
    NotEmptyError,
    Operation,
)
from walkeeper.metadata._etcd import EtcdStore
from walkeeper.metadata._etcd_client import put, revoke, transaction
from walkeeper.metadata._etcd_transaction import CONDITIONS_MAX
from walkeeper.metadata._etcd_watches import Watches

pytest_plugins = ["etcd_fixtures"]


def write(raw: Raw, *operations: Any) -> None:
    raw.stubs.kv.Txn(transaction((), operations), timeout=30)


# ---- the tree ----


def test_keys_are_etcds_keys(raw: Raw, other: EtcdStore, root: str) -> None:
    other.create(f"{root}/a/b/é", b"x", parents=True)
    assert raw.values(root) == {root: b"", f"{root}/a": b"", f"{root}/a/b": b"", f"{root}/a/b/é": b"x"}


def test_what_is_below_a_key_that_is_not_there_is_found_by_its_key_alone(raw: Raw, other: EtcdStore, root: str) -> None:
    """Others need not make the keys above theirs."""
    write(raw, put(f"{root}/a/b".encode(), b"x"), put(f"{root}/c".encode(), b"y"))
    value = other.get(f"{root}/a/b")
    assert value is not None
    assert value.data == b"x"
    assert other.children(root) == ["c"]
    with pytest.raises(MissingError):
        other.children(f"{root}/a")
    with pytest.raises(NotEmptyError):
        other.transact([Operation("delete", f"{root}/c"), Operation("delete", root)])
    other.create(f"{root}/a")
    assert other.children(f"{root}/a") == ["b"]


def test_foreign_keys_that_are_no_keys_here_are_passed_over(raw: Raw, other: EtcdStore, root: str) -> None:
    name = root.encode()
    write(raw, *(put(name + below, b"") for below in (b"/", b"//", b"//a", b"/\xff", b"/\xff/b", b"/a\n", b"/z")))
    for page in (1, 2, 100):
        assert list(other.scan(root, page=page)) == ["z"]


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
def test_a_listing_skips_what_is_deeper(raw: Raw, other: EtcdStore, root: str, page: int) -> None:
    names = ["a", "a-", "b", "c", "é"]
    for name in names:
        other.create(f"{root}/{name}")
    write(raw, *(put(f"{root}/{name}/{number}/x".encode(), b"") for name in names for number in range(20)))
    assert list(other.scan(root, page=page)) == sorted(names, key=str.encode)
    assert other.children(root) == sorted(names, key=str.encode)


def test_a_page_of_a_listing_asks_for_so_many_keys(other: EtcdStore, root: str) -> None:
    for number in range(10):
        other.create(f"{root}/{number}")
    answers: list[int] = []
    asked = other._connection.read

    def noted(ask: Any, key: str | None, timeout: float | None = None) -> Any:
        answer = asked(ask, key, timeout)
        answers.append(len(answer.responses[1].response_range.kvs))
        return answer

    other._connection.read = noted  # type: ignore[method-assign]
    assert len(list(other.scan(root, page=4))) == 10
    assert answers == [4, 4, 2]


def test_children_are_as_they_were_at_one_moment(other: EtcdStore, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walkeeper.metadata._etcd_listing.NAMES_MAX", 1)
    for name in ("a", "c"):
        other.create(f"{root}/{name}")
    asked = other._connection.read

    def moved(ask: Any, key: str | None, timeout: float | None = None) -> Any:
        other._connection.read = asked  # type: ignore[method-assign]
        answer = asked(ask, key, timeout)
        other.transact([Operation("delete", f"{root}/c"), Operation("create", f"{root}/b")])
        return answer

    other._connection.read = moved  # type: ignore[method-assign]
    assert other.children(root) == ["a", "c"]
    assert other.children(root) == ["a", "b"]


def test_the_count_of_sequential_keys_is_no_child_and_goes_with_its_key(raw: Raw, other: EtcdStore, root: str) -> None:
    other.create(f"{root}/a")
    other.delete(other.create_sequential(f"{root}/a/n-"))
    assert raw.values(f"{root}/a") == {f"{root}/a": b"", f"{root}/a\tsequence": b"1"}
    assert (other.children(root), other.children(f"{root}/a")) == (["a"], [])
    other.delete(f"{root}/a")
    assert raw.values(f"{root}/a") == {}
    assert other.children(root) == []
    other.create(f"{root}/a")
    assert other.create_sequential(f"{root}/a/n-") == f"{root}/a/n-0000000000"


def test_a_sequential_name_behind_those_that_came_and_went_meanwhile(
    server: EtcdServer, open_store: Open, other: EtcdStore, root: str
) -> None:
    """Between the look at the count and the write: the key that it led to is gone again, and must not come back."""
    store = open_store(server.hosts)
    send = store._send

    def meanwhile(*arguments: Any) -> Any:
        store._send = send  # type: ignore[method-assign]
        for _ in range(2):
            other.delete(other.create_sequential(f"{root}/n-"))
        return send(*arguments)

    store._send = meanwhile  # type: ignore[method-assign]
    assert store.create_sequential(f"{root}/n-") == f"{root}/n-0000000002"
    assert other.create_sequential(f"{root}/n-") == f"{root}/n-0000000003"


def test_sequential_keys_below_a_key_that_goes_with_its_children(other: EtcdStore, root: str) -> None:
    other.create(f"{root}/a/b", parents=True)
    other.create_sequential(f"{root}/a/b/n-")
    other.transact(
        [
            Operation("delete", f"{root}/a/b/n-0000000000"),
            Operation("delete", f"{root}/a/b"),
            Operation("delete", f"{root}/a"),
        ]
    )
    assert other.children(root) == []


def test_keys_are_deleted_from_the_leaves_up_in_one_transaction(other: EtcdStore, root: str) -> None:
    keys = [f"{root}/a", f"{root}/a/b", f"{root}/a/b/c", f"{root}/a/b/d", f"{root}/a-"]
    other.transact([Operation("create", key) for key in keys])
    deletes = [Operation("delete", key) for key in reversed(keys)]
    other.create(f"{root}/a/b/cc")
    with pytest.raises(NotEmptyError) as refused:
        other.transact(deletes)
    assert refused.value.key == f"{root}/a/b"
    other.delete(f"{root}/a/b/cc")
    other.transact(deletes)
    assert other.children(root) == []


def test_a_count_that_is_no_number_is_said_and_left(raw: Raw, other: EtcdStore, root: str) -> None:
    write(raw, put(f"{root}\tsequence".encode(), b"x"))
    with pytest.raises(MetadataError, match="no number"):
        other.create_sequential(f"{root}/n-")
    write(raw, put(f"{root}\tsequence".encode(), b"2147483648"))
    with pytest.raises(MetadataError, match="no number is left"):
        other.create_sequential(f"{root}/n-")
    assert other.children(root) == []


@pytest.mark.parametrize("version", [0, -1, 2**63, 2**70, -(2**70)])
def test_a_version_that_no_key_has_is_another_one(other: EtcdStore, root: str, version: int) -> None:
    other.create(f"{root}/a", b"x")
    for operation in (Operation("put", f"{root}/a", b"y", version), Operation("delete", f"{root}/a", version=version)):
        with pytest.raises(ConflictError):
            other.transact([operation])
    with pytest.raises(MissingError):
        other.put(f"{root}/b", b"y", version)
    assert other.children(root) == ["a"]


def test_of_a_refusal_that_is_certain_and_one_before_it_the_first_is_raised(other: EtcdStore, root: str) -> None:
    other.create(f"{root}/a")
    certain = [Operation("put", f"{root}/a", b"x"), Operation("check", f"{root}/a", version=1)]
    with pytest.raises(ConflictError):
        other.transact(certain)
    with pytest.raises(MissingError):
        other.transact([Operation("check", f"{root}/b"), *certain])


# ---- limits ----


def test_a_transaction_with_more_conditions_than_etcd_takes_is_refused(other: EtcdStore, root: str) -> None:
    folders = [f"{root}/{number:03}" for number in range(60)]
    other.transact([Operation("create", folder) for folder in folders])
    too_many = [Operation("create", f"{folder}/a") for folder in folders]
    with pytest.raises(LimitError, match="CONDITIONS_MAX"):
        other.transact(too_many)
    assert other.children(folders[0]) == []
    fits = too_many[: CONDITIONS_MAX // 3]
    assert len(other.transact(fits)) == len(fits)


def test_a_hundred_conditional_writes_are_no_more_than_etcd_takes(other: EtcdStore, root: str) -> None:
    keys = [f"{root}/{number:03}" for number in range(100)]
    versions = other.transact([Operation("create", key) for key in keys])
    other.transact([Operation("put", key, b"x", version) for key, version in zip(keys, versions, strict=True)])
    with pytest.raises(ConflictError):
        other.transact([Operation("check", key, version=version) for key, version in zip(keys, versions, strict=True)])


def test_more_conditions_than_the_server_takes_are_its_limit(
    other: EtcdStore, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may have a lower one. Nothing was written."""
    monkeypatch.setattr("walkeeper.metadata._etcd_transaction.CONDITIONS_MAX", 10**6)
    folders = [f"{root}/{number:03}" for number in range(60)]
    other.transact([Operation("create", folder) for folder in folders])
    with pytest.raises(LimitError, match="too many operations"):
        other.transact([Operation("create", f"{folder}/a") for folder in folders])
    assert other.children(folders[0]) == []


def test_a_request_that_is_larger_than_the_server_takes_is_refused(other: EtcdStore, root: str) -> None:
    """Long keys are in the conditions again, and in what is read where one fails."""
    keys = [f"{root}/{number:03}" + "k" * (KEY_BYTES_MAX - len(root) - 10) for number in range(60)]
    other.transact([Operation("create", key) for key in keys])
    with pytest.raises(LimitError, match="takes no such request"):
        other.transact([Operation("delete", key) for key in keys])
    assert len(other.children(root)) == 60
    other.transact([Operation("delete", key) for key in keys[:30]])
    assert len(other.children(root)) == 30


def test_more_keys_above_than_one_transaction_takes_are_made(other: EtcdStore, root: str) -> None:
    deep = root + "/d" * 200
    other.create(deep, b"x", parents=True)
    value = other.get(deep)
    assert value is not None
    assert value.data == b"x"
    with pytest.raises(ExistsError):
        other.create(deep, parents=True)


# ---- leases ----


def test_a_session_is_a_lease_of_so_many_seconds(server: EtcdServer, open_store: Open, raw: Raw, root: str) -> None:
    store = open_store(server.hosts, session_timeout=29.5)
    store.create(f"{root}/here", b"x", ephemeral=True)
    found = raw.found(f"{root}/here")[f"{root}/here"]
    assert found.lease == store.session()
    store.put(f"{root}/here", b"y")
    assert raw.found(f"{root}/here")[f"{root}/here"].lease == store.session()
    assert store._lease._seconds == 30


def test_a_store_without_ephemeral_keys_has_no_lease(server: EtcdServer, open_store: Open, root: str) -> None:
    store = open_store(server.hosts)
    store.create(f"{root}/a")
    store.watch(root, lambda: None)
    assert store._lease._thread is None


def test_a_lease_that_was_not_renewed_in_time_is_a_lost_session(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=SHORT)
    store.create(f"{root}/here", ephemeral=True)
    session, events = store.session(), Calls()
    store.on_session(events)
    proxy.refuse()
    until(lambda: other.children(root) == [], "the lease ends")
    assert (events.made, store.session()) == ([], session), "nobody could tell us"
    proxy.heal()
    until(lambda: events.made == [("lost",), ("new",)])
    assert store.session() not in (session, 0)
    store.create(f"{root}/here", ephemeral=True)


def test_a_lease_is_kept_while_nobody_asks_anything(server: EtcdServer, open_store: Open, root: str) -> None:
    store = open_store(server.hosts, session_timeout=SHORT)
    store.create(f"{root}/here", ephemeral=True)
    session, renewed = store.session(), Calls()
    keep = store._lease._keep

    def kept(lease: int) -> None:
        keep(lease)
        renewed()

    store._lease._keep = kept  # type: ignore[method-assign]
    until(lambda: renewed.count > 6)  # more than a lease's time
    assert store.session() == session
    assert store.children(root) == ["here"]


def test_a_write_that_finds_the_lease_over_is_made_with_the_next(
    server: EtcdServer, open_store: Open, root: str
) -> None:
    store = open_store(server.hosts, session_timeout=LONG)
    store.create(f"{root}/first", ephemeral=True)
    session, events = store.session(), Calls()
    store.on_session(events)
    store._connection.read(lambda stubs, seconds: stubs.lease.LeaseRevoke(revoke(session), timeout=seconds), None)
    store.create(f"{root}/here", ephemeral=True)
    until(lambda: events.made == [("lost",), ("new",)])
    assert store.session() not in (session, 0)
    assert store.children(root) == ["here"]


def test_between_a_lost_lease_and_the_next_there_is_no_session(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG)
    session = store.session()
    proxy.refuse()
    store._lease.gone(session)
    assert store.session() == 0
    proxy.heal()
    until(lambda: store.session() not in (session, 0))
    expire(store)


# ---- watches ----


def test_what_changes_while_the_stream_is_away_is_told(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG)
    keys = [f"{root}/value", f"{root}/parent"]
    for key in keys:
        other.create(key)
    hints = [Calls(), Calls()]
    for key, calls in zip(keys, hints, strict=True):
        store.watch(key, calls)
    settle(store, root)
    before = [calls.count for calls in hints]
    proxy.refuse()
    until(lambda: not store._connection.is_up)
    other.put(keys[0], b"x")
    other.create(f"{keys[1]}/child")
    proxy.heal()
    until(lambda: all(calls.count > then for calls, then in zip(hints, before, strict=True)))


def test_a_stream_that_comes_back_tells_nothing_twice(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
) -> None:
    """It goes on behind what it told."""
    store = open_store(proxy.hosts, session_timeout=LONG)
    hints = Calls()
    store.watch(f"{root}/a", hints)
    told = [other.create(f"{root}/a"), other.create(f"{root}/a/b")]
    (watch,) = store._watches._watches
    until(lambda: [each.next_revision - 1 for each in watch.ranges] == told)
    settle(store, root)
    before, streams = hints.count, store._watches.streams
    proxy.cut()
    until(lambda: store._watches.streams > streams)
    settle(store, root)
    assert hints.count == before


def test_what_etcd_has_forgotten_gives_a_hint_and_the_watch_goes_on(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, raw: Raw, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG)
    hints = Calls()
    store.watch(f"{root}/a", hints)
    settle(store, root)
    proxy.refuse()
    until(lambda: not store._connection.is_up)
    other.create(f"{root}/a")
    revision = other.put(f"{root}/a", b"x")
    raw.compact(revision)
    proxy.heal()
    until(lambda: hints.count)
    settle(store, root)
    before = hints.count
    other.put(f"{root}/a", b"y")
    until(lambda: hints.count > before)


def test_the_values_of_children_and_what_is_deeper_are_no_change(
    server: EtcdServer, open_store: Open, other: EtcdStore, root: str
) -> None:
    store = open_store(server.hosts)
    for key in ("a", "a/b"):
        other.create(f"{root}/{key}")
    hints = Calls()
    store.watch(f"{root}/a", hints)
    other.put(f"{root}/a/b", b"x")
    other.create(f"{root}/a-")
    last = other.create(f"{root}/a/b/c")
    (watch,) = store._watches._watches
    until(lambda: watch.ranges[1].next_revision > last)
    settle(store, root)
    assert hints.count == 0
    other.create(f"{root}/a/d")
    until(lambda: hints.count)


def test_a_stream_that_is_silent_is_backed_by_a_look(
    server: EtcdServer, open_store: Open, other: EtcdStore, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watches, "_heard", lambda *arguments: None)
    store = open_store(server.hosts, poll_seconds=0.05)
    other.create(f"{root}/a")
    hints = Calls()
    store.watch(f"{root}/a", hints)
    for change in (
        lambda: other.put(f"{root}/a", b"x"),
        lambda: other.create(f"{root}/a/b"),
        lambda: other.delete(f"{root}/a/b"),
        lambda: other.delete(f"{root}/a"),
    ):
        before = hints.count
        change()
        until(lambda before=before: hints.count > before)  # type: ignore[misc]


def test_a_watch_that_was_closed_is_taken_back(server: EtcdServer, open_store: Open, root: str) -> None:
    store = open_store(server.hosts)
    watches = [store.watch(f"{root}/{number}", lambda: None) for number in range(5)]
    stream = until(lambda: store._watches._stream)
    until(lambda: len(stream.ranges) == 10)
    for watch in watches:
        watch.close()
    until(lambda: not stream.ranges)


def test_the_root_is_watched(server: EtcdServer, open_store: Open, other: EtcdStore, root: str) -> None:
    store = open_store(server.hosts)
    hints = Calls()
    store.watch("/", hints)
    other.create(f"{root}-beside")
    until(lambda: hints.count)
    other.delete(f"{root}-beside")


# ---- packages ----

BASICS = """
import sys, threading
sys.modules.update(dict.fromkeys({blocked}))
from walkeeper.metadata import Cluster, ExistsError, LedgerMetadata, open_store
from walkeeper.metadata._etcd_client import package
opened = open_store({uri!r})
store, root = opened.store, opened.root
told = threading.Event()
watch = store.watch(root, told.set)
cluster = Cluster(store, root)
assert cluster.init() == cluster.instance_id()
assert told.wait(60)
ledger = cluster.ledgers.create(LedgerMetadata(1, 1, 1, {{0: ("a:1",)}}))
assert list(cluster.ledgers.ids(page=1)) == [ledger.ledger_id]
key = store.create_sequential(root + "/n-", b"x", ephemeral=True)
value = store.get(key, linearizable=True)
assert (value.data, value.ephemeral) == (b"x", True)
store.delete(key, store.put(key, b"y", value.version))
try:
    store.create(root)
except ExistsError:
    print(package)
store.close()
"""


@pytest.mark.parametrize(
    ("blocked", "package", "protobuf"),
    [("etcd3", "pyetcd", ""), ("pyetcd", "etcd3", "python")],
    ids=["pyetcd", "etcd3"],
)
def test_either_package_will_do(server: EtcdServer, root: str, blocked: str, package: str, protobuf: str) -> None:
    """The older one is of a time when protobuf took what it was made of; newer ones take it in Python alone."""
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": protobuf}
    if not protobuf:
        del environment["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"]
    script = BASICS.format(blocked=[blocked, f"{blocked}.etcdrpc"], uri=f"etcd://{server.hosts}{root}/scope")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.stdout.split() == [package], done.stderr
    assert done.stderr == ""


def test_a_package_that_does_not_fit_is_named_with_its_reason() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROTOCOL_BUFFERS")}
    script = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['pyetcd', 'pyetcd.etcdrpc']))\n"
        "from walkeeper.metadata import MetadataError, open_store\n"
        "try: open_store('etcd://127.0.0.1:1/a')\n"
        "except MetadataError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True, env=environment
    )
    assert "walkeeper[etcd]" in done.stdout
    assert "etcd3: Descriptors cannot be created" in done.stdout
