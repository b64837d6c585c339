"""Bookies that are killed, that hang, or that were never there."""

from __future__ import annotations

import signal
import threading

import pytest
from ledger_runs import PATIENCE_S, contents, hanging, kill, payload, writer_process

import walkeeper
from walkeeper_bookie.cluster import LocalCluster


def test_a_bookie_that_is_killed_fails_no_add(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata) as client:
        with client.create() as writer:
            futures = [writer.submit(payload(number)) for number in range(200)]
            kill(cluster.bookies[1])
            futures += [writer.submit(payload(number)) for number in range(200, 400)]
            assert [future.result(PATIENCE_S) for future in futures] == list(range(400))
            assert writer.add(payload(400)) == 400
            assert [entry.payload for entry in writer.read()] == [payload(number) for number in range(401)]
        assert contents(client, writer.ledger_id) == [payload(number) for number in range(401)]


def test_a_bookie_that_hangs_is_left_out(cluster: LocalCluster) -> None:
    with (
        walkeeper.LedgerClient(cluster.metadata, add_timeout=0.2) as client,
        client.create() as writer,
        hanging(cluster.bookies[0]),
    ):
        assert [writer.add(payload(number)) for number in range(20)] == list(range(20))


def test_two_of_three_that_are_gone_end_the_writer_but_not_what_was_confirmed(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata) as client:
        writer = client.create()
        writer.add(b"paid 42")
        kill(cluster.bookies[0])
        kill(cluster.bookies[2])
        with pytest.raises(walkeeper.UnavailableError) as caught:
            writer.add(b"paid 43")
        assert (caught.value.outcome, caught.value.entry_id, caught.value.ledger_id) == ("unknown", 1, writer.ledger_id)
        for call in (lambda: writer.add(b"x"), lambda: writer.submit(b"x"), lambda: writer.add_many([b"x"])):
            with pytest.raises(walkeeper.UnavailableError) as again:
                call()
            assert (again.value.outcome, again.value.entry_id) == ("not_written", None)
        assert [entry.payload for entry in writer.read()] == [b"paid 42"]
        writer.close()
        assert (client.metadata(writer.ledger_id).last_entry_id, writer.lac, writer.length) == (0, 0, 7)
        assert contents(client, writer.ledger_id) == [b"paid 42"]


def test_submitted_entries_of_a_writer_that_failed_are_of_unknown_outcome(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata) as client, client.create() as writer:
        kill(cluster.bookies[0])
        kill(cluster.bookies[2])
        futures = [writer.submit(b"x"), writer.submit(b"y")]
        for entry_id, future in enumerate(futures):
            error = future.exception(PATIENCE_S)
            assert isinstance(error, walkeeper.UnavailableError)
            assert (error.outcome, error.entry_id) == ("unknown", entry_id)
        with pytest.raises(walkeeper.UnavailableError):
            writer.flush()


def test_with_two_of_three_down_an_end_is_not_known(cluster: LocalCluster) -> None:
    """One bookie cannot say that no entry was confirmed by the two others."""
    with walkeeper.LedgerClient(cluster.metadata) as client:
        with writer_process(cluster.metadata) as writer:
            writer.wait(20)
            writer.kill()
        kill(cluster.bookies[0])
        kill(cluster.bookies[1])
        with pytest.raises(walkeeper.UnavailableError):
            client.open(writer.ledger_id)
        assert not client.metadata(writer.ledger_id).is_closed
        with pytest.raises(walkeeper.UnavailableError):
            client.open_no_recovery(writer.ledger_id)


def test_a_writer_and_a_bookie_that_are_killed_take_nothing_with_them(cluster: LocalCluster) -> None:
    with writer_process(cluster.metadata) as writer:
        writer.wait(50)
        kill(cluster.bookies[2])
        writer.wait(100)
        writer.kill()
    with walkeeper.LedgerClient(cluster.metadata) as client:
        found = contents(client, writer.ledger_id)
    assert len(found) >= writer.acknowledged
    assert found == [payload(number) for number in range(len(found))]


def test_too_few_bookies_are_counted(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata) as client:
        with pytest.raises(walkeeper.NotEnoughBookiesError, match="there are 3") as caught:
            client.create(ensemble_size=4)
        assert caught.value.outcome == "not_written"
        assert isinstance(caught.value, walkeeper.UnavailableError)
        assert list(client.list()) == []


def test_what_no_bookie_answers_for_is_unavailable_and_not_lost(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata) as client:
        with client.create() as writer:
            writer.add(b"paid 42")
        with client.open(writer.ledger_id) as reader:
            for bookie in cluster.bookies:
                kill(bookie)
            with pytest.raises(walkeeper.UnavailableError) as caught:
                list(reader.read())
            assert caught.value.entry_id == 0


def test_a_read_that_takes_too_long_may_be_made_again(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata, read_timeout=PATIENCE_S) as client:
        with client.create() as writer:
            writer.add(b"paid 42")
        with client.open(writer.ledger_id) as reader:
            with hanging(*cluster.bookies):
                for read in (reader.read, lambda timeout: reader.read_unconfirmed(0, timeout=timeout)):
                    with pytest.raises(walkeeper.TimeoutError) as caught:
                        list(read(timeout=0.1))
                    assert (caught.value.ledger_id, caught.value.entry_id) == (writer.ledger_id, 0)
            assert [entry.payload for entry in reader.read()] == [b"paid 42"]


def test_an_open_that_takes_too_long_is_done_later(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata, read_timeout=PATIENCE_S) as client:
        with writer_process(cluster.metadata) as writer:
            writer.wait(20)
            writer.kill()
        with hanging(*cluster.bookies):
            with pytest.raises(walkeeper.TimeoutError) as caught:
                client.open(writer.ledger_id, timeout=0.2)
            assert caught.value.ledger_id == writer.ledger_id
        assert len(contents(client, writer.ledger_id)) >= 20


def test_bookies_are_listed_with_their_states(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata) as client:
        ids = sorted(bookie.bookie_id for bookie in cluster.bookies)
        assert [(each.bookie_id, each.state, each.address) for each in client.bookies()] == [
            (bookie_id, "writable", bookie_id) for bookie_id in ids
        ]
        stopped = cluster.bookies[1]
        assert stopped.process is not None
        stopped.stopping = True
        stopped.process.terminate()
        stopped.process.wait()
        assert {each.bookie_id: each.state for each in client.bookies()} == {
            bookie_id: "down" if bookie_id == stopped.bookie_id else "writable" for bookie_id in ids
        }


# ---- signals ----


class Stopped(Exception):
    pass


def raising_after(seconds: float) -> None:
    def stop(number: int, frame: object) -> None:
        raise Stopped

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def test_a_handler_that_raises_says_that_the_entry_is_of_unknown_outcome(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata, add_timeout=PATIENCE_S) as client, client.create() as writer:
        with hanging(*cluster.bookies[:2]):
            for call in (lambda: writer.add(b"x"), lambda: writer.add_many([b"x"])):
                raising_after(0.2)
                with pytest.raises(Stopped) as caught:
                    call()
                cause = caught.value.__cause__
                assert isinstance(cause, walkeeper.InterruptedError)
                assert (cause.outcome, cause.entry_id) == ("unknown", writer.last_add_pushed)
        assert writer.flush() == 1


def test_a_handler_that_returns_changes_nothing(cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(cluster.metadata, add_timeout=PATIENCE_S) as client, client.create() as writer:
        with hanging(*cluster.bookies[:2]):
            came = threading.Event()
            signal.signal(signal.SIGALRM, lambda number, frame: came.set())
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(walkeeper.QuorumTimeoutError):
                writer.add(b"x", timeout=0.5)
            assert came.is_set()
        assert (writer.add(b"y"), writer.last_add_pushed) == (1, 1)


def test_a_bookie_that_hangs_delays_a_reader_little(cluster: LocalCluster) -> None:
    """Every third entry is asked of it first. With a time-out of a minute for each this would take twenty."""
    with walkeeper.LedgerClient(cluster.metadata, read_timeout=60) as client:
        with client.create(ensemble_size=3, write_quorum=2, ack_quorum=2) as writer:
            writer.add_many([payload(number) for number in range(300)])
        with hanging(cluster.bookies[0]), client.open(writer.ledger_id) as reader:
            found = [entry.payload for entry in reader.read(max_bytes=1000)]
        assert found == [payload(number) for number in range(300)]
