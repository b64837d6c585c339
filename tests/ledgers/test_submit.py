"""submit: futures that are done in order, and what becomes of those that are not when somebody closes."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

import pytest
from ledger_runs import PATIENCE_S, contents, hanging

import walkeeper
from walkeeper_bookie.cluster import LocalCluster


def test_futures_are_done_in_the_order_of_the_entries(client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        done: list[int] = []
        futures = [writer.submit(b"entry %d" % number) for number in range(2000)]
        for future in futures:
            future.add_done_callback(lambda future: done.append(future.result()))
        assert [future.result(PATIENCE_S) for future in futures] == list(range(2000))
        assert writer.flush() == writer.lac == 1999
    assert sorted(done) == list(range(2000))
    assert contents(client, writer.ledger_id) == [b"entry %d" % number for number in range(2000)]


def test_a_future_cannot_be_cancelled(client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        future = writer.submit(b"paid 42")
        assert not future.cancel()
        assert future.result(PATIENCE_S) == 0


def test_when_close_returns_all_futures_are_done(client: walkeeper.LedgerClient) -> None:
    writer = client.create()
    futures = [writer.submit(b"entry %d" % number) for number in range(500)]
    writer.close()
    assert [future.result(0) for future in futures] == list(range(500))
    assert client.metadata(writer.ledger_id).last_entry_id == 499


def test_a_callback_may_add_and_close(client: walkeeper.LedgerClient) -> None:
    writer = client.create()
    closed = threading.Event()

    def go_on(future: Future[int]) -> None:
        assert writer.add(b"second") == 1
        writer.close()
        closed.set()

    writer.submit(b"first").add_done_callback(go_on)
    assert closed.wait(PATIENCE_S)
    assert contents(client, writer.ledger_id) == [b"first", b"second"]


def test_a_callback_that_raises_keeps_nothing_from_others(
    client: walkeeper.LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", said.append)

    def leave(future: Future[int]) -> None:
        raise SystemExit

    with client.create() as writer, hold(client):
        first, second = writer.submit(b"first"), writer.submit(b"second")
        first.add_done_callback(leave)
    assert (first.result(PATIENCE_S), second.result(PATIENCE_S)) == (0, 1)
    assert [each.exc_type for each in said] == [SystemExit]


class hold:
    """Keeps the thread that completes futures away, so that callbacks can be added before."""

    def __init__(self, client: walkeeper.LedgerClient) -> None:
        self._lock = client._completions._lock

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


# ---- bookies that do not answer ----


def test_closing_with_a_time_limit_ends_the_ledger_before_what_is_pending(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata) as client:
        writer = client.create()
        writer.add(b"paid 42")
        with hanging(*cluster.bookies[:2]):
            futures = [writer.submit(b"x"), writer.submit(b"y")]
            writer.close(0.2)
        for entry_id, future in enumerate(futures, 1):
            error = future.exception(0)
            assert isinstance(error, walkeeper.ClosedError)
            assert (error.outcome, error.entry_id) == ("not_written", entry_id)
        assert (client.metadata(writer.ledger_id).last_entry_id, writer.lac) == (0, 0)
        assert contents(client, writer.ledger_id) == [b"paid 42"]


def test_closing_the_client_leaves_what_is_pending_unknown_and_the_ledger_open(cluster: LocalCluster) -> None:
    client = walkeeper.LedgerClient(cluster.metadata)
    writer = client.create()
    with hanging(*cluster.bookies[:2]):
        futures = [writer.submit(b"x"), writer.submit(b"y")]
        client.close()
        assert not wait(futures, 0).not_done
    for entry_id, future in enumerate(futures):
        error = future.exception()
        assert isinstance(error, walkeeper.ClosedError)
        assert (error.outcome, error.entry_id, error.ledger_id) == ("unknown", entry_id, writer.ledger_id)
    for call in (lambda: writer.add(b"x"), lambda: writer.submit(b"x"), client.create, writer.close):
        with pytest.raises(walkeeper.ClosedError):
            call()
    with walkeeper.LedgerClient(cluster.metadata) as other:
        assert not other.metadata(writer.ledger_id).is_closed


def test_an_entry_that_is_late_is_of_unknown_outcome(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata, add_timeout=PATIENCE_S) as client, client.create() as writer:
        with hanging(*cluster.bookies[:2]):
            with pytest.raises(walkeeper.QuorumTimeoutError) as caught:
                writer.add(b"x", timeout=0.1)
            assert (caught.value.outcome, caught.value.entry_id) == ("unknown", 0)
            future = writer.submit(b"y")
            with pytest.raises(walkeeper.QuorumTimeoutError):
                writer.flush(0.1)
        assert future.result(PATIENCE_S) == 1  # and so is entry 0
    assert writer.lac == 1


def test_where_there_is_no_room_nothing_is_accepted(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata, add_timeout=PATIENCE_S) as client, client.create() as writer:
        with hanging(*cluster.bookies[:2]):
            futures: list[Future[int]] = []
            with pytest.raises(walkeeper.WouldBlockError) as caught:
                futures.extend(writer.submit(b"x", timeout=0) for _ in range(100_000))
            assert caught.value.outcome == "not_written"
            with pytest.raises(walkeeper.TimeoutError) as late:
                writer.submit(b"x", timeout=0.1)
            assert (type(late.value), late.value.outcome) == (walkeeper.TimeoutError, "not_written")
            assert writer.last_add_pushed == len(futures) - 1
            waiting: list[Future[int]] = []
            thread = threading.Thread(target=lambda: waiting.append(writer.submit(b"y")))
            thread.start()
        thread.join(PATIENCE_S)
        assert waiting[0].result(PATIENCE_S) == len(futures) == futures[-1].result(PATIENCE_S) + 1
