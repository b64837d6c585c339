"""`walkeeper sqlite`: SQLite databases whose write-ahead log is a log, for operators.

`walkeeper` finds it by the entry points walkeeper.commands. Looking opens the log read-only, and fences nobody.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

import walkeeper_sqlite
from walkeeper import Log, Record
from walkeeper.cli._directory import (
    NamespacePlace,
    Place,
    json_flag,
    log_name,
    namespace_option,
    reading,
    writing,
)
from walkeeper.cli._main import EXIT_DAMAGED, EXIT_INTERRUPTED, Refusal, holder
from walkeeper.cli._number import Number
from walkeeper.cli._scratch import scratch
from walkeeper.cli._show import counted, facts, printable, show, size, table
from walkeeper.errors import Error, NotFoundError, UnavailableError
from walkeeper_sqlite import Database
from walkeeper_sqlite._comparison import different_pages, integrity_findings
from walkeeper_sqlite._counted_log import Told, counted_log
from walkeeper_sqlite._groups import Group, Head, commit_at, commit_before, groups, heads_of, last_groups
from walkeeper_sqlite._history import buckets_of, groups_between
from walkeeper_sqlite._picker import picked
from walkeeper_sqlite._snapshots import numbers_beside
from walkeeper_sqlite._snapshots import truncate as truncate_log
from walkeeper_sqlite._state_file import StateFile, holder_of, state_of
from walkeeper_sqlite._times import moment, point, span

__all__ = ["sqlite"]

SQLITE_MAGIC = b"SQLite format 3\0"
LEFT_BESIDE = ("-wal", "-journal", "-shm", "-wk")
"""What may lie beside a database, and belongs to that one alone."""
PAGES_SHOWN = 10
NEWEST_SHOWN = 20
LOOK_S = 0.05
LINE_S = 10.0
ONE_LINE_S = 0.5


def log_arguments(*, exists: bool) -> Callable[[Any], Any]:
    """The namespace, which is a directory or one of a cluster, and the log."""

    def with_log(command: Any) -> Any:
        place = NamespacePlace(exists=exists, file_okay=False)
        return click.argument("uri", metavar="DIR|URI", type=place)(namespace_option(log_name(command)))

    return with_log


def file_argument(*, exists: bool = False, required: bool = True) -> Callable[[Any], Any]:
    place = Place(exists=exists, dir_okay=False)
    return click.argument("file", metavar="FILE" if required else "[FILE]", type=place, required=required)


@click.group()
def sqlite() -> None:
    """Look at, restore and take over SQLite databases whose write-ahead log is a log.

    DIR|URI is the namespace with the log: a directory, or the URI of a cluster. FILE is the database file. An LSN is
    the sequence id of a commit's last record. status, history, restore, verify and follow write nothing to the log and
    fence nobody; attach and snapshot fence the process that writes it.
    """


# ---- looking ----


@sqlite.command("status")
@log_arguments(exists=True)
@file_argument(required=False)
@json_flag
def status(uri: Path | str, log: str, file: Path | None, as_json: bool) -> None:
    """What LOG has of its database: first and last commit, bytes, snapshots; and what FILE has of it."""
    with reading(uri) as namespace:
        opened = namespace.log(log, create=False)
        told = status_of(opened)
        if file is not None:
            told["file"] = file_status(file, opened)
    if as_json:
        click.echo(json.dumps(told))
    else:
        show(facts(list(status_rows(told))))


def status_of(log: Log) -> dict[str, Any]:
    info = log.info()
    told: dict[str, Any] = {
        "log": log.name,
        "records": info.count,
        "bytes": sum(segment.payload_bytes for segment in log.segments()),
        "retention_seconds": info.options.retention_seconds,
        "snapshots": [{"lsn": one.lsn, "time_ms": one.time_ms} for one in walkeeper_sqlite.snapshots(log)],
        "beside": sorted(numbers_beside(log)),
        "begins": begins(log),
        "commits": 0,
        "last_commit": None,
    }
    if told["begins"] is not None and (last := last_groups(log, 1, kind="commit")):
        told["last_commit"] = group_row(last[0])
        told["commits"] = last[0].transaction - told["begins"]["behind_transaction"]
    return told


def begins(log: Log) -> dict[str, Any] | None:
    """With what the log begins; None: it has no record of the database whose it is."""
    with log.reader() as reader:
        while records := reader.read():
            for record in records:
                for head in heads_of(record.payload, log.name, record.sequence_id):
                    if not head.named:
                        return begin_row(record, head)
    return None


def begin_row(record: Record, head: Head) -> dict[str, Any]:
    return {
        "kind": head.kind,
        "sequence_id": record.sequence_id,
        "time_ms": record.txid,
        "database": f"{head.database:016x}",
        "page_size": head.page_size,
        "behind_transaction": head.transaction - (head.kind == "commit"),
    }


def file_status(file: Path, log: Log) -> dict[str, Any]:
    """What its state file says; it is not there where walkeeper never had the database."""
    told: dict[str, Any] = {"path": str(file), "bytes": file.stat().st_size if file.exists() else None}
    told["in_use"] = in_use(file)
    state = state_of(file)
    if state is None:
        return {**told, "of_this_log": False}
    return {
        **told,
        "of_this_log": state.log_id == log_id_of(log),
        "lsn": state.lsn,
        "transaction": state.transaction,
        "time_ms": state.time_ms,
        "closed": state.closed_size != 0,
        "changed": file.exists() and told["in_use"] is None and state.was_changed(file),
    }


def status_rows(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "log", f"{printable(told['log'])}, {counted(told['records'], 'record')}, {size(told['bytes'])}"
    begun, last = told["begins"], told["last_commit"]
    if begun is None:
        yield "database", "none: the log is empty"
    else:
        pages = f", {counted(last['database_pages'], 'page')}" if last else ""
        yield "database", f"{begun['database']}, pages of {begun['page_size']:,} bytes{pages}"
        what = f"a {begun['kind']}, behind transaction {begun['behind_transaction']:,}"
        yield "begins", f"at record {begun['sequence_id']}, {moment(begun['time_ms'])}: {what}"
        yield "last commit", place_of(last) if last else "none"
        yield "commits", f"{told['commits']:,}"
    for name in told["beside"]:
        yield "beside it", printable(name)
    for snapshot in told["snapshots"]:
        yield "snapshot", f"at record {snapshot['lsn']}, {moment(snapshot['time_ms'])}"
    if told["retention_seconds"]:
        days = timedelta(seconds=told["retention_seconds"])
        yield "retention", f"{days}: older log segments go by themselves, up to the oldest snapshot"
        if not told["snapshots"]:
            yield "", "there is no snapshot: once a segment goes, nothing can be restored"
    if (of_file := told.get("file")) is not None:
        yield from file_rows(of_file, told["commits"] + begun["behind_transaction"] if begun else 0)


def file_rows(told: dict[str, Any], last_transaction: int) -> Iterator[tuple[str, str]]:
    yield "file", f"{printable(told['path'])}, {'not there' if told['bytes'] is None else size(told['bytes'])}"
    if told["in_use"] is not None:
        yield "", told["in_use"]
    if not told["of_this_log"]:
        yield "", "it is not of this log" if "lsn" in told else "walkeeper never had it open: it has no state file"
        return
    behind = last_transaction - told["transaction"]
    how = "" if told["closed"] else "at least "
    yield "", f"it has {how}{place_of(told)}" + (f"; {counted(behind, 'commit')} behind the log" if behind else "")
    if told["changed"]:
        yield "", "its size or mtime is not that of when it was closed: attach compares it with the log"


def place_of(told: dict[str, Any]) -> str:
    at = "" if told["time_ms"] < 0 else f", {moment(told['time_ms'])}"
    return f"LSN {told['lsn']}{at}, transaction {told['transaction']:,}"


# ---- databases beside the one whose the log is ----

beside_option = click.option(
    "--beside", metavar="NAME", help="The database that has this name in LOG, beside the one whose LOG is."
)


def number_beside(log: Log, name: str) -> int:
    numbers = numbers_beside(log)
    if name not in numbers:
        known = ", ".join(printable(one) for one in sorted(numbers)) or "none"
        raise Refusal(
            f"log {log.name} has no database {printable(name)} beside the one whose it is", f"it has: {known}"
        )
    return numbers[name]


# ---- history ----


@sqlite.command("history")
@log_arguments(exists=True)
@click.option("--last", "count", type=click.IntRange(1), help="The last so many. [default: 20, or all with --since]")
@click.option("--all", "every_one", is_flag=True, help="All of them.")
@click.option("--since", type=point, metavar="LSN|TIME", help="Those at this point, and later.")
@click.option("--until", type=point, metavar="LSN|TIME", help="Those at this point, and earlier.")
@click.option("--every", type=span, metavar="SPAN", help="A row for each span, like 1m, 1h or 1d.")
@beside_option
@json_flag
def history(
    uri: Path | str,
    log: str,
    count: int | None,
    every_one: bool,
    since: int | datetime | None,
    until: int | datetime | None,
    every: timedelta | None,
    beside: str | None,
    as_json: bool,
) -> None:
    """The commits of LOG: LSN, time, pages that were changed, bytes of the log; and its snapshots."""
    if count is not None and (every_one or every is not None):
        raise click.UsageError("--last goes neither with --all nor with --every")
    if count is None and not every_one and since is None and every is None:
        count = NEWEST_SHOWN
    with reading(uri) as namespace, progress("history") as told:
        opened = namespace.log(log, create=False)
        number = None if beside is None else number_beside(opened, beside)
        found = groups_between(opened if every is None else counted_log(opened, told), since, until, count, number)
        if as_json:
            rows = map(group_row, found) if every is None else map(asdict, buckets_of(found, every))
            for row in rows:
                click.echo(json.dumps(row))
            return
        shown = history_table(found) if every is None else buckets_table(found, every)
    if not shown.row_count:
        click.echo("no commits", err=True)
        return
    show(shown)


def history_table(found: Iterator[Group]) -> Any:
    shown = table(">LSN", "time", "what", ">transaction", ">pages", ">of", ">bytes")
    for group in found:
        numbers = f"{group.images_count:,}", f"{group.pages:,}", f"{group.bytes:,}"
        shown.add_row(str(group.lsn), moment(group.time_ms), group.kind, f"{group.transaction:,}", *numbers)
    return shown


def buckets_table(found: Iterator[Group], every: timedelta) -> Any:
    shown = table("from", ">commits", ">snapshots", ">pages", ">bytes", ">last LSN")
    for bucket in buckets_of(found, every):
        numbers = f"{bucket.commits:,}", f"{bucket.snapshots:,}", f"{bucket.pages:,}", f"{bucket.bytes:,}"
        shown.add_row(moment(bucket.time_ms), *numbers, str(bucket.lsn))
    return shown


def group_row(group: Group) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "lsn": group.lsn,
        "first_sequence_id": group.first,
        "time_ms": group.time_ms,
        "transaction": group.transaction,
        "pages": group.images_count,
        "database_pages": group.pages,
        "bytes": group.bytes,
    }


@sqlite.command("verify")
@log_arguments(exists=True)
@file_argument(exists=True)
@json_flag
def verify(uri: Path | str, log: str, file: Path, as_json: bool) -> None:
    """Restore the database beside FILE, check it, and compare FILE with it, page by page.

    The copy is as of the last commit that FILE has, and is removed. A FILE that is open, or was not closed, may have
    more than its state file says: then only the copy is checked.

    Exit status 1: pages differ, or the copy fails PRAGMA integrity_check.
    """
    hint = f"walkeeper needs space beside {file} for a copy of the database"
    with reading(uri) as namespace, scratch(file.resolve().parent, f".{file.name[:200]}-verify-", hint) as place:
        opened = namespace.log(log, create=False)
        state = state_of_this_log(file, opened)
        why_not = why_not_comparable(file)
        name = name_in(opened, state)
        to = None if why_not is not None else end_of(opened, state, named=name is not None)
        restored = restored_file(opened, place / "restored", to, name)
        findings = integrity_findings(place / "restored")
        if why_not is None and restored.transaction != state.transaction:
            why_not = f"its last commit, transaction {state.transaction}, was truncated, and attach makes the file anew"
        different: list[int] = []
        if why_not is None:
            different = list(different_pages(file, place / "restored", restored.page_size))
            if state_of(file) != state or why_not_comparable(file) is not None:
                why_not, different = "it was opened while it was compared", []
    told = {
        "path": str(file),
        "lsn": restored.lsn,
        "time_ms": restored.time_ms,
        "transaction": restored.transaction,
        "pages": restored.pages,
        "not_compared": why_not,
        "different_pages_count": len(different),
        "different_pages": different[:PAGES_SHOWN],
        "integrity": findings,
        "changed": why_not is None and state.was_changed(file),
    }
    if as_json:
        click.echo(json.dumps(told))
    else:
        tell_verified(told)
    if different or findings:
        sys.exit(EXIT_DAMAGED)


def tell_verified(told: dict[str, Any]) -> None:
    click.echo(f"restored: {place_of(told)}, {counted(told['pages'], 'page')}")
    click.echo(f"integrity_check of what was restored: {'; '.join(map(printable, told['integrity'])) or 'ok'}")
    path = printable(told["path"])
    if told["not_compared"] is not None:
        click.echo(f"{path} is not compared: {printable(told['not_compared'])}")
    elif told["different_pages_count"] == 0:
        click.echo(f"{path} has the same pages")
    else:
        shown = ", ".join(map(str, told["different_pages"]))
        more = ", …" if told["different_pages_count"] > len(told["different_pages"]) else ""
        differ = "differs" if told["different_pages_count"] == 1 else "differ"
        click.echo(f"{path}: {counted(told['different_pages_count'], 'page')} {differ}: {shown}{more}")
        if told["changed"]:
            click.echo("  its size or mtime is not that of when it was closed", err=True)
        click.echo("  move it and its -wk away, and attach makes it from the log", err=True)


def name_in(log: Log, state: StateFile) -> str | None:
    """Of a database beside the one whose the log is."""
    return next((name for name, number in numbers_beside(log).items() if number == state.database), None)


def end_of(log: Log, state: StateFile, *, named: bool) -> int | None:
    """The last record before the next commit that FILE does not have; None: it has them all.

    That of its own last commit may be truncated, and the snapshot with which the log begins may have the commit.
    """
    start = max(state.lsn + 1, log.info().first.sequence_id)
    found = groups(log, start, database=state.database if named else None)
    behind = next((group.lsn for group in found if group.kind == "commit"), None)
    return None if behind is None else behind - 1


def state_of_this_log(file: Path, log: Log) -> StateFile:
    """Refuses a file that is not of the log."""
    state = state_of(file)
    if state is None:
        raise Refusal(f"{file} has no state file {file.name}-wk: which log it is of is not known")
    if state.log_id != log_id_of(log):
        raise Refusal(f"{file} is of another log than {log.name}")
    return state


def why_not_comparable(file: Path) -> str | None:
    """Why FILE may have more, or less, than its state file says."""
    if (said := in_use(file)) is not None:
        return said
    state = state_of(file)
    if state is None or state.pages == 0:
        return "it was being taken over, and attach goes on with that"
    wal = Path(f"{file}-wal")
    if wal.exists() and wal.stat().st_size > 0:
        return f"it was not closed: {wal.name} is there, and attach brings the file to the log's last commit"
    if state.closed_size == 0:
        return "it was not closed, and has no WAL: attach compares it with the commits of the log"
    return None


# ---- restoring ----


@sqlite.command("restore")
@log_arguments(exists=True)
@file_argument()
@click.option(
    "--to",
    type=point,
    metavar="LSN|TIME",
    help="The last commit that the file gets, or the last one at that time. [default: chosen on a terminal, or all]",
)
@beside_option
@json_flag
def restore(
    uri: Path | str, log: str, file: Path, to: int | datetime | None, beside: str | None, as_json: bool
) -> None:
    """Make the database FILE, which does not exist, as it was at a commit. Nothing is written to the log.

    A TIME without a zone is local: "10 minutes ago", 14:03, "yesterday 14:03", 2024-05-01T12:00. Of 14:03 alone it is
    the last one that was. Without --to a list of commits is shown on a terminal, to choose from.

    FILE is a database of its own: any SQLite opens it, and it is of no log until attach takes it over.
    """
    check_free_name(file)
    with reading(uri) as namespace:
        opened = namespace.log(log, create=False)
        number = None if beside is None else number_beside(opened, beside)
        if to is None and not as_json and is_terminal():
            to = picked(opened, beside, number)
        check_point(opened, to)
        if to is not None and not as_json:
            tell_neighbours(opened, to, number)
        restored = restored_file(opened, file, to, beside)
    told = {
        "path": str(file),
        "lsn": restored.lsn,
        "time_ms": restored.time_ms,
        "transaction": restored.transaction,
        "pages": restored.pages,
        "page_size": restored.page_size,
    }
    if as_json:
        click.echo(json.dumps(told))
    else:
        amount = f"{counted(restored.pages, 'page')} of {restored.page_size:,} bytes"
        click.echo(printable(f"{file} is restored: {place_of(told)}, {amount}"))


def check_free_name(file: Path) -> None:
    """A WAL that an earlier database left would be read into the restored one."""
    for suffix in ("", *LEFT_BESIDE):
        if os.path.lexists(f"{file}{suffix}"):
            hint = "name a path that does not" if not suffix else "it is of an earlier database: move it away"
            raise Refusal(f"{file}{suffix} exists", hint)
    if not file.resolve().parent.is_dir():
        raise Refusal(f"there is no directory {file.resolve().parent}")


def check_point(log: Log, to: int | datetime | None) -> None:
    end = log.info().next.sequence_id
    if isinstance(to, int) and to >= end:
        raise Refusal(f"log {log.name} has no record {to}: its next one will be {end}")


def tell_neighbours(log: Log, to: int | datetime, number: int | None) -> None:
    """The commits at the point and behind it, before the work begins."""
    if isinstance(to, datetime):
        to_ms = int(to.timestamp() * 1000)
        end = log.find(txid=max(0, to_ms + 1)).sequence_id
        click.echo(f"to {moment(to_ms)}", err=True)
    else:
        end = to + 1
    before, behind = commit_before(log, end, number), commit_at(log, end, number)
    click.echo(f"  the last commit: {'none' if before is None else place_of(group_row(before))}", err=True)
    click.echo(f"  the next one: {'none' if behind is None else place_of(group_row(behind))}", err=True)


def restored_file(log: Log, file: Path, to: int | datetime | None, name: str | None) -> walkeeper_sqlite.Restored:
    with progress("restore") as told, stopped_by_signals() as stop:
        try:
            return walkeeper_sqlite.restore(counted_log(log, until_stopped(stop, told)), file, to=to, name=name)
        except NotFoundError as missing:
            hint = "walkeeper sqlite history --all shows the snapshots: the end of the first whole one is the earliest"
            raise Refusal(str(missing), hint) from missing
        except Error:
            if stop.is_set():
                raise click.Abort from None
            raise


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


# ---- following ----


@sqlite.command("follow")
@log_arguments(exists=True)
@file_argument()
@click.option("--once", is_flag=True, help="Bring FILE to the end that LOG has now, and exit.")
@click.option("--until-lsn", type=click.IntRange(0), metavar="LSN", help="Exit when FILE has this commit.")
@click.option("--every", type=span, metavar="SPAN", help="A line for each span, like 10s. [default: 10s, or one line]")
@beside_option
@json_flag
def follow(
    uri: Path | str,
    log: str,
    file: Path,
    beside: str | None,
    once: bool,
    until_lsn: int | None,
    every: timedelta | None,
    as_json: bool,
) -> None:
    """Keep FILE a moment behind the database that another process writes to LOG.

    Any SQLite reads FILE meanwhile, in other processes; nobody may write to it. Where there is no FILE, it is made.
    Nothing is written to LOG, and nobody is fenced. It runs until SIGTERM or Ctrl-C, and goes on with FILE when it is
    called again.
    """
    if once and until_lsn is not None:
        raise click.UsageError("--once and --until-lsn exclude each other")
    with reading(uri) as namespace, stopped_by_signals() as stop:
        opened = namespace.log(log, create=False)
        if beside is not None:
            number_beside(opened, beside)
        until = opened.info().last.sequence_id if once else until_lsn
        try:
            with progress("follow") as told:
                follower = walkeeper_sqlite.follow(file, opened, name=beside, progress=until_stopped(stop, told))
        except Error:
            if not stop.is_set():
                raise
            reached = False
        else:
            with follower:
                reached = watch(opened, follower, stop, until, every, as_json)
    if until is not None and not reached:
        sys.exit(EXIT_INTERRUPTED)


def watch(
    log: Log,
    follower: walkeeper_sqlite.Follower,
    stop: threading.Event,
    until: int | None,
    every: timedelta | None,
    as_json: bool,
) -> bool:
    """Tells how far it is, until it has the record `until`, or a signal comes, or it fails. Whether it has it."""
    one_line = every is None and not as_json and sys.stdout.isatty()
    span_s = ONE_LINE_S if one_line else LINE_S if every is None else every.total_seconds()
    told_at, told_commits, passed = time.monotonic(), follower.commits, 0.0
    while True:
        reached = until is not None and max(follower.lsn, follower.read_id) >= until
        ended = reached or follower.failure is not None or stop.is_set()
        if passed == 0 or passed >= span_s or ended:
            commits = follower.commits
            rate = (commits - told_commits) / passed if passed else 0.0
            tell_followed(followed_row(log, follower, rate), one_line, as_json)
            told_at, told_commits = told_at + passed, commits
        if ended:
            break
        stop.wait(min(LOOK_S, span_s))
        passed = time.monotonic() - told_at
    if one_line:
        click.echo()
    return reached


def followed_row(log: Log, follower: walkeeper_sqlite.Follower, rate: float) -> dict[str, Any]:
    """What is behind of a log that cannot be asked is not known."""
    try:
        last = log.info().last
    except UnavailableError:
        last = None
    lsn, read_id, time_ms = follower.lsn, follower.read_id, follower.time_ms
    if time_ms < 0 and last is not None and (commit := commit_before(log, lsn + 1)) is not None:
        time_ms = commit.time_ms
    behind = None if last is None else max(0, last.sequence_id - read_id)
    behind_ms = None if last is None or time_ms < 0 else max(0, last.txid - time_ms) if behind else 0
    return {
        "lsn": lsn,
        "time_ms": time_ms,
        "records_behind": behind,
        "ms_behind": behind_ms,
        "commits_per_second": round(rate, 1),
    }


def tell_followed(row: dict[str, Any], one_line: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(row))
        return
    if row["records_behind"] is None:
        lag = "the log cannot be read now"
    elif row["records_behind"] == 0:
        lag = "up to date"
    else:
        seconds = "" if row["ms_behind"] is None else f", {row['ms_behind'] / 1000:.1f} s,"
        lag = f"{counted(row['records_behind'], 'record')}{seconds} behind"
    at = "" if row["time_ms"] < 0 else f", {moment(row['time_ms'])}"
    line = f"LSN {row['lsn']}{at}, {lag}, {row['commits_per_second']:,.1f} commits/s"
    click.echo(f"\r{line}\x1b[K" if one_line else line, nl=not one_line)


# ---- changing ----


@sqlite.command("attach")
@log_arguments(exists=False)
@file_argument()
@json_flag
def attach(uri: Path | str, log: str, file: Path, as_json: bool) -> None:
    """Take the database over: fence the process that writes LOG, and bring FILE to its last commit.

    Where there is no FILE, it is made from LOG. Where LOG is empty, or not there, FILE is taken over: its pages become
    the first records of LOG. FILE is closed again when the command ends.
    """
    with attached(uri, log, file) as (database, did):
        told = {"path": str(file), "did": did, **attached_row(database)}
    if as_json:
        click.echo(json.dumps(told))
    else:
        fenced = "" if did == "adopted" else f"; an earlier writer of log {log} is fenced"
        click.echo(printable(f"{file} is {SAID[did]}{fenced}"))
        amount = f"{counted(told['pages'], 'page')} of {told['page_size']:,} bytes"
        click.echo(f"LSN {told['lsn']}, transaction {told['transaction']:,}, {amount}")


SAID = {
    "adopted": "taken over: its pages are in the log",
    "made": "made from the log",
    "brought": "brought to the last commit of the log",
}


def attached_row(database: Database) -> dict[str, Any]:
    found = database.status()
    return {
        "lsn": found.lsn,
        "transaction": found.transaction,
        "pages": found.pages,
        "page_size": found.page_size,
    }


@contextmanager
def attached(uri: Path | str, log: str, file: Path) -> Iterator[tuple[Database, str]]:
    """The database, open on its log, and what was done to that end. It refuses what it can before it fences."""
    if (said := in_use(file)) is not None:
        raise Refusal(f"{file} is in use: {said}", "close it there first")
    exists = file.exists() and file.stat().st_size > 0
    state = state_of(file)
    adopts = exists and state is None
    if adopts:
        check_is_database(file)
    with writing(uri, create=adopts) as namespace:
        opened = namespace.log(log, create=adopts)
        end = opened.info().next.sequence_id
        if not exists and end == 0:
            raise Refusal(f"log {log} is empty, and there is no {file} that it could take over")
        if adopts and end > 0:
            said = f"{file} is not known to be of log {log}, which has a database"
            raise Refusal(said, "move the file away, and it is made from the log")
        with progress("attach") as told:
            database = walkeeper_sqlite.attach(file, counted_log(opened, told))
        with database:
            yield database, "adopted" if end == 0 else "brought" if exists else "made"


def check_is_database(file: Path) -> None:
    """Refuses other files before a log is made for them."""
    with file.open("rb") as opened:
        if opened.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
            raise Refusal(f"{file} is no SQLite database")


@sqlite.command("snapshot")
@log_arguments(exists=True)
@file_argument()
@json_flag
def snapshot(uri: Path | str, log: str, file: Path, as_json: bool) -> None:
    """Take the database over as attach does, and put all of its pages into LOG, as of its last commit.

    Restorations begin there, and what is older can be truncated. A program that has the database open takes snapshots
    itself, by Database.snapshot().
    """
    if not file.exists():
        raise Refusal(
            f"{file} does not exist, and snapshot fences the process that writes {log}", "attach makes the file"
        )
    with attached(uri, log, file) as (database, _), progress("snapshot") as told:
        taken = database.snapshot(progress=told)
        pages = database.status().pages
    if as_json:
        click.echo(json.dumps({"path": str(file), "lsn": taken.lsn, "time_ms": taken.time_ms, "pages": pages}))
    else:
        click.echo(f"snapshot at record {taken.lsn}, {moment(taken.time_ms)}: {counted(pages, 'page')}")


@sqlite.command("truncate")
@log_arguments(exists=True)
@click.option(
    "--keep",
    metavar="DAYS",
    type=Number(min=0, max=36500),
    required=True,
    help="Every commit of so many days can be restored still.",
)
@json_flag
def truncate(uri: Path | str, log: str, keep: float, as_json: bool) -> None:
    """Let go of the records of LOG before the newest snapshot that is older than --keep."""
    with writing(uri) as namespace:
        opened = namespace.log(log, create=False)
        count = opened.count()
        found = truncate_log(opened, timedelta(days=keep))
        left = opened.count()
    if as_json:
        snapshot_row = None if found is None else {"lsn": found.lsn, "time_ms": found.time_ms}
        click.echo(json.dumps({"snapshot": snapshot_row, "records_let_go": count - left, "records_kept": left}))
    elif found is None:
        click.echo(f"no snapshot is older than {keep:g} days: nothing is let go of")
    else:
        begins_now = f"the log begins with the snapshot at record {found.lsn}, {moment(found.time_ms)}"
        click.echo(f"{counted(count - left, 'record')} let go, {left:,} kept; {begins_now}")


# ---- helpers ----


def in_use(file: Path) -> str | None:
    """Who has it open, for people; None: nobody."""
    found = holder_of(file)
    if found is None:
        return None
    how, pid = found
    known = holder(pid).removeprefix("it is held by ")
    return f"{known or 'a process'} has it {how}"


def log_id_of(log: Log) -> int:
    return log.info().log_id % 2**64


@contextmanager
def progress(what: str) -> Iterator[Told]:
    """A bar for a terminal. Called with what was done, and all that there is to do; both may begin anew."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Set by SIGTERM or Ctrl-C."""
    stop = threading.Event()
    numbers = signal.SIGTERM, signal.SIGINT
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def until_stopped(stop: threading.Event, told: Told) -> Told:
    """The same, but it ends what tells it."""

    def telling(done: int, total: int) -> None:
        if stop.is_set():
            raise click.Abort
        told(done, total)

    return telling
