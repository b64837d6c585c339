"""ledgers, ledger, bookies: what is in a cluster of bookies, by the URI of its metadata store."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, get_args

import click

from walkeeper import LedgerClient, LedgerEntry, LedgerWriter
from walkeeper._native import lib
from walkeeper.cli._directory import json_flag
from walkeeper.cli._main import DAMAGED, Damage, Refusal
from walkeeper.cli._place import natural
from walkeeper.cli._show import counted, facts, printable, show, size, table
from walkeeper.cli._writing import line_batches
from walkeeper.errors import CorruptError, DamagedError, Error, LedgerNotFoundError, UnsupportedError
from walkeeper.ledgers import Digest
from walkeeper.metadata import LedgerMetadata, LedgerState

PAYLOAD_MAX: int = lib.WK_CLIENT_PAYLOAD_MAX
"""Bytes that an entry may have."""

STATES = {LedgerState.OPEN: "open", LedgerState.IN_RECOVERY: "in recovery", LedgerState.CLOSED: "closed"}
DIGESTS = {"CRC32": "crc32", "CRC32C": "crc32c", "MAC": "hmac", "DUMMY": "none"}


def number(what: str) -> Callable[[str], int]:
    """The type of an argument that is the number of something."""

    def convert(value: str) -> int:
        try:
            return natural(value)
        except ValueError:
            raise click.BadParameter(f"{value!r} is no {what}: a number from 0 to {2**63 - 1}") from None

    return convert


uri_argument = click.argument("uri", metavar="URI")
ledger_argument = click.argument("ledger_id", metavar="ID", type=number("id of a ledger"))
password_option = click.option(
    "--password", envvar="WALKEEPER_LEDGER_PASSWORD", default="", help="The ledger's password.", show_envvar=True
)


@contextmanager
def client_of(uri: str) -> Iterator[LedgerClient]:
    """A client of the cluster. What a directory's commands could do about damage does nothing about a ledger's."""
    with LedgerClient(uri) as client:
        try:
            yield client
        except DamagedError as error:
            raise Damage(str(error), error.hint) from error


def row(ledger_id: int, metadata: LedgerMetadata) -> dict[str, Any]:
    """What is told of a ledger. How much is in one that is not closed only its bookies know."""
    closed = metadata.is_closed
    return {
        "ledger_id": ledger_id,
        "state": STATES[metadata.state],
        "ensemble_size": metadata.ensemble_size,
        "write_quorum": metadata.write_quorum,
        "ack_quorum": metadata.ack_quorum,
        "entries": metadata.last_entry_id + 1 if closed else None,
        "bytes": metadata.length if closed else None,
        "bookies": list(metadata.segments[0]),
    }


@click.command()
@uri_argument
@click.option("--orphans", is_flag=True, help="Only ledgers that were made for a log, and that no log refers to.")
@click.option("--delete", "deletes", is_flag=True, help="Delete those orphans that are certain to be.")
@click.option("--yes", is_flag=True, help="Do not ask before that.")
@json_flag
def ledgers(uri: str, orphans: bool, deletes: bool, yes: bool, as_json: bool) -> None:
    """The ledgers of the cluster at URI: state, quorums, size, and the bookies of the first entry.

    E/Qw/Qa: of E bookies each entry goes to Qw, and is confirmed by Qa.

    With --orphans: ledgers with walkeeper's custom metadata (namespace, log, segment) that no log of the cluster's
    namespaces refers to, and why. A writer leaves one where it is killed between making a ledger and learning that
    another writer took over. A ledger of another application is none, and neither is one that is just being made. An
    orphan is not certain, and --delete leaves it, where the documents of logs may be lost: its namespace is not there
    or has no log, or something in it cannot be read.
    """
    if orphans:
        show_orphans(uri, deletes, yes, as_json)
        return
    if deletes or yes:
        raise click.UsageError("--delete and --yes go with --orphans")
    rows = []
    with client_of(uri) as client:
        for ledger_id in client.list():
            try:
                rows.append(row(ledger_id, client.metadata(ledger_id)))
            except LedgerNotFoundError:  # noqa: PERF203 - it rarely is
                continue  # it was deleted meanwhile
            except (CorruptError, UnsupportedError) as error:
                click.echo(f"walkeeper: {printable(str(error))}", err=True)
                click.get_current_context().meta[DAMAGED] = True
    if as_json:
        for each in rows:
            click.echo(json.dumps(each))
        return
    if not rows:
        click.echo("no ledgers", err=True)
        return
    shown = table(">ledger", "state", "E/Qw/Qa", ">entries", ">bytes", "bookies")
    for each in rows:
        entries, length = each["entries"], each["bytes"]
        counts = ("-", "-") if entries is None else (f"{entries:,}", size(length))
        names = printable(", ".join(each["bookies"]))
        shown.add_row(str(each["ledger_id"]), each["state"], quorums(each), *counts, names)
    show(shown)


def show_orphans(uri: str, deletes: bool, yes: bool, as_json: bool) -> None:
    """Lists the orphans, and lets those go that may."""
    from walkeeper.cluster._orphans import Orphans  # what only this option needs

    with client_of(uri) as client:
        found = Orphans(client)
        there = found.find()
        for text in found.unreadable:
            click.echo(f"walkeeper: {printable(text)}", err=True)
            click.get_current_context().meta[DAMAGED] = True
        certain = [one for one in there if one.certain]
        if not as_json:
            if not there:
                click.echo("no orphans", err=True)
                return
            shown = table(">ledger", "namespace", "log", ">segment", "created", "certain", "why")
            for one in there:
                names = printable(one.namespace), printable(one.log_id), str(one.segment)
                created = "-" if one.created_ms is None else moment(one.created_ms)
                shown.add_row(
                    str(one.ledger_id), *names, created, "yes" if one.certain else "no", printable(one.reason)
                )
            show(shown)
        if deletes and certain and not yes:
            counts = counted(len(certain), "ledger", "ledgers")
            if click.prompt(f"{counts} will be lost. Type how many", err=True) != str(len(certain)):
                raise Refusal("that is another number; nothing was deleted")
        gone = {one.ledger_id for one in certain if deletes and found.delete(one)}
    if as_json:
        for one in there:
            click.echo(json.dumps({**asdict(one), "deleted": one.ledger_id in gone}))
    elif deletes:
        stay = len(there) - len(gone)
        rest = f"; {stay} stay" if stay else ""
        click.echo(f"walkeeper: {counted(len(gone), 'orphan', 'orphans')} deleted{rest}", err=True)


def quorums(told: dict[str, Any]) -> str:
    return f"{told['ensemble_size']}/{told['write_quorum']}/{told['ack_quorum']}"


@click.command()
@uri_argument
@json_flag
def bookies(uri: str, as_json: bool) -> None:
    """The bookies of the cluster at URI, and whether they are up: writable, read-only or down."""
    with client_of(uri) as client:
        found = client.bookies()
    if as_json:
        for each in found:
            click.echo(json.dumps({"bookie_id": each.bookie_id, "state": each.state, "address": each.address}))
        return
    if not found:
        click.echo("no bookies", err=True)
        return
    shown = table("bookie", "state", "address")
    for each in found:
        shown.add_row(printable(each.bookie_id), each.state, printable(each.address or "-"))
    show(shown)


@click.group()
def ledger() -> None:
    """Look at, read, write, recover and delete one ledger of a cluster."""


@ledger.command("show")
@uri_argument
@ledger_argument
@json_flag
def show_ledger(uri: str, ledger_id: int, as_json: bool) -> None:
    """What the metadata say of the ledger ID. No bookie is asked."""
    with client_of(uri) as client:
        metadata = client.metadata(ledger_id)
    told = row(ledger_id, metadata)
    del told["bookies"]
    told |= {
        "digest": None if metadata.digest_type is None else DIGESTS[metadata.digest_type.name],
        "has_password": bool(metadata.password),
        "created_ms": metadata.ctime,
        "segments": [{"first_entry": first, "bookies": list(names)} for first, names in metadata.segments.items()],
        "custom_metadata": {name: as_text(value) for name, value in metadata.custom_metadata.items()},
    }
    if as_json:
        click.echo(json.dumps(told))
        return
    rows = [("ledger", str(ledger_id)), ("state", told["state"]), ("E/Qw/Qa", quorums(told))]
    if metadata.is_closed:
        rows += [("entries", f"{told['entries']:,}"), ("bytes", size(metadata.length))]
    protected = ", with a password" if told["has_password"] else ""
    rows.append(("digest", f"{told['digest'] or 'not stored'}{protected}"))
    if metadata.ctime is not None:
        rows.append(("created", moment(metadata.ctime)))
    rows += [(f"from {first:,}", printable(", ".join(names))) for first, names in metadata.segments.items()]
    rows += [(printable(name), printable(value)) for name, value in told["custom_metadata"].items()]
    show(facts(rows))


def moment(milliseconds: int) -> str:
    """A time as the metadata have it, for people; the number, where no calendar has it."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"


def as_text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def entry_json(entry: LedgerEntry) -> str:
    """An entry as a JSON object: the payload as text where it is UTF-8, else as base64."""
    fields: dict[str, object] = {"entry_id": entry.entry_id}
    try:
        fields["payload"] = entry.payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = base64.b64encode(entry.payload).decode()
    return json.dumps(fields)


@ledger.command()
@uri_argument
@ledger_argument
@click.option("--from", "first", type=number("id of an entry"), default="0", show_default=True, help="The first entry.")
@click.option("--to", "last", type=number("id of an entry"), help="The last entry. [default: the last confirmed one]")
@click.option("--unconfirmed", is_flag=True, help="Also entries that a recovery may still let go of.")
@password_option
@json_flag
def read(
    uri: str, ledger_id: int, first: int, last: int | None, unconfirmed: bool, password: str, as_json: bool
) -> None:
    """The payloads of the entries of the ledger ID, a newline behind each.

    The writer of a ledger that is open is left alone: what is confirmed so far is read.
    """
    with client_of(uri) as client, client.open_no_recovery(ledger_id, password=password.encode()) as reader:
        if unconfirmed:
            entries = reader.read_unconfirmed(first, last)
        elif last is None and first > reader.lac:
            entries = iter(())
        else:
            entries = reader.read(first, last)
        for entry in entries:
            if as_json:
                click.echo(entry_json(entry))
            else:
                sys.stdout.buffer.write(entry.payload + b"\n")
        sys.stdout.flush()
        if not reader.metadata.is_closed:
            state, lac = STATES[reader.metadata.state], reader.lac
            known = f"entry {lac} is the last" if lac >= 0 else "no entry is"
            click.echo(f"walkeeper: ledger {ledger_id} is {state}; {known} known to be confirmed", err=True)


@ledger.command()
@uri_argument
@click.option("--ensemble", "ensemble_size", type=click.IntRange(1), default=3, show_default=True, help="E: bookies.")
@click.option("--write-quorum", type=click.IntRange(1), help="Qw: copies of each entry. [default: E]")
@click.option(
    "--ack-quorum", type=click.IntRange(1), help="Qa: copies that confirm it. [default: more than half of Qw]"
)
@click.option("--digest", type=click.Choice(get_args(Digest)), default="crc32c", show_default=True)
@password_option
@json_flag
def write(
    uri: str,
    ensemble_size: int,
    write_quorum: int | None,
    ack_quorum: int | None,
    digest: Digest,
    password: str,
    as_json: bool,
) -> None:
    """Write the lines of the input to a new ledger, close it, and print its id. Each line is an entry.

    Each line is confirmed before more of the input is read. An entry has at most 5 MiB - 512 bytes.
    """
    if sys.stdin is None:
        raise Refusal("the input is closed: there is nothing to read")
    copies = write_quorum or ensemble_size
    with client_of(uri) as client:
        with client.create(
            ensemble_size=ensemble_size,
            write_quorum=copies,
            ack_quorum=ack_quorum or copies // 2 + 1,
            digest=digest,
            password=password.encode(),
        ) as writer:
            count = add_all(writer, line_batches(sys.stdin.buffer, PAYLOAD_MAX, "an entry"))
        told = row(writer.ledger_id, writer.metadata)
    if as_json:
        click.echo(json.dumps(told))
    else:
        click.echo(f"walkeeper: {counted(count, 'entry', 'entries')} written, and the ledger closed", err=True)
        click.echo(writer.ledger_id)


def add_all(writer: LedgerWriter, batches: Iterator[list[bytes]]) -> int:
    """Adds batch by batch, each confirmed before the next is read; says how far it came if it fails."""
    count = 0
    try:
        for batch in batches:
            count += len(writer.add_many(batch))
    except (Error, click.ClickException, KeyboardInterrupt):
        entries = counted(writer.lac + 1, "entry", "entries")
        click.echo(f"walkeeper: {entries} of ledger {writer.ledger_id} were confirmed before this", err=True)
        raise
    return count


@ledger.command()
@uri_argument
@ledger_argument
@password_option
@json_flag
def recover(uri: str, ledger_id: int, password: str, as_json: bool) -> None:
    """Find the end of the ledger ID, whose writer is gone, and close it there.

    A writer that is still there is fenced: it cannot go on. Of a ledger that is closed already its end is told.
    """
    with client_of(uri) as client, client.open(ledger_id, password=password.encode()) as reader:
        told = row(ledger_id, reader.metadata)
    if as_json:
        click.echo(json.dumps(told))
    else:
        click.echo(
            f"ledger {ledger_id} is closed: {counted(told['entries'], 'entry', 'entries')}, {size(told['bytes'])}"
        )


@ledger.command()
@uri_argument
@ledger_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(uri: str, ledger_id: int, yes: bool) -> None:
    """Delete the ledger ID with all of its entries.

    Its bookies give the space back when they next look which ledgers there are.
    """
    with client_of(uri) as client:
        try:
            state = STATES[client.metadata(ledger_id).state]
        except (CorruptError, UnsupportedError):
            state = "not to be read"
        if not yes:
            typed = click.prompt(f"Ledger {ledger_id}, which is {state}, will be lost. Type its id", err=True)
            if typed != str(ledger_id):
                raise Refusal("that is another id; nothing was deleted")
        client.delete(ledger_id)
    click.echo(f"ledger {ledger_id} is deleted")
