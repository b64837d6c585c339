"""What is special about the ZooKeeper store: Java's tree, sessions that expire, and watches that must not.

What it shares with every other store is in tests/metadata; how its calls end when the network or the server fails, in
test_zookeeper_outcomes.py.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import threading
import time
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from metadata.stores import WAIT_SECONDS, Calls, until
from tcp_proxy import TcpProxy
from zookeeper_fixtures import LONG, SHORT, Call, Open
from zookeeper_server import CLASS_PATH, ZooKeeperServer

from walkeeper.metadata import (
    VALUE_BYTES_MAX,
    ConflictError,
    ExistsError,
    MetadataError,
    Operation,
    UnknownOutcomeError,
)
from walkeeper.metadata import open_store as open_store_of
from walkeeper.metadata._zookeeper import ZooKeeperStore
from walkeeper.metadata._zookeeper_watches import Watches, _KeyWatch

pytest_plugins = ["zookeeper_fixtures"]


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


def test_many_parents_and_a_large_value_need_more_than_a_transaction(other: ZooKeeperStore, root: str) -> None:
    deep = root + "/d" * 120
    other.create(deep, b"deep", parents=True)
    large = bytes(VALUE_BYTES_MAX)
    other.create(f"{root}/a/b/c", large, parents=True)
    for key, data in ((deep, b"deep"), (f"{root}/a/b/c", large)):
        value = other.get(key)
        assert value is not None
        assert value.data == data
    with pytest.raises(ExistsError) as refused:
        other.create(deep, parents=True)
    assert refused.value.key == deep


def test_hosts_are_separated_by_comma_or_semicolon_and_have_no_path(open_store: Open, server: ZooKeeperServer) -> None:
    dead = "127.0.0.1:1"
    store = open_store(f"{dead};{server.hosts}", session_timeout=LONG)
    assert store.uri == f"zk://{dead};{server.hosts}"
    assert store.get("/") is not None
    assert open_store(server.hosts, uri="zk+hierarchical://x/ledgers").uri == "zk+hierarchical://x/ledgers"
    with contextlib.closing(open_store_of(f"zk+hierarchical://{server.hosts}/ledgers").store) as opened:
        assert opened.get("/") is not None
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
    """Of a store that nobody asks anything, and of one that is asked all the time, which puts kazoo's pings off.

    A third of the session is left to connect again: 7 s, as a busy machine stalls for seconds.
    """
    idle, busy = (open_store(proxy.hosts, session_timeout=21.0) for _ in range(2))
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


def test_a_server_that_takes_a_connection_and_never_answers_is_given_up(
    proxy: TcpProxy, open_store: Open, other: ZooKeeperStore, root: str
) -> None:
    """One that is just starting does so. kazoo would wait for the first two until the session is lost."""
    store = open_store(proxy.hosts, session_timeout=21.0)
    store.create(f"{root}/here", ephemeral=True)
    session = store.session()
    proxy.leave_next_half_open(2)
    proxy.cut()
    assert store.children(root) == ["here"]
    assert store.session() == session


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
