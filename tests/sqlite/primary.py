"""A process that writes rows to a database until it is killed or refused: primary.py METADATA NAMESPACE FILE.

It says `at N` for the last row that it found, `ok N` behind each commit that returned, and `refused …` where one does
not.
"""

from __future__ import annotations

import sqlite3
import sys

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import Error


def write(metadata: str, namespace: str, file: str) -> None:
    with walkeeper.open(metadata, namespace=namespace) as ns:
        database = walkeeper_sqlite.attach(file, ns.log("app"))
        connection = database.connect(isolation_level=None)
        connection.execute("PRAGMA wal_autocheckpoint=30")
        connection.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
        last = connection.execute("SELECT coalesce(max(id), 0) FROM t").fetchone()[0]
        print(f"at {last}", flush=True)
        while True:
            last += 1
            connection.execute("INSERT INTO t(id, x) VALUES(?, randomblob(100))", (last,))
            print(f"ok {last}", flush=True)


if __name__ == "__main__":
    try:
        write(*sys.argv[1:])
    except (sqlite3.Error, Error) as error:
        print(f"refused {error}", flush=True)
