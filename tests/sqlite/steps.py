"""A few commits, checkpoints and a reopening, which another process ends or fails at any call: steps.py FOLDER.

Says `attached` in the beginning and behind the reopening, `ok N` behind each commit of row N that returned, and
`failed N STATE ERROR` behind one that did not.
"""

from __future__ import annotations

import sqlite3
import sys

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import Error


def insert(database: walkeeper_sqlite.Database, connection: sqlite3.Connection, number: int, size: int) -> None:
    try:
        connection.execute("INSERT INTO t VALUES(?, randomblob(?))", (number, size))
    except sqlite3.Error as error:
        print(f"failed {number} {database.status().state} {error}", flush=True)
        if connection.in_transaction:
            connection.rollback()
    else:
        print(f"ok {number}", flush=True)


def main(folder: str) -> None:
    with walkeeper.open(folder + "/wal") as ns:
        for begin in (1, 101):
            with walkeeper_sqlite.attach(folder + "/app.db", ns.log("app")) as database:
                print("attached", flush=True)
                connection = database.connect(isolation_level=None)
                connection.execute("PRAGMA cache_size=1")
                if begin == 1:
                    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
                for number in range(begin, begin + 3):
                    insert(database, connection, number, 100 if number % 2 else 9000)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                insert(database, connection, begin + 3, 20_000)
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                insert(database, connection, begin + 4, 100)
                connection.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (sqlite3.Error, Error) as error:
        print(f"ended {error}", flush=True)
