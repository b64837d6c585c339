"""What one append costs a Python caller: for a developer at work, never a gate. The table with its floor is run.py's.

pytest benchmarks/test_bench_append.py --benchmark-only
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

walkeeper = pytest.importorskip("walkeeper", reason="walkeeper is not installed")

PAYLOAD = b"\x5a" * 1024
BATCH = [PAYLOAD] * 1024


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Any]:
    with walkeeper.open(tmp_path / "log") as ns, ns.log("bench").writer() as opened:
        yield opened


def test_append(benchmark: BenchmarkFixture, writer: Any) -> None:
    at = benchmark(writer.append, PAYLOAD)
    assert at.sequence_id == writer.next_sequence_id - 1


def test_append_many_of_1024(benchmark: BenchmarkFixture, writer: Any) -> None:
    done = benchmark(writer.append_many, BATCH)
    assert done.count == len(BATCH)


def test_submit_1024_and_flush(benchmark: BenchmarkFixture, writer: Any) -> None:
    def submit_all() -> None:
        for payload in BATCH:
            writer.submit(payload)
        writer.flush()

    benchmark(submit_all)
    assert writer.next_sequence_id % len(BATCH) == 0


def test_deferred_append(benchmark: BenchmarkFixture, writer: Any) -> None:
    benchmark(writer.append, PAYLOAD, durability="deferred")
    assert writer.flush().sequence_id == writer.next_sequence_id
