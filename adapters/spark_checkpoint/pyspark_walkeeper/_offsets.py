"""Offsets: which records a batch has. Pure: no log is asked here.

The offset of a log is a sequence id: the first record that is not read yet. Spark keeps offsets as JSON, in the form
that Kafka's source has, with the id of the log, which tells it from another log that has its name later:
{"orders": {"0": 123, "id": "5"}}. A log is a topic with one partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from walkeeper.errors import InvalidError

__all__ = [
    "LogIds",
    "LogRange",
    "Offsets",
    "at_most_bytes",
    "at_most_records",
    "from_json",
    "offsets_of",
    "split",
    "to_json",
]

Offsets = dict[str, int]
"""The next sequence id of each log, by its name."""
LogIds = dict[str, int]


@dataclass
class LogRange(InputPartition):
    """Records of a log, for one task."""

    log: str
    log_id: int
    start: int
    """Sequence id of the first."""
    end: int
    """Behind the last."""


def to_json(offsets: Mapping[str, int], ids: Mapping[str, int]) -> dict[str, Any]:
    """What Spark is given. It compares the text, so equal offsets give equal text."""
    return {log: {"0": offsets[log], "id": str(ids[log])} for log in sorted(offsets)}


def from_json(found: Mapping[str, Any]) -> tuple[Offsets, LogIds]:
    """What Spark was given."""
    offsets = {log: int(of["0"]) for log, of in found.items()}
    return offsets, {log: int(of["id"]) for log, of in found.items()}


def offsets_of(text: str, option: str) -> Offsets:
    """What a user writes: {"orders": {"0": 123}}, with -2 for the earliest and -1 for the latest. InvalidError."""
    offsets: Offsets = {}
    try:
        found = json.loads(text)
        offsets = {log: of["0"] for log, of in found.items() if set(of) == {"0"}}
        good = len(offsets) == len(found) and all(type(at) is int and at >= -2 for at in offsets.values())
    except (ValueError, TypeError, AttributeError, KeyError):
        good = False
    if not good:
        raise InvalidError(f'{option} is earliest, latest, or like {{"orders": {{"0": 123}}}}, not {text!r}')
    return offsets


def at_most_records(start: Mapping[str, int], end: Mapping[str, int], most: int) -> Offsets:
    """The offsets between, by which no more than so many records are read, at least 1: of each log its share."""
    waiting = {log: end[log] - start[log] for log in end if end[log] > start[log]}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    found = {log: start[log] for log in end}
    left = most
    for log in sorted(waiting):
        share = min(waiting[log] * most // total, left)
        found[log] += share
        left -= share
    for log in sorted(waiting, key=lambda log: end[log] - found[log], reverse=True):  # what rounding left over
        more = min(left, end[log] - found[log])
        found[log] += more
        left -= more
    return found


def at_most_bytes(
    start: Mapping[str, int], end: Mapping[str, int], sizes: Mapping[str, Sequence[tuple[int, int, int]]], most: int
) -> Offsets:
    """The offsets between, by which about so many bytes are read. `sizes` has each log's spans: (first sequence id,
    records, bytes); a record counts as the mean of its span."""
    waiting = {log: _bytes_between(start[log], end[log], sizes.get(log, ())) for log in end}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    found: Offsets = {}
    for log in end:
        share = most * waiting[log] / total
        found[log] = _behind_bytes(start[log], end[log], sizes.get(log, ()), share)
    if all(found[log] == start[log] for log in end):  # a record larger than the limit is read alone
        first = min(log for log in end if end[log] > start[log])
        found[first] = start[first] + 1
    return found


def _bytes_between(start: int, end: int, spans: Sequence[tuple[int, int, int]]) -> float:
    return sum(of * count for count, of in _means(start, end, spans))


def _behind_bytes(start: int, end: int, spans: Sequence[tuple[int, int, int]], most: float) -> int:
    at = start
    for count, of in _means(start, end, spans):
        if of * count > most:
            return at + int(most / of)
        most -= of * count
        at += count
    return end


def _means(start: int, end: int, spans: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, float]]:
    """How many records of each span are between, and their mean size."""
    for first, records, size in spans:
        count = min(end, first + records) - max(start, first)
        if count > 0:
            yield count, size / records


def split(ranges: Sequence[LogRange], partitions_min: int | None, records_max: int | None) -> list[LogRange]:
    """At least so many ranges, each of at most so many records, in order."""
    total = sum(part.end - part.start for part in ranges)
    made: list[LogRange] = []
    for part in ranges:
        size = part.end - part.start
        by_count = 1 if partitions_min is None else -(-size * partitions_min // total)
        by_size = 1 if records_max is None else -(-size // records_max)
        pieces = min(size, max(by_count, by_size))
        for piece in range(pieces):
            begin, behind = size * piece // pieces, size * (piece + 1) // pieces
            made.append(LogRange(part.log, part.log_id, part.start + begin, part.start + behind))
    return made
