"""sanity: whether a bookie does what clients will ask of it."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable

import click

from walkeeper_bookie._kinds import Address, HostPort, WrongValue
from walkeeper_bookie.commands._client import V2, V3, Connection, ProtocolError, Reply
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["sanity"]

EXIT_WRONG = 1
SCRATCH_FIRST = 2**62
"""Ids from here on are given by no generator of ledger ids in centuries."""

NO_LEDGER = {V2: 1, V3: 402}
FENCED = {V2: 104, V3: 504}
READ_ONLY = {V2: 105, V3: 505}
LIMBO = {V2: 101, V3: 507}


class Wrong(Exception):
    """The bookie does not do what it must."""


@click.command()
@click.argument("address", metavar="HOST:PORT")
@click.option("--no-write", is_flag=True, help="Add nothing: read a ledger that there is not, ask for free space.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=10.0, show_default=True)
def sanity(address: str, no_write: bool, timeout: float) -> None:
    """Ask a running bookie for what clients ask, in both protocols: add, read, fence, free space.

    It adds two small entries to a ledger that nobody has: the bookie deletes it some gc_intervals later, as it is not
    in the metadata. Exit status 1: the bookie answers, and wrongly. 2: it does not answer.
    """
    try:
        found = HostPort().parse(address)
    except WrongValue as wrong:
        raise Refusal(f"{address!r}: {wrong}") from None
    assert found is not None
    try:
        check_all(found, timeout, no_write)
    except OSError as error:
        raise Refusal(f"{address} does not answer: {error.strerror or error}") from None
    except (Wrong, ProtocolError) as wrong:
        click.echo(f"WRONG: {wrong}", err=True)
        sys.exit(EXIT_WRONG)


def check_all(address: Address, timeout: float, no_write: bool) -> None:
    scratch = SCRATCH_FIRST + secrets.randbelow(2**61)
    with Connection(*address, V3, timeout) as v3, Connection(*address, V2, timeout) as v2:
        for version, connection in ((3, v3), (2, v2)):
            code = step(f"read of an unknown ledger, v{version}", lambda c=connection: c.read(scratch, 0)).code  # type: ignore[misc]
            if code == LIMBO[version]:
                click.echo("    every ledger is in limbo: nothing is said to be absent")
            else:
                expect(code, NO_LEDGER[version], "no such ledger")
        space = step("free space, v3", v3.info)
        expect(space.code, 0, "the space of the disk")
        click.echo(f"    {space.free_bytes:,} of {space.total_bytes:,} bytes are free")
        if not no_write and check_writes(v2, v3, scratch):
            check_fence(v2, v3, scratch)


def check_writes(v2: Connection, v3: Connection, scratch: int) -> bool:
    """Adds and reads crosswise; False: the bookie is read-only."""
    for version, entry_id, writer, reader in ((2, 0, v2, v3), (3, 1, v3, v2)):
        payload = b"sanity %d" % entry_id
        added = step(f"add, v{version}", lambda w=writer, e=entry_id, p=payload: w.add(scratch, e, p))  # type: ignore[misc]
        if added.code == READ_ONLY[version]:
            click.echo("    the bookie is read-only: nothing was added")
            return False
        expect(added.code, 0, "the add is durable")
        read = step(f"read of it, v{5 - version}", lambda r=reader, e=entry_id: r.read(scratch, e))  # type: ignore[misc]
        expect(read.code, 0, "the entry")
        if not read.body.endswith(payload) or len(read.body) != 40 + len(payload):
            raise Wrong(f"the entry that comes back is not the one that was added: {read.body.hex()}")
    return True


def check_fence(v2: Connection, v3: Connection, scratch: int) -> None:
    last = step("fence, and read of the last entry, v2", lambda: v2.read(scratch, -1, fence=True))
    expect(last.code, 0, "the last entry")
    if int.from_bytes(last.body[8:16], "big") != 1:
        raise Wrong("the last entry is not the one that was added last")
    for version, connection in ((2, v2), (3, v3)):
        refused = step(f"add to the fenced ledger, v{version}", lambda c=connection: c.add(scratch, 2, b"sanity 2"))  # type: ignore[misc]
        expect(refused.code, FENCED[version], "fenced")


def step(what: str, ask: Callable[[], Reply]) -> Reply:
    started = time.perf_counter()
    reply = ask()
    click.echo(f"{what}: code {reply.code}, {(time.perf_counter() - started) * 1e3:.2f} ms")
    return reply


def expect(code: int, right: int, meaning: str) -> None:
    if code != right:
        raise Wrong(f"code {code} instead of {right} ({meaning})")
