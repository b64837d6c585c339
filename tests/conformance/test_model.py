"""A log against the obvious model, a list: any run of appends, truncations and restarts gives the same answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

import walkeeper

Open = Callable[..., walkeeper.Namespace]

small = st.binary(max_size=30)
large = st.builds(lambda part, times: part * times, st.binary(min_size=1, max_size=3), st.integers(2000, 20_000))
payloads = small | large
steps = st.lists(
    st.tuples(st.just("append"), payloads)
    | st.tuples(st.just("append_many"), st.lists(payloads, min_size=1, max_size=8))
    | st.tuples(st.just("atomic"), st.lists(payloads, min_size=1, max_size=8))
    | st.tuples(st.just("submit"), st.lists(payloads, min_size=1, max_size=8))
    | st.tuples(st.just("deferred"), payloads)
    | st.tuples(st.just("truncate"), st.integers(0, 40))
    | st.tuples(st.just("read"), st.integers(0, 40))
    | st.tuples(st.just("writer"), st.none())
    | st.tuples(st.just("restart"), st.none()),
    max_size=25,
)


class Model:
    """The log, its writer, and the list of payloads that it must hold; what was truncated is None."""

    def __init__(self, open: Open, name: str) -> None:
        self.open = open
        self.name = name
        self.expected: list[bytes | None] = []
        self.ns = open()
        self.log = self.ns.log(name, segment_bytes=64 * 1024)
        self.writer = self.log.writer()

    def close(self) -> None:
        self.writer.close()
        self.ns.close()

    def do_restart(self, _: None) -> None:
        self.close()
        self.ns = self.open()
        self.log = self.ns.log(self.name)
        self.do_writer(None)

    def do_writer(self, _: None) -> None:
        self.writer = self.log.writer()
        assert self.writer.next_sequence_id == len(self.expected)

    def do_append(self, payload: bytes) -> None:
        assert self.writer.append(payload).sequence_id == len(self.expected)
        self.expected.append(payload)

    def do_append_many(self, payloads: list[bytes], atomic: bool = False) -> None:
        batch = self.writer.append_many(payloads, atomic=atomic, expected=len(self.expected))
        self.expected.extend(payloads)
        assert batch.last.sequence_id == len(self.expected) - 1

    def do_atomic(self, payloads: list[bytes]) -> None:
        self.do_append_many(payloads, atomic=True)

    def do_submit(self, payloads: list[bytes]) -> None:
        futures = [self.writer.submit(payload) for payload in payloads]
        ids = [future.result(timeout=30).sequence_id for future in futures]
        assert ids == list(range(len(self.expected), len(self.expected) + len(payloads)))
        self.expected.extend(payloads)

    def do_deferred(self, payload: bytes) -> None:
        self.writer.append(payload, durability="deferred")
        self.expected.append(payload)

    def do_truncate(self, before: int) -> None:
        self.writer.flush()
        before = min(before, len(self.expected))
        if before < len(self.expected) and self.expected[before] is None:
            return
        self.log.truncate(self.log.find(sequence_id=before))
        self.expected[:before] = [None] * before

    def do_read(self, start: int) -> None:
        self.writer.flush()
        first = sum(payload is None for payload in self.expected)
        start = max(first, min(start, len(self.expected)))
        records: list[Any] = list(self.log.reader(sequence_id=start))
        assert [record.sequence_id for record in records] == list(range(start, len(self.expected)))
        assert [bytes(record.payload) for record in records] == self.expected[start:]
        assert self.log.count() == len(self.expected) - first


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_a_log_is_a_list(open: Open, steps: list[tuple[str, Any]]) -> None:
    with open() as ns:
        name = f"run-{len(ns.logs())}"
    model = Model(open, name)
    for verb, argument in steps:
        getattr(model, f"do_{verb}")(argument)
    model.do_read(0)
    model.do_restart(None)
    model.do_read(0)
    model.close()
