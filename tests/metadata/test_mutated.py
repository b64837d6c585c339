"""The fuzzer of the parsers in Python, for a little while: `python -m tests.fuzz.parsers` goes on."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.parsers import PARSERS, check, run


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_not_mutated_is_valid(name: str) -> None:
    assert all(check(PARSERS[name], data) for data in PARSERS[name].seeds)


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_mutated_is_refused_cleanly_or_read_the_same_again(name: str) -> None:
    assert run(PARSERS[name], time.time_ns(), lambda count: count < 1000) > 5
