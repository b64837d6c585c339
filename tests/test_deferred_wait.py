"""A record whose durability is deferred is durable after its delay, whoever waits for company in its block."""

from __future__ import annotations

import time
from pathlib import Path

import walkeeper


def test_a_wait_for_company_does_not_hold_up_deferred_records(directory: Path) -> None:
    with (
        walkeeper.open(directory, commit_wait=50, deferred_max_delay=2) as namespace,
        namespace.log("orders").writer() as writer,
        namespace.log("bills").writer() as other,
    ):
        deferred = writer.submit(b"deferred", durability="deferred")
        waits = other.submit(b"sync")  # within the delay, so in the same block
        assert deferred.result(timeout=25).sequence_id == 0
        assert waits.result(timeout=25).sequence_id == 0


def test_a_deferred_record_behind_one_that_waits_for_company_is_not_held_up(directory: Path) -> None:
    with (
        walkeeper.open(directory, commit_wait=50, deferred_max_delay=0.1) as namespace,
        namespace.log("orders").writer() as writer,
        namespace.log("bills").writer() as other,
    ):
        waits = other.submit(b"sync")
        time.sleep(0.2)  # the engine's thread sleeps until company came
        deferred = writer.submit(b"deferred", durability="deferred")
        assert deferred.result(timeout=25).sequence_id == 0
        assert waits.result(timeout=25).sequence_id == 0
