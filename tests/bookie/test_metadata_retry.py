"""How a start waits for the metadata store: as long as it may, and no longer than until it is told to stop."""

from __future__ import annotations

import io
import threading
import time

import pytest
from bookie_runs import until

from walkeeper.metadata import ClosedError, MissingError, UnavailableError, UnknownOutcomeError
from walkeeper_bookie import _metadata_retry
from walkeeper_bookie._log import Log
from walkeeper_bookie._metadata_retry import MetadataRetry, MetadataUnreachableError, StoppedError

FOR_EVER = 3600.0


class World:
    """A store whose calls wait until it is closed."""

    def __init__(self) -> None:
        self.stop, self.opened = False, True
        self.called, self.closed = threading.Event(), threading.Event()
        self.undone: list[str] = []
        self.lines = io.StringIO()

    def retry(self, seconds: float) -> MetadataRetry:
        return MetadataRetry(seconds, lambda: self.stop, self.close, "store", Log(self.lines))

    def close(self) -> bool:
        self.closed.set()
        return self.opened

    def waits(self) -> str:
        self.called.set()
        assert self.closed.wait(60), "nobody closed it"
        raise ClosedError("closed")

    def stop_once_called(self) -> None:
        def stop() -> None:
            self.called.wait(60)
            self.stop = True

        threading.Thread(target=stop, daemon=True).start()


@pytest.fixture
def world() -> World:
    return World()


def test_what_a_call_returns_and_raises_comes_through(world: World) -> None:
    retry = world.retry(FOR_EVER)
    assert retry.call(lambda: "found") == "found"

    def missing() -> None:
        raise MissingError("an answer")

    with pytest.raises(MissingError):
        retry.call(missing)


@pytest.mark.parametrize("error", [UnavailableError, UnknownOutcomeError])
def test_a_store_that_does_not_answer_is_asked_again_and_said_so_once(world: World, error: type[Exception]) -> None:
    outcomes: list[Exception] = [error("away"), error("away")]

    def call() -> str:
        if outcomes:
            raise outcomes.pop()
        return "found"

    assert world.retry(FOR_EVER).call(call) == "found"
    assert world.lines.getvalue().count("does not answer") == 1


def test_a_call_that_waits_is_given_up_when_it_is_told_to_stop(world: World) -> None:
    world.stop_once_called()
    with pytest.raises(StoppedError):
        world.retry(FOR_EVER).call(world.waits)
    assert world.closed.is_set()


def test_a_call_that_waits_is_given_up_when_the_time_is_over(world: World) -> None:
    with pytest.raises(MetadataUnreachableError, match=r"store: no answer within 0\.1 s"):
        world.retry(0.1).call(world.waits)
    assert world.closed.is_set()


@pytest.mark.parametrize(("opened", "give_up_s"), [(True, 0.05), (False, 3600.0)])
def test_a_call_that_cannot_be_ended_holds_nobody_up(
    world: World, monkeypatch: pytest.MonkeyPatch, opened: bool, give_up_s: float
) -> None:
    """So it is with a store that is just being opened: nobody has it yet, to close it. What comes of it later is
    undone."""
    monkeypatch.setattr(_metadata_retry, "GIVE_UP_S", give_up_s)
    world.opened = opened
    goes_on = threading.Event()

    def opening() -> str:
        world.called.set()
        assert goes_on.wait(60)
        return "opened late"

    world.stop_once_called()
    with pytest.raises(StoppedError):
        world.retry(FOR_EVER).call(opening, world.undone.append)
    assert world.undone == []
    goes_on.set()
    until(lambda: world.undone == ["opened late"], "it is closed")


def test_who_is_told_to_stop_stops_also_where_the_time_is_over(world: World) -> None:
    """It is no failure: the exit status says so."""
    retry = world.retry(0)

    def call() -> None:
        world.stop = True
        raise UnavailableError("away")

    world.stop = True
    with pytest.raises(StoppedError):
        retry.call(call)
    with pytest.raises(StoppedError):
        world.retry(0.2).call(call)


def test_the_last_answer_is_the_reason(world: World) -> None:
    def call() -> None:
        time.sleep(0.01)
        raise UnavailableError("connection refused")

    with pytest.raises(MetadataUnreachableError, match="store: connection refused"):
        world.retry(0.3).call(call)
