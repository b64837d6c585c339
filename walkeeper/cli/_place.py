"""Places in a log, as the command line writes them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import click

from walkeeper import DLSN
from walkeeper._options import INT64_MAX

FORMS = "start, end, a sequence id, txid:N, time:2024-05-01T12:00 or dlsn:SEGMENT,ENTRY,SLOT"


def place(value: str) -> dict[str, Any]:
    """The keywords of Log.reader for one of FORMS. A time without a zone is local. Raises click.BadParameter."""
    kind, _, rest = value.partition(":")
    try:
        if value in ("start", "end"):
            return {"start": value}
        if not rest:
            return {"sequence_id": natural(kind)}
        if kind == "txid":
            return {"txid": natural(rest)}
        if kind == "time":
            moment = datetime.fromisoformat(rest.replace("Z", "+00:00"))
            return {"time": moment if moment.tzinfo else moment.astimezone()}
        if kind == "dlsn":
            segment, entry_id, slot = map(natural, rest.split(","))
            return {"start": DLSN(segment, entry_id, slot)}
    except (OverflowError, ValueError):
        pass
    raise click.BadParameter(f"{value!r} is no place in a log; it is one of {FORMS}")


def first_to_keep(value: str) -> int | None:
    """A sequence id; None for "end". Raises click.BadParameter."""
    try:
        return None if value == "end" else natural(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no place to truncate at; it is a sequence id, or end") from None


def count(value: str) -> int:
    """How many records. Raises click.BadParameter; of +N, which tail(1) takes for a place, it says what does that."""
    try:
        return natural(value)
    except ValueError:
        pass
    if value.startswith("+"):
        raise click.BadParameter(f"{value!r} is no count; `walkeeper cat --from` begins with a certain record")
    raise click.BadParameter(f"{value!r} is no count of records")


def natural(digits: str) -> int:
    """A number that a log can store, in the ten digits. Raises ValueError."""
    if not re.fullmatch("[0-9]{1,19}", digits) or int(digits) > INT64_MAX:
        raise ValueError(digits)
    return int(digits)
