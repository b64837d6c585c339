"""One writer a log: a newer one fences the older, and takes over where it ended (storage rule 7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import walkeeper

Contents = Callable[..., list[bytes]]


def test_a_newer_writer_fences_the_older(log: walkeeper.Log, contents: Contents) -> None:
    old = log.writer()
    old.append(b"old")
    new = log.writer()
    for call in (lambda: old.append(b"late"), lambda: old.append_many([b"late"]), lambda: old.submit(b"late")):
        with pytest.raises(walkeeper.FencedError) as caught:
            call()
        assert caught.value.outcome == "not_written"
    new.append(b"new")
    assert contents(log) == [b"old", b"new"]
    old.close()
    new.close()


def test_the_newer_writer_goes_on_with_the_numbers(log: walkeeper.Log) -> None:
    with log.writer() as old:
        old.append_many([b"x"] * 5)
        with log.writer() as new:
            assert new.next_sequence_id == 5
            assert new.append(b"y", expected=5).sequence_id == 5


def test_a_writer_after_a_closed_one_is_not_fenced(log: walkeeper.Log) -> None:
    for number in range(5):
        with log.writer() as writer:
            assert writer.append(b"x").sequence_id == number


def test_a_fenced_writer_does_not_disturb_other_logs(ns: walkeeper.Namespace) -> None:
    with ns.log("one").writer() as one, ns.log("two").writer():
        ns.log("two").writer().close()
        assert one.append(b"x").sequence_id == 0


def test_what_the_older_writer_had_accepted_is_there_when_the_newer_starts(
    log: walkeeper.Log, contents: Contents
) -> None:
    old = log.writer()
    futures = [old.submit(b"%d" % number) for number in range(200)]
    new = log.writer()
    known = new.next_sequence_id
    durable = [future for future in futures if future.exception(timeout=10) is None]
    assert len(contents(log)) == known == len(durable)
    assert contents(log) == [b"%d" % number for number in range(known)]
    old.close()
    new.close()


def test_while_writers_fence_one_another_every_acknowledged_record_is_there_once(
    log: walkeeper.Log, contents: Contents
) -> None:
    acknowledged: dict[int, bytes] = {}
    wrong: list[object] = []

    def fight(name: int) -> None:
        for turn in range(15):
            with log.writer() as writer:
                for number in range(10):
                    payload = b"%d %d %d" % (name, turn, number)
                    try:
                        at = writer.append(payload)
                    except walkeeper.FencedError:
                        break
                    if acknowledged.setdefault(at.sequence_id, payload) is not payload:
                        wrong.append(at)

    threads = [threading.Thread(target=fight, args=[name]) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    payloads = contents(log)
    assert not wrong
    assert [payloads[number] for number in sorted(acknowledged)] == [acknowledged[n] for n in sorted(acknowledged)]
    assert len(set(payloads)) == len(payloads)


def test_a_writer_that_cannot_be_opened_as_asked_fences_nobody(log: walkeeper.Log) -> None:
    with log.writer() as writer:
        with pytest.raises(walkeeper.InvalidError, match=r"^durability="):
            log.writer(durability="soon")  # type: ignore[arg-type]
        assert writer.append(b"x").sequence_id == 0


@pytest.mark.parametrize("timeout", [-1, float("nan"), "x"])
def test_a_close_with_a_time_that_cannot_be_closes_nothing(log: walkeeper.Log, timeout: Any) -> None:
    with log.writer() as writer:
        with pytest.raises(walkeeper.InvalidError, match=r"^timeout="):
            writer.close(timeout)
        assert not writer.closed
        assert writer.append(b"x").sequence_id == 0
