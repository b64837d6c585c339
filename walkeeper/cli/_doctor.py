"""doctor: what this machine and disk give a durable log, and why the engine does what it does here."""

from __future__ import annotations

import errno
import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from walkeeper._native import lib
from walkeeper.cli._device import block_device, device_words, file_system
from walkeeper.cli._directory import directory_to_be, json_flag
from walkeeper.cli._inspection import DoctorReport, inspect_file, probe
from walkeeper.cli._left_overs import left_overs, words
from walkeeper.cli._main import Refusal
from walkeeper.cli._number import Number
from walkeeper.cli._plug_test import plug_test_check, plug_test_write
from walkeeper.cli._show import duration, facts, show, size
from walkeeper.errors import Error

PROBED = ("direct", "alignment", "dsync_ns", "write_then_sync_ns", "blocks_in_flight", "grid_ns")
"""What is known once a file was written."""


def backend_words(report: DoctorReport) -> str:
    if report.backend == lib.WK_BACKEND_URING:
        return "io_uring: the kernel gives this process a ring"
    name = errno.errorcode.get(report.uring_error, str(report.uring_error))
    reasons = {
        errno.EPERM: "forbidden by kernel.io_uring_disabled or a seccomp filter, as in Docker by default",
        errno.ENOSYS: "this kernel has none",
        errno.ENOMEM: "RLIMIT_MEMLOCK is too small",
    }
    why = (
        f"{name}: {reasons.get(report.uring_error, os.strerror(report.uring_error))}"
        if report.uring_error
        else "chosen"
    )
    return f"psync (pwritev2 and threads); io_uring: {why}"


def method_words(report: DoctorReport) -> str:
    dsync, both = duration(report.dsync_ns), duration(report.write_then_sync_ns)
    times = f"RWF_DSYNC {dsync}, write + fdatasync {both} (medians, 4 KiB)"
    if report.sync_method == lib.WK_SYNC_DSYNC:
        return f"pwritev2 with RWF_DSYNC: {times}"
    if report.sync_method == lib.WK_SYNC_WRITE_THEN_SYNC:
        return f"write, then fdatasync: {times}"
    return f"not chosen yet: {times}"


def depth_words(report: DoctorReport) -> str:
    """The preferred method's row of the grid, 64 KiB."""
    first = 8 if report.sync_method == lib.WK_SYNC_WRITE_THEN_SYNC else 0
    times = ", ".join(
        f"{depth}: {duration(report.grid_ns[first + 2 * row + 1])}" for row, depth in enumerate((1, 2, 4, 8))
    )
    return f"{report.blocks_in_flight} (a block of 64 KiB with so many at once: {times})"


def chosen_before(path: Path) -> dict[str, Any] | None:
    """What the directory runs with, by its superblock: measured here when it was made, and in idle time since.

    None where there is no directory yet, or where the next open for writing measures anew.
    """
    lines: list[str] = []

    def take(line: str) -> bool:
        lines.append(line)
        return True

    try:
        inspect_file(path / "superblock", entries=False, take=take)
    except Error:
        pass  # the lines for what could be read are there
    slots = [json.loads(line) for line in lines]
    if not slots or slots[0].get("chosen", -1) < 0:
        return None
    root = slots[1 + slots[0]["chosen"]]
    method = {lib.WK_SYNC_DSYNC: "dsync", lib.WK_SYNC_WRITE_THEN_SYNC: "write_then_sync"}.get(root["sync_method"])
    if method is None or root["probe_device"] != path.stat().st_dev:
        return None
    return {"sync_method": method, "blocks_in_flight": root["blocks_in_flight"] or 2}


def chosen_words(chosen: dict[str, Any]) -> str:
    method = "RWF_DSYNC" if chosen["sync_method"] == "dsync" else "write, then fdatasync"
    return f"{method}, {chosen['blocks_in_flight']} blocks in flight: chosen before; today does not change it"


def limit_words(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else size(limit)


def not_writable(path: Path, report: DoctorReport) -> str:
    """Who cannot write there, and why."""
    why = os.strerror(report.write_error)
    if report.write_error in (errno.EACCES, errno.EPERM):
        return f"{path} cannot be written by this user (uid {os.geteuid()}): {why}"
    return f"{path} cannot be written: {why}"


def write_hint(report: DoctorReport) -> str | None:
    """What can be done about it."""
    if report.write_error in (errno.EACCES, errno.EPERM):
        return "call it as the user that writes there"
    return None


def strangers(path: Path) -> list[dict[str, object]] | None:
    """Files that are no part of the directory; None where this user may not look for them."""
    try:
        return left_overs(path) if (path / "superblock").exists() else []
    except PermissionError:
        return None


def examine(path: Path) -> dict[str, Any]:
    """Everything that doctor tells, for programs."""
    report = probe(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    name, standing = file_system(report.file_system)
    return {
        "report": report,
        "kernel": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
        "file_system": name,
        "file_system_standing": standing,
        "device": block_device(path),
        "memlock_soft": None if soft == resource.RLIM_INFINITY else soft,
        "memlock_hard": None if hard == resource.RLIM_INFINITY else hard,
        "others": strangers(path),
        "chosen": chosen_before(path),
    }


@click.command()
@directory_to_be
@json_flag
@click.option("--plug-test", type=click.Choice(["write", "check"]), help="The pull-the-plug test: see above.")
@click.option("--seconds", type=Number(0, 1e9, min_open=True), help="plug-test write: stop after so long.")
@click.option("--acknowledged", type=click.IntRange(0), help="plug-test check: the last number that write printed.")
def doctor(
    directory: Path, as_json: bool, plug_test: str | None, seconds: float | None, acknowledged: int | None
) -> None:
    """What runs in DIR and why: backend, durable write, disk, limits.

    The durable write is tried in a file of its own. Where this user cannot write in DIR the rest is told, and the exit
    status is 2.

    The pull-the-plug test shows whether this disk keeps its word. From another machine:

    \b
      ssh HOST walkeeper doctor --plug-test write DIR | tee acknowledged
      (cut the power of HOST; start it again)
      ssh HOST walkeeper doctor --plug-test check DIR --acknowledged $(tail -n1 acknowledged)

    `write` prints the number of each record once it is durable. `check` proves that all up to that number are there.
    """
    if seconds is not None and plug_test != "write":
        raise click.UsageError("--seconds is for --plug-test write")
    if acknowledged is not None and plug_test != "check":
        raise click.UsageError("--acknowledged is for --plug-test check")
    if as_json and plug_test is not None:
        raise click.UsageError("--plug-test does not answer in JSON")
    if plug_test == "write":
        plug_test_write(directory, seconds)
        return
    if plug_test == "check":
        plug_test_check(directory, acknowledged)
        return
    if not directory.is_dir():
        raise click.BadParameter(f"{str(directory)!r} is no directory", param_hint="DIR")
    found = examine(directory)
    report: DoctorReport = found.pop("report")
    tried = report.write_error == 0
    if as_json:
        uring = report.backend == lib.WK_BACKEND_URING
        method = {lib.WK_SYNC_DSYNC: "dsync", lib.WK_SYNC_WRITE_THEN_SYNC: "write_then_sync"}.get(
            report.sync_method, "probe"
        )
        numbers = {
            name: getattr(report, name) if tried or name not in PROBED else None
            for name in DoctorReport.__dataclass_fields__
        }
        named = {
            "backend": "uring" if uring else "psync",
            "sync_method": method if tried else None,
            "file_system_magic": report.file_system,
            "writable": tried,
        }
        click.echo(json.dumps({**numbers, **found, **named}))
    else:
        show(facts(list(told(directory, found, report))))
    if not tried:
        raise Refusal(f"{not_writable(directory, report)}; the durable write was not tried", write_hint(report))


def told(directory: Path, found: dict[str, Any], report: DoctorReport) -> Iterator[tuple[str, str]]:
    """The rows for people: what could not be tried is said to be so."""
    yield "kernel", found["kernel"]
    yield "backend", backend_words(report)
    if report.write_error:
        yield "durable write", f"not tried: {not_writable(directory, report)}"
    else:
        yield "durable write", method_words(report)
        yield "blocks in flight", depth_words(report)
    if found["chosen"]:
        yield "this directory", chosen_words(found["chosen"])
    yield "file system", f"{found['file_system']}: {found['file_system_standing']}"
    if not report.write_error:
        direct = f"O_DIRECT, aligned to {report.alignment}"
        yield "writes", direct if report.direct else "buffered: the file system refuses O_DIRECT"
    yield "device", device_words(found["device"])
    yield "free space", f"{size(report.free_bytes)} of {size(report.total_bytes)}"
    yield "RLIMIT_MEMLOCK", limit_words(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    if found["others"]:
        yield "no part of it", words(found["others"])
    elif found["others"] is None:
        yield "no part of it", "cannot be told: this user may not read all of it"
