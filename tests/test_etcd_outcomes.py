"""How the calls of the etcd store end when the network, a server or `close` comes between."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from call import Call
from etcd_fixtures import LONG, SHORT, Open
from etcd_server import EtcdServer
from metadata.stores import Calls, until
from metadata.test_faults import add_one, create, delete
from ports import free_port
from tcp_proxy import TcpProxy, proxy_to

from walkeeper.metadata import (
    ClosedError,
    MissingError,
    Operation,
    UnavailableError,
    UnknownOutcomeError,
)
from walkeeper.metadata._etcd import EtcdStore
from walkeeper.metadata._etcd_connection import _OPTIONS

pytest_plugins = ["etcd_fixtures"]


NAMES = [b"/created", b"/counted", b"/put", b"/deleted", b"/t"]


def writes(store: EtcdStore, root: str) -> list[tuple[Callable[[], Any], Callable[[], bool]]]:
    """Every kind of write, and whether it is done."""

    def data_of(key: str) -> bytes | None:
        value = store.get(key, linearizable=True)
        return value and value.data

    return [
        (lambda: store.create(f"{root}/created", b"x"), lambda: data_of(f"{root}/created") == b"x"),
        (lambda: store.count_up(f"{root}/counted"), lambda: data_of(f"{root}/counted") is not None),
        (lambda: store.put(f"{root}/put", b"new"), lambda: data_of(f"{root}/put") == b"new"),
        (lambda: store.delete(f"{root}/deleted"), lambda: data_of(f"{root}/deleted") is None),
        (lambda: store.transact([Operation("create", f"{root}/t")]), lambda: data_of(f"{root}/t") is not None),
    ]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("arrives", [True, False], ids=["arrived", "did_not_arrive"])
def test_a_write_without_an_answer_is_unknown(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str, number: int, arrives: bool
) -> None:
    other.create(f"{root}/put")
    other.create(f"{root}/deleted")
    store = open_store(proxy.hosts, session_timeout=LONG)
    store.children(root)
    write, _ = writes(store, root)[number]
    _, is_done = writes(other, root)[number]
    if arrives:
        proxy.swallow_answers()
    else:
        proxy.swallow_requests()
    writing = Call(write)
    if arrives:
        until(is_done)
    else:
        until(lambda: root.encode() + NAMES[number] in proxy.swallowed_bytes)
        assert not is_done()
    proxy.cut()
    assert isinstance(writing.outcome(), UnknownOutcomeError)
    proxy.heal()
    store.children(root)
    assert is_done() == arrives


def test_a_sequential_key_without_an_answer_is_unknown(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
) -> None:
    """Its first call is a read, which is asked again."""
    store = open_store(proxy.hosts, session_timeout=LONG)
    written = store._connection.write

    def cut_behind(ask: Any, key: str | None) -> Any:
        proxy.swallow_answers()
        return written(ask, key)

    store._connection.write = cut_behind  # type: ignore[method-assign]
    writing = Call(lambda: store.create_sequential(f"{root}/n-"))
    until(lambda: other.children(root) == ["n-0000000000"])
    proxy.cut()
    assert isinstance(writing.outcome(), UnknownOutcomeError)


def test_a_write_without_a_connection_is_not_done_not_even_later(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
) -> None:
    other.create(f"{root}/put")
    other.create(f"{root}/deleted")
    store = open_store(proxy.hosts, session_timeout=LONG, timeout=0.05)
    until(lambda: store._connection.is_up)
    proxy.refuse()
    until(lambda: not store._connection.is_up)
    for write, _ in writes(store, root):
        with pytest.raises(UnavailableError):
            write()
    with pytest.raises(UnavailableError):
        store.get(root)
    proxy.heal()
    until(lambda: store._connection.is_up)
    store.children(root)  # on the connection on which they would have been sent
    assert [is_done() for _, is_done in writes(other, root)] == [False] * 5


def test_a_store_may_be_opened_before_there_is_a_server(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
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
    assert store.session()
    assert events.made == []  # the first session is no new one


def test_reads_are_asked_again_of_the_next_connection(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG)
    store.children(root)
    proxy.swallow()
    calls = [
        Call(lambda: store.children(root)),
        Call(lambda: store.get(f"{root}/none", linearizable=True)),
        Call(lambda: list(store.scan(root))),
    ]
    until(lambda: proxy.swallowed)
    proxy.heal()
    assert [call.outcome() for call in calls] == [[], None, []]


# ---- servers ----


def test_of_two_servers_one_may_be_dead(server: EtcdServer, open_store: Open, other: EtcdStore, root: str) -> None:
    for hosts in (f"127.0.0.1:{free_port()},{server.hosts}", f"{server.hosts};127.0.0.1:{free_port()}"):
        store = open_store(hosts, session_timeout=LONG)
        key = store.create_sequential(f"{root}/n-", ephemeral=True)
        assert other.get(key) is not None


def test_of_two_servers_one_may_die_under_use(
    server: EtcdServer, proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
) -> None:
    """The lease and the watches go on with the other one."""
    with proxy_to(server.port) as second:
        store = open_store(f"{proxy.hosts},{second.hosts}", session_timeout=LONG)
        store.create(f"{root}/here", ephemeral=True)
        session, hints = store.session(), Calls()
        store.watch(f"{root}/watched", hints)
        proxy.refuse()
        other.create(f"{root}/watched")
        until(lambda: hints.count)
        store.put(f"{root}/here", b"x")
        assert store.session() == session
        assert second.accepted > 0


def test_a_server_that_takes_connections_and_says_nothing_is_left_for_the_next(
    server: EtcdServer, proxy: TcpProxy, open_store: Open, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walkeeper.metadata._etcd_connection.CONNECT_SECONDS_MAX", 0.2)
    proxy.swallow()
    store = open_store(f"{proxy.hosts},{server.hosts}", session_timeout=LONG)
    assert store.children(root) == []
    assert proxy.accepted > 0


def test_a_connection_that_carries_nothing_any_more_is_given_up(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-open one: no error ends it. A write on it is unknown, a read is asked on the next one.

    gRPC's pings would notice as well, some seconds later. They do not come here.
    """
    never = {name: value * 1000 if name.endswith("_ms") else value for name, value in _OPTIONS}
    monkeypatch.setattr("walkeeper.metadata._etcd_connection._OPTIONS", tuple(never.items()))
    store = open_store(proxy.hosts, session_timeout=SHORT, timeout=10.0)
    store.children(root)
    proxy.leave_half_open()
    with pytest.raises(UnknownOutcomeError):
        store.put(root, b"x")
    assert store.children(root) == []
    proxy.leave_half_open()
    assert store.children(root) == []


def test_a_half_open_connection_that_only_watches_is_given_up(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks anything: its pings alone notice. They come sooner here than etcd would bear for long."""
    sooner = {name: value // 20 if name.endswith("_ms") else value for name, value in _OPTIONS}
    monkeypatch.setattr("walkeeper.metadata._etcd_connection._OPTIONS", tuple(sooner.items()))
    store = open_store(proxy.hosts, session_timeout=LONG)
    hints = Calls()
    store.watch(f"{root}/a", hints)
    until(lambda: store._watches._stream is not None)
    proxy.leave_half_open()
    other.create(f"{root}/a")
    until(lambda: hints.count)


def test_the_server_is_killed_and_comes_back_under_use(
    server: EtcdServer, open_store: Open, other: EtcdStore, root: str
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
        while not ended.wait(0.01):  # the value grows with each
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

    def all_go_on() -> None:
        before = [*counted, *reads]

        def go_on() -> bool:
            assert [call.error for call in calls if not call.is_alive()] == []
            return all(now > then + 2 for now, then in zip([*counted, *reads], before, strict=True))

        until(go_on)

    try:
        for _ in range(2):
            all_go_on()
            server.kill()
            server.restart()
        hints_before = hints.count
        all_go_on()
        until(lambda: hints.count > hints_before, "the watch is gone")
    finally:
        ended.set()
    assert [call.outcome() for call in calls] == [None] * 4
    value = other.get(f"{root}/counter", linearizable=True)
    assert value is not None
    assert int(value.data.split()[0]) == sum(counted)
    assert store.session() == session, "leases outlive the server"
    assert other.get(f"{root}/here") is not None


def test_the_patterns_of_callers_bear_whatever_the_network_does(
    proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str
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


# ---- close ----


def test_close_ends_who_waits_for_a_connection(proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str) -> None:
    proxy.refuse()
    store = open_store(proxy.hosts, session_timeout=LONG, timeout=3600.0)
    calls = [
        Call(lambda: store.get(root)),
        Call(lambda: store.put(root, b"x")),
        Call(store.session),
        Call(lambda: store.watch(root, lambda: None)),
    ]
    until(lambda: proxy.accepted)
    store.close()
    assert all(isinstance(call.outcome(), ClosedError) for call in calls)


def test_close_ends_who_waits_for_an_answer(proxy: TcpProxy, open_store: Open, other: EtcdStore, root: str) -> None:
    store = open_store(proxy.hosts, session_timeout=LONG, timeout=3600.0)
    store.children(root)
    proxy.swallow()
    asked = Calls()
    for name in ("read", "write"):
        call = getattr(store._connection, name)

        def noted(ask: Any, key: str | None, *rest: Any, call: Any = call) -> Any:
            return call(lambda stubs, seconds: [asked(), ask(stubs, seconds)][1], key, *rest)

        setattr(store._connection, name, noted)
    reading, writing = Call(lambda: store.get(root)), Call(lambda: store.put(root, b"x"))
    until(lambda: asked.count == 2 and proxy.swallowed_bytes.count(root.encode()) >= 2)
    store.close()
    assert isinstance(reading.outcome(), ClosedError)
    assert isinstance(writing.outcome(), UnknownOutcomeError)


def test_close_leaves_no_thread_and_no_connection(proxy: TcpProxy) -> None:
    before = set(threading.enumerate())
    for fault in (lambda: None, proxy.cut, proxy.hold):
        store = EtcdStore(proxy.hosts)
        store.watch("/", lambda: None)
        store.on_session(lambda event: None)
        store.create(f"/etcd-store-{uuid.uuid4().hex}", ephemeral=True)
        with contextlib.suppress(MissingError):
            store.delete("/etcd-store-none")
        fault()
        store.close()
        proxy.heal()
    until(lambda: not proxy._pairs)
    until(lambda: not {thread for thread in set(threading.enumerate()) - before if "_pump" not in thread.name})


@pytest.mark.parametrize("first", [True, False], ids=["before_it_was_reached", "after"])
def test_an_etcd_that_is_away_is_one_line_and_not_one_for_each_attempt(
    proxy: TcpProxy, open_store: Open, caplog: pytest.LogCaptureFixture, first: bool
) -> None:
    with caplog.at_level("INFO", "walkeeper.metadata"):
        if first:
            proxy.refuse()
        store = open_store(proxy.hosts, session_timeout=LONG)
        if not first:
            store.children("/")
            proxy.refuse()
        before = proxy.accepted
        until(lambda: proxy.accepted > before + 3)
        proxy.heal()
        until(lambda: "is reached again" in caplog.text)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, said
