"""The fuzzer of the metadata formats, for a little while: `python -m tests.fuzz.metadata` goes on."""

from __future__ import annotations

import time

from tests.fuzz.metadata import SEEDS, check, run


def test_what_is_not_mutated_is_valid() -> None:
    assert all(check(parser, data) for parser, data in SEEDS)


def test_mutated_metadata_is_refused_cleanly_or_read_the_same_again() -> None:
    assert run(time.time_ns(), lambda count: count < 5000) > 100
