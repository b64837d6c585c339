"""What /ready knows, what it does not, and since when."""

from __future__ import annotations

import pytest

from walkeeper_bookie._readiness import Check, Outcome, Question, not_ready

OK = Check(Outcome.OK)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def question(clock: Clock) -> Question:
    return Question("how it is", "the disk", clock)


def test_who_answers_is_known(clock: Clock, question: Question) -> None:
    for _ in range(5):
        question.ask()
        clock.now += 9
        assert question.silence(10, 20) == OK
        question.answered()
        clock.now += 19
        assert question.silence(10, 20) == OK


def test_who_does_not_answer_is_named_with_the_time(clock: Clock, question: Question) -> None:
    question.ask()
    clock.now += 7
    question.ask()  # again: the first time counts
    clock.now += 5
    assert question.silence(10, 20) == Check(
        Outcome.UNKNOWN, "how it is is not known: the disk has not answered for 12 s"
    )
    question.answered()
    assert question.silence(10, 20) == OK


def test_who_was_not_asked_is_not_blamed(clock: Clock, question: Question) -> None:
    question.ask()
    question.answered()
    clock.now += 25
    assert question.silence(10, 20) == Check(Outcome.UNKNOWN, "how it is is not known: the disk was not asked for 25 s")


def test_every_check_that_is_not_ok_is_named() -> None:
    assert not_ready([OK, OK]) == ""
    assert not_ready([Check(Outcome.WRONG, "a"), OK, Check(Outcome.UNKNOWN, "b")]) == "a; b"
