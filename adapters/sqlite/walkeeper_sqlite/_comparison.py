"""What a database file has that a restored one has not."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

__all__ = ["different_pages", "integrity_findings"]

_PAGES_AT_ONCE = 256
_FINDINGS_MAX = 20


def different_pages(file: str | os.PathLike[str], other: str | os.PathLike[str], page_size: int) -> Iterator[int]:
    """The numbers of the pages, from 1, that are not the same bytes, or that only one of the two has."""
    at_once = _PAGES_AT_ONCE * page_size
    number = 1
    with open(file, "rb") as one, open(other, "rb") as two:
        while True:
            ours, theirs = one.read(at_once), two.read(at_once)
            if not ours and not theirs:
                return
            if ours != theirs:
                for at in range(0, max(len(ours), len(theirs)), page_size):
                    if ours[at : at + page_size] != theirs[at : at + page_size]:
                        yield number + at // page_size
            number += _PAGES_AT_ONCE


def integrity_findings(file: Path) -> list[str]:
    """What PRAGMA integrity_check says of a database that nobody has open; empty where it says ok."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)) as connection:
            rows = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_FINDINGS_MAX})")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if rows == ["ok"] else rows
