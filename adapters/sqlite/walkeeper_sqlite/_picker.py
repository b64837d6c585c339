"""The choice of a commit on a terminal: of spans of time first, where there are many commits, and then of commits."""

from __future__ import annotations

import string
from dataclasses import dataclass
from datetime import datetime, timedelta

import click

from walkeeper import Log
from walkeeper.cli._show import counted, show, table
from walkeeper_sqlite._groups import Group, commit_at, commit_before, groups
from walkeeper_sqlite._snapshots import snapshots
from walkeeper_sqlite._times import floor_of, moment, point

__all__ = ["picked"]

ROWS = 26
"""Spans and commits that are shown at once: each span has a letter."""
BACK = ".."
WIDTHS = tuple(
    timedelta(**width)
    for width in (
        {"milliseconds": 1},
        {"milliseconds": 10},
        {"milliseconds": 100},
        {"seconds": 1},
        {"seconds": 10},
        {"minutes": 1},
        {"minutes": 10},
        {"hours": 1},
        {"hours": 6},
        {"days": 1},
        {"days": 10},
        {"days": 100},
        {"days": 1000},
        {"days": 10_000},
    )
)


@dataclass(frozen=True)
class Span:
    """Commits that follow each other."""

    begin_ms: int
    first: Group
    last: Group

    @property
    def count(self) -> int:
        return self.last.transaction - self.first.transaction + 1


def picked(log: Log, name: str | None = None, database: int | None = None) -> int | datetime | None:
    """What a person chooses: an LSN that is shown, any other, or a time. None: there is no commit to choose.

    Of the database that has this name and number in the log; None: of the one whose the log is."""
    everything = span_of(log, name, database)
    if everything is None:
        return None
    path = [everything]
    while True:
        narrower = spans_in(log, path[-1], database)
        if len(narrower) > 1:
            show(spans_table(narrower))
        else:
            show(commits_table(log, path[-1], database))
        answer = asked(path, narrower if len(narrower) > 1 else [])
        if isinstance(answer, Span):
            path.append(answer)
        elif isinstance(answer, str):
            path.pop()
        else:
            return answer


def span_of(log: Log, name: str | None = None, database: int | None = None) -> Span | None:
    """The commits that can be restored: those behind the first snapshot."""
    whole = snapshots(log, name)
    first = commit_at(log, whole[0].end_lsn + 1 if whole else log.info().first.sequence_id, database)
    last = commit_before(log, log.info().next.sequence_id, database)
    return None if first is None or last is None else Span(first.time_ms, first, last)


def spans_in(log: Log, span: Span, database: int | None = None) -> list[Span]:
    """It, in the narrowest equal parts that fit a page, without empty ones; itself where its commits fit a page, or are
    of one moment. The log is not read for that, but for some commits."""
    if span.count <= ROWS:
        return [span]
    found: list[Span] = []
    first: Group | None = span.first
    for begin_ms, end_ms in parts_of(span):
        if first is None or first.lsn > span.last.lsn or first.time_ms >= end_ms:
            continue
        last = span.last
        if end_ms <= span.last.time_ms:
            last = commit_before(log, log.find(txid=end_ms).sequence_id, database) or first
        found.append(Span(begin_ms, first, last))
        first = commit_at(log, last.lsn + 1, database)
    return found


def parts_of(span: Span) -> list[tuple[int, int]]:
    """Where each begins and ends, in milliseconds."""
    first_ms, last_ms = span.first.time_ms, span.last.time_ms
    fitting = (width for width in WIDTHS if (last_ms - floor_of(first_ms, width)) // width_ms(width) < ROWS)
    width = next(fitting, WIDTHS[-1])
    return [(at, at + width_ms(width)) for at in range(floor_of(first_ms, width), last_ms + 1, width_ms(width))]


def width_ms(width: timedelta) -> int:
    return width // timedelta(milliseconds=1)


def spans_table(spans: list[Span]) -> object:
    shown = table("", "from", ">commits", ">last LSN")
    for letter, span in zip(string.ascii_lowercase, spans, strict=False):
        shown.add_row(letter, moment(span.begin_ms), f"{span.count:,}", str(span.last.lsn))
    return shown


def commits_table(log: Log, span: Span, database: int | None) -> object:
    title = f"the last {ROWS} of {counted(span.count, 'commit')}" if span.count > ROWS else None
    shown = table(">LSN", "time", ">transaction", ">pages", title=title)
    found = groups(log, span.first.first, end=span.last.lsn + 1, database=database)
    commits = [group for group in found if group.kind == "commit"]
    for group in commits[-ROWS:]:
        shown.add_row(str(group.lsn), moment(group.time_ms), f"{group.transaction:,}", f"{group.images_count:,}")
    return shown


def asked(path: list[Span], spans: list[Span]) -> int | datetime | str | Span:
    choices: dict[str, Span] = dict(zip(string.ascii_lowercase, spans, strict=False))

    def answer_of(value: str) -> int | datetime | str | Span:
        if value in choices:
            return choices[value]
        return value if value == BACK and len(path) > 1 else point(value)

    hints = ["a letter shows its commits"] if choices else []
    hints += [f"{BACK} goes back"] if len(path) > 1 else []
    question = f"Restore to which LSN, or time? ({'; '.join([*hints, 'Enter: the last one'])})"
    answer: int | datetime | str | Span = click.prompt(
        question, default=str(path[-1].last.lsn), value_proc=answer_of, prompt_suffix=" "
    )
    return answer
