"""What is special about the ZooKeeper store: Java's tree, sessions that expire, and a network and a server that fail.

What it shares with every other store is in tests/metadata.
"""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from metadata.stores import WAIT_SECONDS, Calls, until
from metadata.test_faults import add_one, create, delete
from tcp_proxy import TcpProxy, proxy_to
from zookeeper_server import CLASS_PATH, ZooKeeperServer, shared_server

from walkeeper.metadata import (
    ClosedError,
    ConflictError,
    MetadataError,
    MissingError,
    Operation,
    UnavailableError,
    UnknownOutcomeError,
)
from walkeeper.metadata._zookeeper import ZooKeeperStore
from walkeeper.metadata._zookeeper_connection import Connection
from walkeeper.metadata._zookeeper_watches import Watches, _KeyWatch

SHORT = 1.5  # a session that a test waits for the end of
LONG = 60.0  # one that outlives whatever the test does

Open = Callable[..., ZooKeeperStore]


@pytest.fixture
def server() -> ZooKeeperServer:
    return shared_server()


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[TcpProxy]:
    with proxy_to(server.port) as proxy:
        yield proxy


@pytest.fixture
def open_store() -> Iterator[Open]:
    """Opens stores that are closed at the end."""
    with contextlib.ExitStack() as opened:

        def open_store(hosts: str, **options: Any) -> ZooKeeperStore:
            options.setdefault("poll_seconds", 3600.0)  # nothing is noticed by luck
            return opened.enter_context(ZooKeeperStore(hosts, **options))

        yield open_store


@pytest.fixture
def other(server: ZooKeeperServer, open_store: Open) -> ZooKeeperStore:
    """A store beside the one that is tested, and beside its proxy."""
    return open_store(server.hosts, session_timeout=LONG)


@pytest.fixture
def root(other: ZooKeeperStore) -> str:
    root = f"/zookeeper-store-{uuid.uuid4().hex[:12]}"
    other.create(root)
    return root


@pytest.fixture
def raw(server: ZooKeeperServer) -> Iterator[KazooClient]:
    """A client that knows nothing of stores."""
    client = KazooClient(server.hosts)
    client.start(timeout=WAIT_SECONDS)
    yield client
    client.stop()
    client.close()


class Call(threading.Thread):
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.result: Any = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:
            self.error = error

    def outcome(self) -> Any:
        """What it returned, or the error it ended with."""
        self.join(2 * WAIT_SECONDS)
        assert not self.is_alive()
        return self.error if self.error is not None else self.result


# ---- what Java sees ----


def test_keys_are_znodes_as_javas_bookkeeper_makes_them(raw: KazooClient, other: ZooKeeperStore, root: str) -> None:
    other.transact(
        [
            Operation("create", f"{root}/available"),
            Operation("create", f"{root}/available/readonly"),
            Operation("create", f"{root}/INSTANCEID", b"52f9a8c4-0b51-4b6e-8d2c-1d3a1a7f7a10"),
            Operation("create", f"{root}/available/127.0.0.1:3181", b"info", ephemeral=True),
        ]
    )
    assert other.create(f"{root}/00/0000/L0001", b"metadata", parents=True) == 0
    for key, data, owner in [
        ("/available", b"", 0),
        ("/available/readonly", b"", 0),
        ("/INSTANCEID", b"52f9a8c4-0b51-4b6e-8d2c-1d3a1a7f7a10", 0),
        ("/available/127.0.0.1:3181", b"info", other.session()),
        ("/00", b"", 0),
        ("/00/0000", b"", 0),
        ("/00/0000/L0001", b"metadata", 0),
    ]:
        found, stat = raw.get(root + key)
        assert (found, stat.version, stat.ephemeralOwner) == (data, 0, owner), key
        acls, _ = raw.get_acls(root + key)
        assert [(acl.perms, acl.id.scheme, acl.id.id) for acl in acls] == [(31, "world", "anyone")]


def test_versions_are_those_of_the_znodes(raw: KazooClient, other: ZooKeeperStore, root: str) -> None:
    raw.create(f"{root}/a", b"one")
    value = other.get(f"{root}/a")
    assert value is not None
    assert value.version == 0
    assert other.put(f"{root}/a", b"two", 0) == 1
    assert raw.set(f"{root}/a", b"three", version=1).version == 2
    with pytest.raises(ConflictError):
        other.put(f"{root}/a", b"four", 1)
    assert other.transact([Operation("put", f"{root}/a", b"four", 2)]) == [3]
    assert other.put(f"{root}/a", b"five") == 4


@pytest.mark.parametrize("version", [-1, -2, 2**31, 2**40])
def test_a_version_that_no_znode_has_is_another_one(other: ZooKeeperStore, root: str, version: int) -> None:
    """-1 is any version to ZooKeeper, and what does not fit would end kazoo's loop."""
    other.create(f"{root}/a", b"x")
    session = other.session()
    for call in (
        lambda: other.put(f"{root}/a", b"y", version),
        lambda: other.delete(f"{root}/a", version),
        lambda: other.transact([Operation("put", f"{root}/a", b"y", version)]),
    ):
        with pytest.raises(ConflictError):
            call()
    value = other.get(f"{root}/a")
    assert value is not None
    assert value.data == b"x"
    assert other.session() == session


def test_ids_come_from_sequential_ephemeral_znodes(raw: KazooClient, other: ZooKeeperStore, root: str) -> None:
    other.create(f"{root}/idgen")
    first = other.create_sequential(f"{root}/idgen/ID-", ephemeral=True)
    assert first == f"{root}/idgen/ID-0000000000"
    assert raw.get(first)[1].ephemeralOwner == other.session()
    other.delete(first)
    assert raw.create(f"{root}/idgen/ID-", sequence=True) == f"{root}/idgen/ID-0000000001"
    assert other.create_sequential(f"{root}/idgen/ID-") == f"{root}/idgen/ID-0000000002"


def test_a_znode_without_data_is_an_empty_value(raw: KazooClient, other: ZooKeeperStore, root: str) -> None:
    """Java can write null, which is not the same to ZooKeeper."""
    raw.create(f"{root}/null", None)
    assert raw.get(f"{root}/null")[0] is None
    value = other.get(f"{root}/null")
    assert value is not None
    assert value.data == b""


def test_javas_client_reads_what_we_write_and_we_what_it_writes(
    server: ZooKeeperServer, other: ZooKeeperStore, root: str
) -> None:
    other.create(f"{root}/ours", b"walkeeper")
    java = ["java", "-Xmx64m", "-cp", CLASS_PATH, "org.apache.zookeeper.ZooKeeperMain", "-server", server.hosts]
    script = f"create {root}/theirs java\nset {root}/theirs java2\nget {root}/ours\nquit\n"
    done = subprocess.run(java, input=script, text=True, capture_output=True, timeout=300, check=False)
    assert "walkeeper" in done.stdout, done.stdout + done.stderr
    value = other.get(f"{root}/theirs", linearizable=True)
    assert value is not None
    assert (value.data, value.version, value.ephemeral) == (b"java2", 1, False)


def test_what_an_access_list_forbids_is_said_and_harms_nothing(
    raw: KazooClient, other: ZooKeeperStore, root: str
) -> None:
    raw.create(f"{root}/theirs", b"x", acl=[make_digest_acl("somebody", "secret", all=True)])
    session = other.session()
    for call in (
        lambda: other.get(f"{root}/theirs"),
        lambda: other.put(f"{root}/theirs", b"y"),
        lambda: other.create(f"{root}/theirs/below"),
        lambda: other.watch(f"{root}/theirs", lambda: None),
        lambda: other.transact([Operation("check", root), Operation("put", f"{root}/theirs", b"y")]),
    ):
        with pytest.raises(MetadataError, match="ACL") as refused:
            call()
        assert type(refused.value) is MetadataError
        assert refused.value.key is not None
        assert refused.value.key.startswith(f"{root}/theirs")
    assert other.children(root) == ["theirs"]
    assert other.session() == session


def test_parents_are_made_while_somebody_deletes_what_is_empty(
    server: ZooKeeperServer, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    """As two clients do that create and delete ledgers of one range."""
    store = open_store(server.hosts)
    ended = threading.Event()

    def sweep() -> None:
        while not ended.is_set():
            for key in (f"{root}/00/0000", f"{root}/00"):
                with contextlib.suppress(MetadataError):
                    other.delete(key)

    sweeper = Call(sweep)
    for _ in range(60):
        store.create(f"{root}/00/0000/L0001", b"x", parents=True)
        store.delete(f"{root}/00/0000/L0001")
    ended.set()
    sweeper.outcome()


def test_hosts_are_separated_by_comma_or_semicolon_and_have_no_path(open_store: Open, server: ZooKeeperServer) -> None:
    dead = "127.0.0.1:1"
    store = open_store(f"{dead};{server.hosts}", session_timeout=LONG)
    assert store.uri == f"zk://{dead};{server.hosts}"
    assert store.get("/") is not None
    assert open_store(server.hosts, uri="zk+hierarchical://x/ledgers").uri == "zk+hierarchical://x/ledgers"
    with pytest.raises(MetadataError, match="path"):
        ZooKeeperStore("127.0.0.1:1/ledgers")


# ---- sessions ----


def test_a_connection_that_is_cut_is_no_lost_session(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG)
    events = Calls()
    store.on_session(events)
    store.create(f"{root}/here", ephemeral=True)
    session = store.session()
    for _ in range(3):
        before = proxy.accepted
        proxy.cut()
        until(lambda before=before: proxy.accepted > before)  # type: ignore[misc]
        assert store.children(root) == ["here"]
    assert store.session() == session
    assert events.made == []
    assert other.children(root) == ["here"]


def test_a_session_expires_and_there_is_a_new_one(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    """A bookie registers again from the callback, as this one does."""
    store = open_store(proxy.hosts, session_timeout=SHORT)
    events = Calls()

    def again(event: str) -> None:
        events(event, store.session())
        if event == "new":
            store.create(f"{root}/here", b"second", ephemeral=True)

    store.on_session(again)
    store.create(f"{root}/here", b"first", ephemeral=True)
    session = store.session()
    proxy.swallow()
    until(lambda: other.get(f"{root}/here") is None, "ZooKeeper keeps the key")
    assert events.made == []  # nobody could tell us
    proxy.heal()
    until(lambda: other.get(f"{root}/here") is not None, "it was not registered again")
    assert [event for event, _ in events.made] == ["lost", "new"]
    assert events.made[1][1] == store.session() != session
    value = other.get(f"{root}/here")
    assert value is not None
    assert (value.data, value.ephemeral) == (b"second", True)


def test_a_half_open_connection_is_replaced_before_the_session_is_lost(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    """Of a store that nobody asks anything, and of one that is asked all the time, which puts kazoo's pings off."""
    idle, busy = (open_store(proxy.hosts, session_timeout=9.0) for _ in range(2))
    sessions = [idle.session(), busy.session()]
    idle.create(f"{root}/here", ephemeral=True)
    proxy.leave_half_open()
    writing = Call(lambda: busy.put(root, b"x"))
    calls = [Call(lambda: busy.children(root))]
    end = time.monotonic() + WAIT_SECONDS
    while calls[0].is_alive() and time.monotonic() < end:
        time.sleep(0.05)
        calls.append(Call(lambda: busy.children(root)))
    assert all(call.outcome() == ["here"] for call in calls)
    assert isinstance(writing.outcome(), UnknownOutcomeError)
    assert idle.children(root) == ["here"]
    assert [idle.session(), busy.session()] == sessions


def test_a_loop_of_kazoo_that_ended_is_started_again(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    """It ends by what it does not understand, here an answer to nothing."""
    store = open_store(proxy.hosts, session_timeout=LONG)
    events, hints = Calls(), Calls()
    store.on_session(events)
    store.watch(root, hints)
    session = store.session()
    proxy.say(struct.pack(">iiqi", 16, 77, 0, 0))
    until(lambda: events.made == [("lost",), ("new",)])
    assert store.session() not in (session, 0)
    other.create(f"{root}/a")
    until(lambda: hints.count)
    assert store.children(root) == ["a"]


# ---- outcomes ----


def writes(store: ZooKeeperStore, root: str) -> list[tuple[Callable[[], Any], Callable[[], bool]]]:
    """Every kind of write, and whether it is done."""

    def data_of(key: str) -> bytes | None:
        value = store.get(key, linearizable=True)
        return value and value.data

    return [
        (lambda: store.create(f"{root}/created", b"x"), lambda: data_of(f"{root}/created") == b"x"),
        (lambda: store.create_sequential(f"{root}/n-"), lambda: any(n[:2] == "n-" for n in store.children(root))),
        (lambda: store.put(f"{root}/put", b"new", 0), lambda: data_of(f"{root}/put") == b"new"),
        (lambda: store.delete(f"{root}/deleted"), lambda: data_of(f"{root}/deleted") is None),
        (lambda: store.transact([Operation("create", f"{root}/t")]), lambda: data_of(f"{root}/t") is not None),
    ]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("arrives", [True, False], ids=["arrived", "did_not_arrive"])
def test_a_write_without_an_answer_is_unknown(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str, number: int, arrives: bool
) -> None:
    other.create(f"{root}/put")
    other.create(f"{root}/deleted")
    store = open_store(proxy.hosts, session_timeout=LONG)
    store.session()
    write, _ = writes(store, root)[number]
    _, is_done = writes(other, root)[number]
    if arrives:
        proxy.swallow_answers()
    else:
        proxy.swallow_requests()
    writing = Call(write)
    until(lambda: proxy.swallowed)
    assert is_done() == arrives
    proxy.cut()
    assert isinstance(writing.outcome(), UnknownOutcomeError)
    proxy.heal()
    store.children(root)
    assert is_done() == arrives


def test_a_write_without_a_connection_is_not_done_not_even_later(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    """kazoo would keep it, and send it as soon as there is a connection."""
    other.create(f"{root}/put")
    other.create(f"{root}/deleted")
    store = open_store(proxy.hosts, session_timeout=LONG, timeout=0.05)
    until(lambda: store._connection._up is not None)
    proxy.refuse()
    until(lambda: store._connection._up is None)
    for write, _ in writes(store, root):
        with pytest.raises(UnavailableError):
            write()
    with pytest.raises(UnavailableError):
        store.get(root)
    proxy.heal()
    until(lambda: store._connection._up is not None)
    store.children(root)  # on the connection on which they would have been sent
    assert [is_done() for _, is_done in writes(other, root)] == [False] * 5


def test_a_store_may_be_opened_before_there_is_a_server(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    proxy.refuse()
    impatient = open_store(proxy.hosts, session_timeout=LONG, timeout=0.2)
    for call in (impatient.session, lambda: impatient.get(root), lambda: impatient.watch(root, lambda: None)):
        with pytest.raises(UnavailableError, match="cannot be reached"):
            call()
    store = open_store(proxy.hosts, session_timeout=LONG)
    events = Calls()
    store.on_session(events)
    reading = Call(lambda: store.children(root))
    proxy.heal()
    assert reading.outcome() == []
    assert events.made == []  # the first session is no new one


def test_reads_are_asked_again_of_the_next_connection(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG)
    store.session()
    proxy.hold()
    calls = [
        Call(lambda: store.children(root)),
        Call(lambda: store.get(f"{root}/none", linearizable=True)),
        Call(lambda: list(store.scan(root))),
    ]
    until(lambda: len(store._connection._client._pending) >= 3)
    proxy.cut()
    proxy.heal()
    assert [call.outcome() for call in calls] == [[], None, []]


def test_a_read_behind_another_connections_sync_is_asked_again(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sync was answered by one server; the next may be behind it."""
    store = open_store(proxy.hosts, session_timeout=LONG)
    store.create(f"{root}/a")
    answered = Connection._answer
    asked: list[Any] = []

    def answer_then_cut(self: Connection, result: Any, up: Any) -> Any:
        answer = answered(self, result, up)
        asked.append(answer)
        if len(asked) == 1:  # sync's
            until(lambda: not up.client._queue and not up.client._pending, "get is not answered")
            proxy.cut()
            until(lambda: self._up is not None and self._up.number > up.number)
        return answer

    monkeypatch.setattr(Connection, "_answer", answer_then_cut)
    assert store.get(f"{root}/a", linearizable=True) is not None
    assert len(asked) == 4


def test_the_server_is_killed_and_comes_back_under_use(
    server: ZooKeeperServer, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    """Reads go on; each write is done, or unknown and settled by reading; nothing is done twice or half."""
    store = open_store(server.hosts, session_timeout=LONG)
    store.create(f"{root}/counter", b"0 ")
    store.create(f"{root}/here", ephemeral=True)
    hints = Calls()
    store.watch(f"{root}/counter", hints)
    session = store.session()
    ended = threading.Event()
    counted = [0, 0, 0]
    reads = [0]

    def count(number: int) -> None:
        while not ended.is_set():
            add_one((store, other)[number % 2], f"{root}/counter")  # type: ignore[arg-type]
            counted[number] += 1

    def read() -> None:
        last = 0
        while not ended.is_set():
            value = store.get(f"{root}/counter")
            assert value is not None
            number = int(value.data.split()[0])
            assert number >= last, "a session never reads backwards"
            last = number
            reads[0] += 1

    calls = [*(Call(lambda number=number: count(number)) for number in range(3)), Call(read)]  # type: ignore[misc]
    try:
        for _ in range(2):
            before = [*counted, *reads]
            until(lambda: all(now > then + 2 for now, then in zip([*counted, *reads], before, strict=True)))  # noqa: B023
            server.kill()
            server.restart()
        before, hints_before = [*counted, *reads], hints.count
        until(lambda: all(now > then for now, then in zip([*counted, *reads], before, strict=True)))
        until(lambda: hints.count > hints_before, "the watch is gone")
    finally:
        ended.set()
    assert [call.outcome() for call in calls] == [None] * 4
    value = other.get(f"{root}/counter", linearizable=True)
    assert value is not None
    assert int(value.data.split()[0]) == sum(counted)
    assert store.session() == session
    assert other.get(f"{root}/here") is not None


def test_the_patterns_of_callers_bear_whatever_the_network_does(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    seed = int(os.environ.get("WALKEEPER_TEST_SEED", str(time.time_ns() % 2**32)))
    print(f"WALKEEPER_TEST_SEED={seed}")
    chance = random.Random(seed)
    stores = [open_store(proxy.hosts, session_timeout=SHORT) for _ in range(2)]
    other.create(f"{root}/counter", b"0 ")
    ended = threading.Event()

    def disturb() -> None:
        while not ended.wait(chance.uniform(0.02, 0.3)):
            fault = chance.choice(["cut", "cut", "swallow_answers", "swallow_requests", "hold", "refuse"])
            getattr(proxy, fault)()
            ended.wait(chance.uniform(0.01, 0.5))
            proxy.heal()
        proxy.heal()

    def work(number: int) -> list[bool]:
        made = []
        for turn in range(8):
            add_one(stores[number % 2], f"{root}/counter")  # type: ignore[arg-type]
            made.append(create(stores[number % 2], f"{root}/{turn}", uuid.uuid4().bytes))  # type: ignore[arg-type]
        return made

    disturber = Call(disturb)
    workers = [Call(lambda number=number: work(number)) for number in range(3)]  # type: ignore[misc]
    try:
        made = [worker.outcome() for worker in workers]
        for turn in range(8):
            delete(stores[0], f"{root}/{turn}")  # type: ignore[arg-type]
    finally:
        ended.set()
        disturber.outcome()
    assert [sum(column) for column in zip(*made, strict=True)] == [1] * 8
    value = other.get(f"{root}/counter", linearizable=True)
    assert value is not None
    assert value.data.split()[0] == b"24"
    assert other.children(root) == ["counter"]


# ---- watches ----


@pytest.mark.parametrize("change", ["put", "child", "delete", "create"])
def test_what_changed_without_a_connection_is_told_afterwards(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str, change: str
) -> None:
    key = f"{root}/{change}"
    if change != "create":
        other.create(key)
    store = open_store(proxy.hosts, session_timeout=LONG)
    hints = Calls()
    store.watch(key, hints)
    proxy.refuse()
    until(lambda: store._connection._up is None)
    if change == "put":
        other.put(key, b"x")
    elif change == "child":
        other.create(f"{key}/child")
    elif change == "delete":
        other.delete(key)
    else:
        other.create(key)
    proxy.heal()
    until(lambda: hints.count)


def test_watches_are_set_again_after_each_reconnect(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    other.create(f"{root}/a")
    store = open_store(proxy.hosts, session_timeout=LONG)
    hints = Calls()
    store.watch(f"{root}/a", hints)
    for number in range(4):
        before = store._connection._number
        proxy.cut()
        until(lambda before=before: store._connection._number > before)  # type: ignore[misc]
        made = hints.count
        other.put(f"{root}/a", b"%d" % number)
        until(lambda made=made: hints.count > made)  # type: ignore[misc]
    assert hints.count == 4  # and a reconnect alone is no change


def test_a_session_that_was_lost_takes_no_watches_with_it(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=SHORT)
    events, hints = Calls(), Calls()
    store.on_session(events)
    store.watch(root, hints)
    store.create(f"{root}/here", ephemeral=True)
    until(lambda: hints.count)
    proxy.swallow()
    until(lambda: other.children(root) == [])
    before = hints.count
    proxy.heal()
    until(lambda: hints.count > before, "its own key went, and it was not told")
    assert ("new",) in events.made
    before = hints.count
    other.create(f"{root}/a")
    until(lambda: hints.count > before)


def test_children_are_watched_of_a_key_that_came_while_the_watch_was_set(
    server: ZooKeeperServer, open_store: Open, other: ZooKeeperStore, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZooKeeper watches no children of what is not there."""
    store = open_store(server.hosts)
    store.session()
    asked = _KeyWatch._children
    first = [True]

    def then_it_comes(self: Any, *arguments: Any) -> bool:
        there = asked(self, *arguments)
        if first.pop() if first else False:
            other.create(f"{root}/a")
        return there

    monkeypatch.setattr(_KeyWatch, "_children", then_it_comes)
    hints = Calls()
    store.watch(f"{root}/a", hints)
    before = hints.count
    other.create(f"{root}/a/child")
    until(lambda: hints.count > before)


def test_a_look_now_and_then_notices_what_no_event_told(
    server: ZooKeeperServer, open_store: Open, other: ZooKeeperStore, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watches, "event", lambda self, event: None)
    store = open_store(server.hosts, poll_seconds=0.05)
    hints = Calls()
    store.watch(f"{root}/a", hints)
    for change in (
        lambda: other.create(f"{root}/a"),
        lambda: other.put(f"{root}/a", b"x"),
        lambda: other.create(f"{root}/a/child"),
        lambda: other.delete(f"{root}/a/child"),
        lambda: other.delete(f"{root}/a"),
    ):
        before = hints.count
        change()
        until(lambda before=before: hints.count > before)  # type: ignore[misc]


def test_a_callback_that_waits_holds_up_nothing_but_callbacks(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG)
    began, go_on, hints = threading.Event(), threading.Event(), Calls()

    def callback() -> None:
        began.set()
        assert go_on.wait(WAIT_SECONDS)

    store.watch(f"{root}/a", callback)
    store.watch(f"{root}/b", hints)
    other.create(f"{root}/a")
    assert began.wait(WAIT_SECONDS)
    try:
        before = store._connection._number
        proxy.cut()
        until(lambda: store._connection._number > before)
        store.create(f"{root}/b")
        assert store.children(root) == ["a", "b"]
        assert hints.count == 0
    finally:
        go_on.set()
    until(lambda: hints.count)


# ---- close ----


def test_close_ends_who_waits_for_a_connection(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    proxy.refuse()
    store = open_store(proxy.hosts, session_timeout=LONG, timeout=3600.0)
    calls = [
        Call(lambda: store.get(root)),
        Call(lambda: store.put(root, b"x")),
        Call(store.session),
        Call(lambda: store.watch(root, lambda: None)),
    ]
    time.sleep(0.1)
    store.close()
    assert all(isinstance(call.outcome(), ClosedError) for call in calls)


def test_close_ends_who_waits_for_an_answer(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG, timeout=3600.0)
    store.session()
    proxy.swallow()
    reading, writing = Call(lambda: store.get(root)), Call(lambda: store.put(root, b"x"))
    until(lambda: len(store._connection._client._pending) == 2)
    store.close()
    assert isinstance(reading.outcome(), ClosedError)
    assert isinstance(writing.outcome(), UnknownOutcomeError)


def test_close_leaves_no_thread_and_no_connection(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    before = set(threading.enumerate())
    for fault in (lambda: None, proxy.cut, proxy.hold):
        store = ZooKeeperStore(proxy.hosts)
        store.watch(root, lambda: None)
        store.on_session(lambda event: None)
        with contextlib.suppress(MissingError):
            store.delete(f"{root}/none")
        fault()
        store.close()
        proxy.heal()
    until(lambda: not proxy._pairs)
    until(lambda: not {thread for thread in set(threading.enumerate()) - before if "_pump" not in thread.name})
