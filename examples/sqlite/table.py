"""The table of flights."""

from __future__ import annotations

COLUMNS = ["month", "day", "carrier", "origin", "dest", "arr_delay", "distance"]
SCHEMA = """CREATE TABLE IF NOT EXISTS flights(
    id INTEGER PRIMARY KEY, month INTEGER, day INTEGER, carrier TEXT, origin TEXT, dest TEXT, arr_delay INTEGER,
    distance INTEGER)"""
INSERT = "INSERT INTO flights VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
