"""A process that writes rows to a database until it is killed or refused:

    primary.py METADATA NAMESPACE FILE strict|group

Some rows take several records, and now and then it takes a snapshot. It says `at N` for the last row that it found,
`ok N` behind each commit that returned, `failed N STATE` behind one that did not, `ended STATE` once the database is
not open any more, and `refused …` for the commit behind that.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import suppress
from typing import Literal

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import Error

ADD_TIMEOUT_S = 0.5
LARGE, SNAPSHOT = 50, 80
"""Each row of so many."""


def insert(connection: sqlite3.Connection, number: int) -> None:
    size = 100 if number % LARGE else 1_200_000
    connection.execute("INSERT INTO t(id, x) VALUES(?, randomblob(?))", (number, size))


def write(metadata: str, namespace: str, file: str, acknowledge: Literal["strict", "group"]) -> None:
    with walkeeper.open(metadata, namespace=namespace, add_timeout=ADD_TIMEOUT_S) as ns:
        database = walkeeper_sqlite.attach(file, ns.log("app"), acknowledge=acknowledge)
        connection = database.connect(isolation_level=None)
        connection.execute("PRAGMA wal_autocheckpoint=30")
        connection.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
        last = connection.execute("SELECT coalesce(max(id), 0) FROM t").fetchone()[0]
        print(f"at {last}", flush=True)
        while database.status().state == "open":
            last += 1
            try:
                insert(connection, last)
                print(f"ok {last}", flush=True)
            except sqlite3.OperationalError:
                print(f"failed {last} {database.status().state}", flush=True)
            if last % SNAPSHOT == 0:
                with suppress(sqlite3.Error, Error):
                    database.snapshot()
        print(f"ended {database.status().state}", flush=True)
        insert(connection, last + 1)


if __name__ == "__main__":
    try:
        write(sys.argv[1], sys.argv[2], sys.argv[3], "group" if sys.argv[4] == "group" else "strict")
    except (sqlite3.Error, Error) as error:
        print(f"refused {error}", flush=True)
