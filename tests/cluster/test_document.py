"""The document of a log: what goes in comes out, and what cannot be read is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import walkeeper
from walkeeper import LogOptions, Position
from walkeeper.cluster._document import LogDocument, StoredSegment
from walkeeper.metadata import VALUE_BYTES_MAX

numbers = st.integers(0, 2**62)
positions = st.builds(lambda *cells: Position(cells), numbers, numbers, numbers, numbers, st.integers(-1, 2**62))
segments = st.builds(StoredSegment, numbers, numbers, numbers, numbers) | st.builds(
    StoredSegment, numbers, numbers, numbers, numbers, st.just(True), numbers, positions, numbers, numbers
)
documents = st.builds(
    LogDocument,
    name=st.text(min_size=1, max_size=20),
    options=st.builds(LogOptions, numbers, numbers, numbers, st.sampled_from(["none", "lz4", "zstd"])),
    txid_source=st.sampled_from(["unset", "application", "clock"]),
    writer=numbers,
    owner=st.text(max_size=20),
    next_segment=numbers,
    intent=st.none() | numbers,
    deleting=st.lists(numbers, max_size=3).map(tuple),
    first=positions,
    end_of_stream=st.booleans(),
    deleted=st.booleans(),
    segments=st.lists(segments, max_size=4).map(tuple),
    last=positions,
    change=st.text(max_size=16),
)


@given(documents)
def test_what_was_written_is_read(document: LogDocument) -> None:
    data = document.serialise()
    again = LogDocument.parse(data, "a document")
    assert again == document
    assert again.serialise() == data


@given(documents, st.data())
def test_what_was_cut_off_is_refused(document: LogDocument, data: st.DataObject) -> None:
    whole = document.serialise()
    with pytest.raises(walkeeper.CorruptError, match="this document"):
        LogDocument.parse(whole[: data.draw(st.integers(0, len(whole) - 1))], "this document")


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_what_is_no_document_is_refused(data: bytes | str) -> None:
    with pytest.raises(walkeeper.CorruptError):
        LogDocument.parse(data if isinstance(data, bytes) else data.encode(), "this document")


PLAIN = LogDocument("orders", LogOptions(2**28, 7200, 0, "none"))


@pytest.mark.parametrize("name", [*json.loads(PLAIN.serialise())])
def test_a_document_without_one_of_its_names_is_refused(name: str) -> None:
    stored = json.loads(PLAIN.serialise())
    del stored[name]
    with pytest.raises(walkeeper.CorruptError):
        LogDocument.parse(json.dumps(stored).encode(), "this document")


def test_a_newer_version_is_refused() -> None:
    stored = {**json.loads(PLAIN.serialise()), "walkeeper": 2}
    with pytest.raises(walkeeper.UnsupportedError, match="version 2"):
        LogDocument.parse(json.dumps(stored).encode(), "this document")


def test_more_segments_than_a_value_has_room_for_are_a_limit() -> None:
    """Eight thousand segments of 256 MiB, the last ones of a log of ten billion records, fit."""
    now_ms, records = 1_790_000_000_000, 10_000_000_000
    last = Position((100_000, 100_000, 9999, records, now_ms))
    segment = StoredSegment(100_000, 1_000_000_000, records, now_ms, True, 100_000, last, 1_000_000, 2**28)
    assert len(replace(PLAIN, segments=(segment,) * 8000).serialise()) < VALUE_BYTES_MAX
    with pytest.raises(walkeeper.LimitError, match="no room for more"):
        replace(PLAIN, segments=(segment,) * 20000).serialise()
