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
from typing import Any

import click

from walkeeper import Gap, Namespace
from walkeeper.cli._directory import directory, json_flag, writing
from walkeeper.cli._main import EXIT_DAMAGED, Refusal
from walkeeper.cli._show import show, size, table
from walkeeper.errors import DamagedError, DirectoryLockedError


@contextmanager
def lock_held(path: Path) -> Iterator[None]:
    """Keeps writers away while the files are copied; nothing is written. Raises DirectoryLockedError for one in use.

    A copy of a directory that is being written would be neither the one state nor the other.
    """
    file = path / "lock"
    if not file.exists():
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
    destination.mkdir(parents=True)
    total = 0
    for file in sorted(source.rglob("*")):
        target = destination / file.relative_to(source)
        if file.is_dir():
            target.mkdir(exist_ok=True)
        elif file.is_file():
            shutil.copy2(file, target)
            total += file.stat().st_size
    return total


def salvage(namespace: Namespace, name: str) -> dict[str, Any]:
    """Reads one log to its end: what is there, what is lost, and where reading stopped if it did."""
    found: dict[str, Any] = {"log": name, "records": 0, "lost": 0, "gaps": 0, "unreadable": None}
    log = namespace.log(name, create=False)
    try:
        for item in log.reader():
            if isinstance(item, Gap):
                found["gaps"] += 1
                found["lost"] += item.count
            else:
                found["records"] += 1
    except DamagedError as damage:
        found["unreadable"] = str(damage)
    return found


@click.command()
@directory
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
@click.option(
    "--on-damage",
    type=click.Choice(["stop", "point-in-time", "skip"]),
    default="point-in-time",
    show_default=True,
    help="Cut each affected log at its first lost record, or leave gaps and keep what follows.",
)
@json_flag
def recover(directory: Path, destination: Path, on_damage: str, as_json: bool) -> None:
    """Salvage a damaged DIR into DEST.

    Copies the files, opens the copy with a policy for damage, and reports what is lost. DIR itself is left as it is.
    Exit status 1 where acknowledged records are lost.
    """
    with lock_held(directory):
        copied = copy(directory, destination)
    with writing(destination, on_damage=on_damage.replace("-", "_")) as namespace:
        recovery = dataclasses.asdict(namespace.recovery())
        logs = [salvage(namespace, name) for name in namespace.logs()]
    lossy = recovery["damaged_blocks"] > 0 or any(log["lost"] or log["unreadable"] for log in logs)
    if as_json:
        click.echo(json.dumps({"recovery": recovery, "logs": logs}, ensure_ascii=False))
    else:
        report(destination, copied, recovery, logs, lossy)
    if lossy:
        sys.exit(EXIT_DAMAGED)


def report(destination: Path, copied: int, recovery: dict[str, Any], logs: list[dict[str, Any]], lossy: bool) -> None:
    """The outcome for people."""
    shown = table("log", ">records", ">gaps", ">lost", "reading stopped")
    for log in logs:
        shown.add_row(
            log["log"], f"{log['records']:,}", f"{log['gaps']:,}", f"{log['lost']:,}", log["unreadable"] or ""
        )
    show(f"{size(copied)} copied to {destination}", shown)
    if recovery["cut_bytes"]:
        show(f"A torn tail of {size(recovery['cut_bytes'])} was cut: it was never acknowledged.")
    if recovery["damaged_blocks"]:
        show(f"{recovery['damaged_blocks']} damaged blocks were given up.")
    show("Acknowledged records are lost; the copy says where." if lossy else "Nothing that was acknowledged is lost.")
