"""Staged records are read ahead of what is appended."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import walkeeper
from walkeeper.idempotent import IdempotentWriter, Staged, staging_log
from walkeeper.idempotent import _writer as module

PAYLOADS = [b"%d" % number * 100 for number in range(2000)]


@pytest.fixture
def staged(namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch) -> Staged:
    """Records of many batches."""
    monkeypatch.setattr(module, "COPY_BYTES", 20_000)
    log = namespace.log(staging_log(namespace.log("target").info().log_id, "app", 0))
    with log.writer() as writer:
        for start in range(0, len(PAYLOADS), 10):
            writer.append_many(PAYLOADS[start : start + 10])
    return Staged(log.name, 0, len(PAYLOADS))


def contents(namespace: walkeeper.Namespace) -> list[bytes]:
    with namespace.log("target", create=False).reader() as reader:
        return [bytes(record.payload) for record in reader]


class Watched:
    """A reader that says when it is asked. `fails_at`: the batch that it cannot read."""

    def __init__(self, reader: walkeeper.Reader[Any], fails_at: int = -1) -> None:
        self._reader = reader
        self._fails_at = fails_at
        self.asked_for_next = threading.Semaphore(0)
        self.batches = 0
        self.closed = False

    def read_arrow(self, *limits: Any) -> Any:
        assert not self.closed
        if self.batches:
            self.asked_for_next.release()
        self.batches += 1
        if self.batches - 1 == self._fails_at:
            raise walkeeper.CorruptError("damaged")
        return self._reader.read_arrow(*limits)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed = True
        self._reader.close()


def watch(monkeypatch: pytest.MonkeyPatch, fails_at: int = -1) -> list[Watched]:
    """The readers of staging logs that are opened from here on."""
    made: list[Watched] = []
    sound = module._Opened._staged_log

    def of(self: Any, part: Staged) -> Any:
        log = sound(self, part)

        class Log:
            info = log.info

            @staticmethod
            def reader(**options: Any) -> Watched:
                made.append(Watched(log.reader(**options), fails_at))
                return made[-1]

        return Log

    monkeypatch.setattr(module._Opened, "_staged_log", of)
    return made


def test_a_batch_is_read_while_the_one_before_is_appended(
    namespace: walkeeper.Namespace, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = watch(monkeypatch)
    with namespace.log("target").writer() as target:

        class Appending:
            """The writer, which appends a batch when the next one is asked for, where there is one."""

            def append_many(self, payloads: Any, **options: Any) -> Any:
                if options["expected"] + len(payloads) < len(PAYLOADS):
                    assert readers[0].asked_for_next.acquire(timeout=5)
                return target.append_many(payloads, **options)

            def __getattr__(self, name: str) -> Any:
                return getattr(target, name)

        with IdempotentWriter(namespace, "target", writer=Appending()) as writer:  # type: ignore[arg-type]
            assert writer.append_once("app", 0, [], [staged])
    assert readers[0].batches > 5
    assert readers[0].closed
    assert contents(namespace) == PAYLOADS


@pytest.mark.parametrize("fails_at", [0, 1, 3])
def test_a_batch_that_cannot_be_read_is_told_and_the_next_writer_appends_the_rest(
    namespace: walkeeper.Namespace, staged: Staged, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    readers = watch(monkeypatch, fails_at)
    with IdempotentWriter(namespace, "target") as writer:
        with pytest.raises(walkeeper.CorruptError) as caught:
            writer.append_once("app", 0, [], [staged])
        assert caught.value.outcome == "unknown"
        assert readers[0].closed
        monkeypatch.undo()
        assert not writer.append_once("app", 0, [], [staged])
    assert contents(namespace) == PAYLOADS


def test_a_batch_that_cannot_be_appended_leaves_no_reader(
    namespace: walkeeper.Namespace, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = watch(monkeypatch)
    with namespace.log("target").writer() as target:

        class Failing:
            def append_many(self, payloads: Any, **options: Any) -> Any:
                if options["expected"]:
                    raise walkeeper.NoSpaceError("full", outcome="not_written")
                return target.append_many(payloads, **options)

            def __getattr__(self, name: str) -> Any:
                return getattr(target, name)

        writer = IdempotentWriter(namespace, "target", writer=Failing())  # type: ignore[arg-type]
        with writer, pytest.raises(walkeeper.NoSpaceError) as caught:
            writer.append_once("app", 0, [], [staged])
    assert caught.value.outcome == "unknown"
    assert readers[0].closed
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("walkeeper-staged")]
    monkeypatch.undo()
    with IdempotentWriter(namespace, "target") as again:
        assert not again.append_once("app", 0, [], [staged])
    assert contents(namespace) == PAYLOADS
