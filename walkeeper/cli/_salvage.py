"""recover: what can be saved of a damaged directory, in a copy; the original is not touched."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import click

import walkeeper
from walkeeper import Gap, Log, Namespace
from walkeeper._native import lib
from walkeeper._options import OnDamage
from walkeeper.cli._copy import Unreadable, copy, lock_held
from walkeeper.cli._directory import Place, check_destination, directory, journal_place, json_flag
from walkeeper.cli._directory import destination as destination_argument
from walkeeper.cli._main import EXIT_DAMAGED, Damage, Refusal
from walkeeper.cli._scratch import scratch
from walkeeper.cli._show import counted, printable, show, size, table
from walkeeper.directory._paths import rebuild_superblock
from walkeeper.errors import DamagedError, Error


@dataclasses.dataclass(frozen=True)
class Pair:
    """A directory, and its journal directory where it has one."""

    data: Path
    journal: Path | None

    @property
    def options(self) -> dict[str, Any]:
        """Of walkeeper.open."""
        return {} if self.journal is None else {"journal": self.journal}

    def beside(self, name: str) -> Pair:
        """Others, of these names, in the same places."""
        journal = None if self.journal is None else self.journal.with_name(name)
        return Pair(self.data.with_name(name), journal)


def copy_pair(source: Pair, target: Pair, unreadable: Unreadable | None) -> int:
    """Both are copied, as copy() does it; their bytes."""
    total = copy(source.data, target.data, unreadable)
    if source.journal is not None and target.journal is not None:
        total += copy(source.journal, target.journal, unreadable)
    return total


def salvaged(pair: Pair, on_damage: OnDamage) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Opens a copy by the policy and reads all of it: what the open had to do, and what is left of each log.

    Every entry is read by the open, where the policy accepts loss: what is lost is known now.
    """
    options = {"check_all": on_damage != "stop", **pair.options}
    with walkeeper.open(pair.data, create=False, on_damage=on_damage, **options) as namespace:
        recovery = dataclasses.asdict(namespace.recovery())
        return recovery, [salvage(namespace, name) for name in namespace.logs()]


def kept_by_skip(source: Pair, place: Pair, size: int) -> int | None:
    """How many records a copy of `source` has that leaves gaps. None where there is no room to make one, in `place`."""
    if any(shutil.disk_usage(made.parent).free < 2 * size for made in (place.data, place.journal) if made is not None):
        return None
    try:
        copy_pair(source, place, {})
        rebuild_superblock(place.data, place.journal, None)
        return sum(int(log["records"]) for log in salvaged(place, "skip")[1])
    except (Refusal, Error, OSError):
        return None
    finally:
        for made in (place.data, place.journal):
            if made is not None:
                shutil.rmtree(made, ignore_errors=True)


@contextmanager
def unfinished(source: Path, destination: Pair) -> Iterator[Pair]:
    """Names on the destinations' file systems; what is made there gets the destinations' at the end, or is removed.

    Errors that speak of it are told of the source: it is gone when they are read.
    """
    with ExitStack() as stack:
        folders = [
            stack.enter_context(scratch(made.parent, ".walkeeper-recover-", "the copy is made there"))
            for made in (destination.data, destination.journal)
            if made is not None
        ]
        place = Pair(folders[0] / "copy", folders[1] / "copy" if destination.journal is not None else None)
        try:
            yield place
        except Error as stop:
            stop.args = (str(stop).replace(str(place.data), str(source)), *stop.args[1:])
            raise
        place.data.rename(destination.data)
        if place.journal is not None and destination.journal is not None:
            place.journal.rename(destination.journal)


def salvage(namespace: Namespace, name: str) -> dict[str, Any]:
    """Reads all of one log that can be read: how many records, how many cannot, and what was said of the first."""
    log = namespace.log(name, create=False)
    info = log.info()
    found: dict[str, Any] = {"log": name, "records": 0, "lost": 0, "unreadable": []}
    at, end = info.first.sequence_id, info.next.sequence_id
    reader = log.reader(gaps="yield")
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
            reader = log.reader(sequence_id=at, gaps="yield") if at < end else reader
    return found


def next_readable(log: Log, at: int, end: int) -> int:
    """The first sequence id from `at` on whose record can be read; `end` where there is none."""
    while at < end and not readable(log, at):
        at += 1
    return at


def readable(log: Log, sequence_id: int) -> bool:
    try:
        log.reader(sequence_id=sequence_id, gaps="yield").read(max_records=1)
    except DamagedError:
        return False
    return True


@click.command()
@directory
@destination_argument
@click.option(
    "--on-damage",
    type=click.Choice(["stop", "point-in-time", "skip"]),
    default="point-in-time",
    show_default=True,
    help="Refuse; or end each log that lost something before its first loss; or leave gaps.",
)
@click.option(
    "--journal-to", metavar="JDEST", type=Place(), help="The journal directory of the copy, where DIR has one."
)
@json_flag
def recover(directory: Path, destination: Path, on_damage: str, journal_to: Path | None, as_json: bool) -> None:
    """Salvage a damaged DIR into DEST.

    Copies the files, opens the copy by the policy, and reads all of it. Sectors that the disk cannot read are zeros in
    the copy, and judged as other damage (with --on-damage stop the first one is an error). What is lost is recorded in
    the copy: readers yield a gap for it, and its sequence ids are not used again; nothing surfaces later. DIR itself is
    left as it is.
    A superblock that is missing, damaged in both slots, cut short, or another directory's is rebuilt from the files. Of
    a ledger store that is all that is done; its bookie starts with --on-damage skip alone, which puts all into limbo.
    Exit status 1 where acknowledged records are lost, or where it cannot be told.
    """
    check_destination(directory, destination)
    source, target = pairs(directory, destination, journal_to)
    policy = cast("OnDamage", on_damage.replace("-", "_"))
    with lock_held(directory), unfinished(directory, target) as place:
        unreadable: Unreadable = {}
        copied = copy_pair(source, place, None if policy == "stop" else unreadable)
        rebuilt = rebuild_superblock(place.data, place.journal, target.journal)
        if rebuilt is not None and policy == "stop":
            raise refused(DamagedError(f"opening {directory}: its superblock is lost"))
        holds_ledgers = rebuilt is not None and rebuilt["kind"] == lib.WK_KIND_LEDGERS
        found = None if holds_ledgers else salvaged_logs(source, place, policy, copied)
    if found is not None and target.journal is not None:
        walkeeper.open(destination, create=False, **target.options).close()  # it says where that is now
    lossy = rebuilt is not None or (found is not None and found.lossy)
    if as_json:
        named = {below(source, file): count for file, count in unreadable.items()}
        of_logs = {} if found is None else {"intact": found.intact, "recovery": found.recovery, "logs": found.logs}
        click.echo(json.dumps({"lossy": lossy, "unreadable": named, "rebuilt": rebuilt, **of_logs}))
    else:
        for file, count in unreadable.items():
            show(f"{size(count)} of {printable(str(file))} cannot be read (input/output error): zeros in the copy.")
        if found is None:
            show(f"{size(copied)} copied to {destination}")
        else:
            report(destination, copied, found.recovery, found.logs)
        if rebuilt is not None:
            show(*unknown_without_superblock(rebuilt))
        if found is not None:
            if found.lost and policy == "point_in_time":
                show(let_go(found.lost, found.intact))
            show(outcome(lossy, found.lost + found.recovery["unknown_blocks"]))
    if lossy:
        sys.exit(EXIT_DAMAGED)


@dataclasses.dataclass(frozen=True)
class Salvaged:
    """What a copy of logs holds."""

    recovery: dict[str, Any]
    logs: list[dict[str, Any]]
    intact: int | None
    """Records that were let go, though they can be read."""

    @property
    def lost(self) -> int:
        return sum(log["lost"] for log in self.logs)

    @property
    def lossy(self) -> bool:
        known = (
            self.recovery["unknown_blocks"] + self.recovery["catalogue_lost"] + self.recovery["adopted_ledgers"] == 0
        )
        return not known or self.lost > 0


def salvaged_logs(source: Pair, place: Pair, policy: OnDamage, copied: int) -> Salvaged:
    """Opens the copy by the policy. Raises Damage where that is stop, and something is lost."""
    directory = source.data
    try:
        recovery, logs = salvaged(place, policy)
    except DamagedError as damage:
        if policy != "stop":
            raise
        raise refused(DamagedError(str(damage).replace(str(place.data), str(directory)))) from None
    found = Salvaged(recovery, logs, None)
    if found.lost and policy == "stop":
        why = next(hole["why"] for log in logs for hole in log["unreadable"])
        raise refused(DamagedError(why.replace(str(place.data), str(directory))))
    if not found.lost or policy != "point_in_time":
        return found
    kept = kept_by_skip(source, place.beside("skip"), copied)
    return dataclasses.replace(found, intact=None if kept is None else kept - sum(log["records"] for log in logs))


def unknown_without_superblock(rebuilt: dict[str, int]) -> list[str]:
    """What a superblock that was rebuilt cannot say."""
    said = [
        f"The superblock is lost. A new one was made from the files; they go up to block {rebuilt['last_sequence']:,}. "
        "Whether the directory was closed in order is not known, so the loss of the last journal file may go unnoticed."
    ]
    if rebuilt["other_directories"]:
        said.append("Some files are another directory's: they count as damage.")
    if rebuilt["kind"] != lib.WK_KIND_LEDGERS:
        return said
    if not rebuilt["index_generation"]:
        said.append(
            "No index file is whole: fences, keys and deletes that only it held are lost; deleted ledgers are back."
        )
    return [
        *said,
        "It is a ledger store, and a fence may be missing. Start its bookie once with --on-damage skip, which puts all "
        "ledgers into limbo. Without it the bookie does not start, and `walkeeper verify` misses the journal's end.",
    ]


def pairs(directory: Path, destination: Path, journal_to: Path | None) -> tuple[Pair, Pair]:
    """What is copied, and where to. Refuses a journal directory that the copy would lack, or has no use for."""
    journal = journal_place(directory)
    if journal is not None and journal_to is None:
        raise Refusal(f"{directory} has a journal directory, {journal}", "name one for the copy: --journal-to JDEST")
    if journal is None and journal_to is not None:
        raise Refusal(f"{directory} has no journal directory", "leave out --journal-to")
    if journal_to is not None:
        check_destination(directory, journal_to)
    return Pair(directory, journal), Pair(destination, journal_to)


def below(source: Pair, file: Path) -> str:
    """The file's name below the directory that has it."""
    apart = source.journal is not None and source.journal in file.parents
    return str(file.relative_to(cast("Path", source.journal) if apart else source.data))


def refused(damage: DamagedError) -> Damage:
    """What --on-damage stop says: before anything is given up."""
    hint = "--on-damage point-in-time ends each log before its first loss, skip leaves gaps"
    return Damage(str(damage).split(". Nothing was changed")[0], hint)


def let_go(lost: int, intact: int | None) -> str:
    """What ending each log before its first loss cost."""
    if intact is None:
        return "What is intact behind the first loss of a log was let go with it: --on-damage skip keeps that."
    return f"Of the {counted(lost, 'record')} let go, {intact:,} can be read: --on-damage skip keeps them."


def outcome(lossy: bool, lost: int) -> str:
    if lost:
        return "Acknowledged records are lost."
    return (
        "No record is known to be lost, but not all can be told." if lossy else "Nothing that was acknowledged is lost."
    )


def span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def report(destination: Path, copied: int, recovery: dict[str, Any], logs: list[dict[str, Any]]) -> None:
    """The outcome for people."""
    shown = table("log", ">readable", ">not", "sequence ids that are not")
    for log in logs:
        ranges = ", ".join(span(hole["from"], hole["before"] - 1) for hole in log["unreadable"])
        shown.add_row(printable(log["log"]), f"{log['records']:,}", f"{log['lost']:,}", ranges)
    show(f"{size(copied)} copied to {destination}", shown)
    if recovery["damaged_blocks"]:
        show(f"{counted(recovery['damaged_blocks'], 'damaged block')} of the journal; what was intact there was kept.")
    if recovery["unknown_blocks"]:
        show(f"Blocks of which it cannot be told what they held (ledgers unknown): {recovery['unknown_blocks']:,}.")
    if recovery["catalogue_fallbacks"]:
        show("The newest snapshot of the catalogue cannot be read; the one before it said the same.")
    if recovery["catalogue_lost"]:
        show(
            f"{counted(recovery['catalogue_lost'], 'entry', 'entries')} of the catalogue cannot be read. What they "
            "changed is not known: logs that were made, renamed or deleted, their segments, truncations and cursors. "
            "More may be shown than there was."
        )
    if recovery["adopted_ledgers"]:
        show(f"Ledgers that no log names any more, now logs recovered-ledger-<id>: {recovery['adopted_ledgers']:,}.")
    if recovery["lost_files"]:
        show(f"Entry logs without a readable index, set aside: {recovery['lost_files']:,}.")
    if recovery["cut_bytes"]:
        show(f"A torn tail of {size(recovery['cut_bytes'])} was cut: it was never acknowledged.")
