"""A machine that inserts the flights into its database until all are there: ingest.py METADATA FILE.

It says `at N` for the flights that it found, `ok N LSN TIME` behind each COMMIT that returned, `all` in the end, and
`refused …` where a COMMIT does not return well.
"""

from __future__ import annotations

import sqlite3
import sys
import time

from table import INSERT, SCHEMA

import walkeeper
import walkeeper_sqlite

PIECE = 500
"""Flights that one transaction inserts."""


def insert(connection: sqlite3.Connection, done: int) -> None:
    from flights import rows  # pandas takes seconds to load, and a failover does not wait for it

    flights = rows()
    for first in range(done, len(flights), PIECE):
        piece = flights[first : first + PIECE]
        connection.execute("BEGIN")
        connection.executemany(INSERT, piece)
        connection.execute("COMMIT")  # returns when two of three bookies have it on their disks
        lsn = walkeeper_sqlite.last_lsn(connection)
        print(f"ok {first + len(piece)} {lsn} {time.monotonic()}", flush=True)
    print("all", flush=True)


def ingest(metadata: str, file: str) -> None:
    with walkeeper.open(metadata) as namespace, walkeeper_sqlite.attach(file, namespace.log("flights")) as database:
        connection = database.connect(isolation_level=None)
        connection.execute(SCHEMA)
        (done,) = connection.execute("SELECT count(*) FROM flights").fetchone()
        print(f"at {done}", flush=True)
        try:
            insert(connection, done)
        except sqlite3.Error as error:
            status = database.status()
            print(f"refused {error} ({status.state}: {status.reason})", flush=True)
        connection.close()


if __name__ == "__main__":
    ingest(*sys.argv[1:])
