"""The fuzzer of the parsers in Python, for a little while: `python -m tests.fuzz.parsers` goes on."""

from __future__ import annotations

import importlib.util
import time

import pytest

from tests.fuzz import parsers
from tests.fuzz.parsers import PARSERS, check, run


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_not_mutated_is_valid(name: str) -> None:
    assert all(check(PARSERS[name], data) for data in PARSERS[name].seeds)


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_mutated_is_refused_cleanly_or_read_the_same_again(name: str) -> None:
    assert run(PARSERS[name], time.time_ns(), lambda count: count < 1000) > 5


def test_without_atheris_they_are_mutated_blindly_and_say_so_and_in_ci_that_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(parsers, "PARSERS", {"layout": PARSERS["layout"]})
    monkeypatch.setenv("CI", "")
    assert parsers.fuzz_all(0.1, 1) == 0
    said, *found = capfd.readouterr().out.splitlines()
    assert said == "atheris is not installed: mutated without a look at what is reached"
    assert [line.startswith("layout: seed ") for line in found] == [True]
    monkeypatch.setenv("CI", "true")
    assert parsers.fuzz_all(0.1, 1) == 1
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", "atheris is not installed: nothing was fuzzed\n")
