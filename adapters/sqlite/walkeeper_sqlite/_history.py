"""Commits and snapshots between two points of a log, one by one and by spans of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from walkeeper import Log
from walkeeper_sqlite._groups import Group, commit_before, groups, last_groups
from walkeeper_sqlite._times import floor_of

__all__ = ["Bucket", "buckets_of", "groups_between"]


@dataclass
class Bucket:
    """What was committed in a span of time."""

    time_ms: int
    """When it begins."""
    commits: int
    snapshots: int
    pages: int
    """That commits changed; one that was changed twice counts twice."""
    bytes: int
    """Payload of all records."""
    lsn: int
    """Of the last of them."""


def groups_between(
    log: Log,
    since: int | datetime | None,
    until: int | datetime | None,
    count: int | None,
    database: int | None = None,
) -> Iterator[Group]:
    """Those that end from `since` on, and up to `until`: sequence ids or times. The last so many; None: all. Of the
    database with this number; None: of the one whose the log is."""
    end = None if until is None else _behind(log, until)
    if count is not None and since is None:
        return iter(last_groups(log, count, end=end, database=database))
    if since is None:
        found = groups(log, end=end, database=database)
    else:
        found = _groups_from(log, _begin(log, since), end, database)
    return found if count is None else iter(deque(found, count))


def buckets_of(found: Iterable[Group], width: timedelta) -> Iterator[Bucket]:
    """One for each span in which there is something."""
    bucket: Bucket | None = None
    for group in found:
        begin = floor_of(group.time_ms, width)
        if bucket is None or bucket.time_ms != begin:
            if bucket is not None:
                yield bucket
            bucket = Bucket(begin, 0, 0, 0, 0, -1)
        is_commit = group.kind == "commit"
        bucket.commits += is_commit
        bucket.snapshots += not is_commit
        bucket.pages += group.images_count if is_commit else 0
        bucket.bytes += group.bytes
        bucket.lsn = group.lsn
    if bucket is not None:
        yield bucket


def _begin(log: Log, since: int | datetime) -> int:
    return since if isinstance(since, int) else log.find(txid=max(0, _milliseconds(since))).sequence_id


def _behind(log: Log, until: int | datetime) -> int:
    return until + 1 if isinstance(until, int) else log.find(txid=max(0, _milliseconds(until) + 1)).sequence_id


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _groups_from(log: Log, start: int, end: int | None, database: int | None) -> Iterator[Group]:
    """From the last commit before it on they are read: its first records may lie before the start."""
    before = commit_before(log, start, database)
    begin = None if before is None else before.lsn + 1
    return (group for group in groups(log, begin, end=end, database=database) if group.lsn >= start)
