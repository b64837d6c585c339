"""How the calls of the ZooKeeper store end when the network, the server or `close` comes between."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import SessionExpiredError, ThrottledOpError
from kazoo.handlers.threading import SequentialThreadingHandler
from metadata.stores import Calls, until
from metadata.test_faults import add_one, create, delete
from tcp_proxy import TcpProxy
from zookeeper_fixtures import LONG, SHORT, Call, Open
from zookeeper_server import ZooKeeperServer

from walkeeper.metadata import (
    ClosedError,
    MissingError,
    Operation,
    UnavailableError,
    UnknownOutcomeError,
)
from walkeeper.metadata._zookeeper import ZooKeeperStore
from walkeeper.metadata._zookeeper_connection import Connection

pytest_plugins = ["zookeeper_fixtures"]


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


class Refused:
    """What kazoo hands out for a request that the server did not take."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def ready(self) -> bool:
        return True

    def get(self) -> Any:
        raise self._error


@pytest.mark.parametrize(("call", "error"), [("read", ThrottledOpError), ("write", SessionExpiredError)])
def test_a_server_that_takes_nothing_is_asked_ever_less_and_not_for_ever(
    server: ZooKeeperServer, open_store: Open, call: str, error: type[Exception]
) -> None:
    store = open_store(server.hosts, session_timeout=LONG, timeout=0.5)
    until(lambda: store._connection._up is not None)
    asked: list[float] = []

    def send(client: Any) -> list[Refused]:
        asked.append(time.monotonic())
        assert len(asked) < 20, "a storm"
        return [Refused(error())]

    with pytest.raises(UnavailableError, match="gives no answer"):
        getattr(store._connection, call)(send, "/key")
    assert len(asked) > 1
    assert asked[-1] - asked[-2] > asked[1] - asked[0]


@pytest.mark.parametrize("first", [True, False], ids=["before_it_was_reached", "after"])
def test_a_zookeeper_that_is_away_is_one_line_and_not_one_for_each_attempt(
    server: ZooKeeperServer, open_store: Open, caplog: pytest.LogCaptureFixture, first: bool
) -> None:
    attempts = Calls()

    def refused(*arguments: Any, **options: Any) -> Any:
        attempts()
        raise ConnectionRefusedError(111, "Connection refused")

    with caplog.at_level("INFO", "walkeeper.metadata"):
        with pytest.MonkeyPatch.context() as trouble:
            if first:
                trouble.setattr(SequentialThreadingHandler, "create_connection", refused)
            store = open_store(server.hosts, session_timeout=LONG)
            if not first:
                store.session()
                trouble.setattr(SequentialThreadingHandler, "create_connection", refused)
                store._connection.cut()
            until(lambda: attempts.count > 3)
        until(lambda: "is reached again" in caplog.text)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, said
    assert ("refused" in said[0]) == first


def test_what_stores_log_is_not_written_where_nobody_set_up_logging() -> None:
    """A command says itself what is wrong; kazoo alone would write a line a second before that."""
    program = (
        "import logging, walkeeper.metadata\n"
        "for name in ('walkeeper.metadata', 'walkeeper.metadata.kazoo'): logging.getLogger(name).error('x')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
