"""The pull-the-plug test, in two halves: does this disk keep what it says is durable?

Record n of the log "plug-test" is a function of n, so that the second half needs to know nothing but how far the first
one came; that is printed, and must be kept on another machine.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import time
from pathlib import Path

import click

from walkeeper import Gap
from walkeeper.cli._directory import reading, writing
from walkeeper.cli._main import EXIT_DAMAGED, Refusal

LOG = "plug-test"
SIZE_MAX = 8192


def payload(number: int) -> bytes:
    """Record `number`: its number, then bytes that nothing else has; sizes differ, so that blocks do."""
    seed = number.to_bytes(8, "big")
    count = int.from_bytes(hashlib.blake2b(seed, digest_size=4).digest(), "big") % SIZE_MAX
    return seed + hashlib.shake_128(seed).digest(count)


def plug_test_write(path: Path, seconds: float | None) -> None:
    """Appends until the power goes (or `seconds` have passed, one record at least), and prints what is durable."""
    with writing(path, create=True) as namespace, namespace.log(LOG).writer() as writer:
        until = None if seconds is None else time.monotonic() + seconds
        click.echo(f"walkeeper: from record {writer.next_sequence_id} on; cut the power while numbers appear", err=True)
        for number in itertools.count(writer.next_sequence_id):
            writer.append(payload(number), expected=number)
            print(number, flush=True)
            if until is not None and time.monotonic() >= until:
                return


def plug_test_check(path: Path, acknowledged: int | None) -> None:
    """Exit status 0: every record up to `acknowledged` is there, as it was written. 1: the disk broke its word."""
    if acknowledged is None:
        raise Refusal("check needs the last number that write printed", "give it as --acknowledged N")
    count = 0
    with reading(path) as namespace:
        if LOG not in namespace.logs():
            said = f"record {acknowledged} was acknowledged, {path} has no log {LOG}"
            click.echo(f"LOST: {said}. This disk lies, or the records were written elsewhere.")
            sys.exit(EXIT_DAMAGED)
        for item in namespace.log(LOG, create=False).reader(gaps="yield"):
            if isinstance(item, Gap) or item.sequence_id != count or item.payload != payload(count):
                click.echo(f"record {count} is not what was written: {item!r}")
                sys.exit(EXIT_DAMAGED)
            count += 1
    if count <= acknowledged:
        there = f"the log ends with {count - 1}" if count else "the log is empty"
        click.echo(f"LOST: record {acknowledged} was acknowledged, {there}. This disk lies, or we do.")
        sys.exit(EXIT_DAMAGED)
    unheard = count - 1 - acknowledged
    more = f"; {unheard} more were durable before the power went" if unheard else ""
    click.echo(f"all {acknowledged + 1:,} acknowledged records are there, byte for byte{more}")
