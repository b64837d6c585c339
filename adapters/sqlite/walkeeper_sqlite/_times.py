"""Points in time and spans, as people write them on the command line, and as it shows them."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

import click

from walkeeper.cli._place import natural

__all__ = ["floor_of", "moment", "point", "span"]

POINTS = '4711, "10 minutes ago", 14:03, "yesterday 14:03", 2024-05-01T12:00 or 2024-05-01T12:00+02:00'

_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_SPAN = re.compile(
    r"([0-9]{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?|w|weeks?)", re.ASCII | re.IGNORECASE
)
_CLOCK = re.compile(r"(?:(today|yesterday)\s+)?([0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{3})?)?)", re.ASCII)


def point(value: str) -> int | datetime:
    """An LSN, or a time with a zone; without one it is local. Raises click.BadParameter."""
    try:
        return natural(value) if value.isdigit() else _time_of(value.strip(), datetime.now().astimezone())
    except (OverflowError, ValueError):
        raise click.BadParameter(f"{value!r} is no LSN, and no time; those are like {POINTS}") from None


def span(value: str) -> timedelta:
    """Like 1m, or "10 minutes". Raises click.BadParameter."""
    match = _SPAN.fullmatch(value.strip())
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is no span of time; those are like 30s, 1m, 6h, 1d or 2w")
    return int(match[1]) * _UNITS[match[2][0].lower()]


def _time_of(value: str, now: datetime) -> datetime:
    """Raises ValueError, OverflowError. A time of day alone is the last one that was."""
    if value.endswith(" ago") and (match := _SPAN.fullmatch(value[:-4].rstrip())) is not None:
        return now - int(match[1]) * _UNITS[match[2][0].lower()]
    if (match := _CLOCK.fullmatch(value)) is not None:
        day = now.date() - timedelta(days=match[1] == "yesterday")
        clock = time.fromisoformat(match[2].rjust(len(match[2]) + (match[2].index(":") == 1), "0"))
        found = datetime.combine(day, clock).astimezone()
        if match[1] is None and found > now:
            found = datetime.combine(day - timedelta(days=1), clock).astimezone()
        return found
    found = datetime.fromisoformat(value.replace("Z", "+00:00"))
    return found if found.tzinfo else found.astimezone()


def moment(milliseconds: int) -> str:
    """A local time with its zone, as `point` takes it."""
    try:
        found = datetime.fromtimestamp(milliseconds // 1000).astimezone()
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"
    return found.replace(microsecond=milliseconds % 1000 * 1000).isoformat(timespec="milliseconds")


def floor_of(milliseconds: int, width: timedelta) -> int:
    """Where the span begins that the time lies in, of spans that a local day begins with."""
    zone = datetime.fromtimestamp(milliseconds // 1000).astimezone().utcoffset() or timedelta(0)
    offset, size = zone // timedelta(milliseconds=1), width // timedelta(milliseconds=1)
    return (milliseconds + offset) // size * size - offset
