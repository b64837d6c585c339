"""recover: what can be saved of a damaged directory, in a copy; the original is not touched."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click

import walkeeper
from walkeeper import Gap, Log, Namespace
from walkeeper._options import OnDamage
from walkeeper.cli._directory import directory, json_flag
from walkeeper.cli._main import EXIT_DAMAGED, Damage, Refusal
from walkeeper.cli._show import show, size, table
from walkeeper.errors import DamagedError, DirectoryLockedError


@contextmanager
def lock_held(path: Path) -> Iterator[None]:
    """Keeps writers away while the files are copied; nothing is written. Raises DirectoryLockedError for one in use.

    A copy of a directory that is being written would be neither the one state nor the other.
    """
    file = path / "lock"
    if not file.is_file():
        yield
        return
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            error = DirectoryLockedError(f"{path} is open for writing")
            said = opened.read(32).split(b"\n")[0]
            error.holder_pid = int(said) if said.isdigit() else None
            raise error from None
        yield


def copy(source: Path, destination: Path) -> int:
    """Copies the files; returns their bytes. Refuses a destination that exists."""
    if destination.exists():
        raise Refusal(f"{destination} exists", "name a path that does not: the copy is made there")
    if source.resolve() in destination.resolve().parents:
        raise Refusal(f"{destination} is inside {source}", "name a path outside: DIR itself is left as it is")
    destination.mkdir(parents=True)
    total = 0
    for file in sorted(source.rglob("*")):
        target = destination / file.relative_to(source)
        if file.name in ("lock", "shared") or file.name.startswith("prepared-"):
            continue  # of the processes that have the original open; and space that holds nothing
        if file.is_dir():
            target.mkdir(exist_ok=True)
        elif file.is_file():
            shutil.copy2(file, target)
            total += file.stat().st_size
    return total


def open_copy(path: Path, on_damage: OnDamage) -> Namespace:
    """The copy, for writing. Every entry is read: what is lost is known now. One that cannot be opened is removed."""
    try:
        if on_damage != "stop":
            return walkeeper.open(path, create=False, on_damage=on_damage, check_all=True)
        namespace = walkeeper.open(path, create=False)
    except DamagedError as damage:
        shutil.rmtree(path)
        if on_damage != "stop":
            raise
        hint = "--on-damage point-in-time ends each log before its first loss, skip leaves gaps"
        raise Damage(str(damage).split(". Nothing was changed")[0], hint) from None
    except BaseException:
        shutil.rmtree(path)
        raise
    return namespace


def salvage(namespace: Namespace, name: str) -> dict[str, Any]:
    """Reads all of one log that can be read: how many records, how many cannot, and what was said of the first."""
    log = namespace.log(name, create=False)
    info = log.info()
    found: dict[str, Any] = {"log": name, "records": 0, "lost": 0, "unreadable": []}
    at, end = info.first.sequence_id, info.next.sequence_id
    reader = log.reader()
    while at < end:
        try:
            for item in reader:
                lost = item.count if isinstance(item, Gap) else 0
                found["lost"] += lost
                if lost:
                    hole = {"from": item.sequence_id, "before": item.sequence_id + lost, "why": "a gap: accepted loss"}
                    found["unreadable"].append(hole)
                found["records"] += not lost
                at = item.sequence_id + (lost or 1)
            break
        except DamagedError as damage:
            begin, at = at, next_readable(log, at + 1, end)
            found["lost"] += at - begin
            found["unreadable"].append({"from": begin, "before": at, "why": str(damage)})
            reader = log.reader(sequence_id=at) if at < end else reader
    return found


def next_readable(log: Log, at: int, end: int) -> int:
    """The first sequence id from `at` on whose record can be read; `end` where there is none."""
    while at < end and not readable(log, at):
        at += 1
    return at


def readable(log: Log, sequence_id: int) -> bool:
    try:
        log.reader(sequence_id=sequence_id).read(max_records=1)
    except DamagedError:
        return False
    return True


@click.command()
@directory
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
@click.option(
    "--on-damage",
    type=click.Choice(["stop", "point-in-time", "skip"]),
    default="point-in-time",
    show_default=True,
    help="Refuse; or end each log that lost something before its first loss; or leave gaps.",
)
@json_flag
def recover(directory: Path, destination: Path, on_damage: str, as_json: bool) -> None:
    """Salvage a damaged DIR into DEST.

    Copies the files, opens the copy by the policy, and reads all of it. What is lost is recorded in the copy: readers
    yield a gap for it, and its sequence ids are not used again; nothing surfaces later. DIR itself is left as it is.
    Exit status 1 where acknowledged records are lost, or where it cannot be told.
    """
    with lock_held(directory):
        copied = copy(directory, destination)
    with open_copy(destination, cast("OnDamage", on_damage.replace("-", "_"))) as namespace:
        recovery = dataclasses.asdict(namespace.recovery())
        logs = [salvage(namespace, name) for name in namespace.logs()]
    unknown = recovery["unknown_blocks"] + recovery["catalogue_lost"] + recovery["adopted_ledgers"] > 0
    lossy = unknown or any(log["lost"] for log in logs)
    if as_json:
        click.echo(json.dumps({"lossy": lossy, "recovery": recovery, "logs": logs}, ensure_ascii=False))
    else:
        report(destination, copied, recovery, logs)
        show(outcome(lossy, sum(log["lost"] for log in logs) + recovery["unknown_blocks"]))
    if lossy:
        sys.exit(EXIT_DAMAGED)


def outcome(lossy: bool, lost: int) -> str:
    if lost:
        return "Acknowledged records are lost."
    return (
        "No record is known to be lost, but not all can be told." if lossy else "Nothing that was acknowledged is lost."
    )


def report(destination: Path, copied: int, recovery: dict[str, Any], logs: list[dict[str, Any]]) -> None:
    """The outcome for people."""
    shown = table("log", ">readable", ">not", "sequence ids that are not")
    for log in logs:
        ranges = ", ".join(f"{hole['from']} to {hole['before'] - 1}" for hole in log["unreadable"])
        shown.add_row(log["log"], f"{log['records']:,}", f"{log['lost']:,}", ranges)
    show(f"{size(copied)} copied to {destination}", shown)
    if recovery["damaged_blocks"]:
        show(f"{recovery['damaged_blocks']:,} damaged blocks of the journal; what was intact in them was kept.")
    if recovery["unknown_blocks"]:
        show(f"Of {recovery['unknown_blocks']:,} blocks it cannot be told what they held (ledgers unknown).")
    if recovery["catalogue_fallbacks"]:
        show("The newest snapshot of the catalogue cannot be read; the one before it said the same.")
    if recovery["catalogue_lost"]:
        show(
            f"{recovery['catalogue_lost']:,} entries of the catalogue cannot be read. What they changed is not known: "
            "logs that were made, renamed or deleted, their segments, truncations and cursors. More may be shown than "
            "there was."
        )
    if recovery["adopted_ledgers"]:
        show(f"{recovery['adopted_ledgers']:,} ledgers that no log names any more are logs now: recovered-ledger-<id>.")
    if recovery["lost_files"]:
        show(f"{recovery['lost_files']:,} entry logs without a readable index were set aside.")
    if recovery["cut_bytes"]:
        show(f"A torn tail of {size(recovery['cut_bytes'])} was cut: it was never acknowledged.")
