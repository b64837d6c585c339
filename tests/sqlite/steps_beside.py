"""Transactions over two databases of a log, which another process ends or fails at any call: steps_beside.py FOLDER.

Says `ok N` behind each commit of row N that returned, and `failed` behind one that did not.
"""

from __future__ import annotations

import sqlite3
import sys

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import Error


def insert(connection: sqlite3.Connection, number: int, size: int) -> None:
    """In the schemas main and audit."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO main.t VALUES(?, randomblob(?))", (number, size))
        connection.execute("INSERT INTO audit.t VALUES(?, randomblob(?))", (number, size // 2))
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        print(f"failed {number} {error}", flush=True)
        if connection.in_transaction:
            connection.rollback()
    else:
        print(f"ok {number}", flush=True)


def main(folder: str) -> None:
    with walkeeper.open(folder + "/wal") as ns:
        for begin in (1, 101):
            with (
                walkeeper_sqlite.attach(folder + "/app.db", ns.log("app"), acknowledge="group") as app,
                app.attach(folder + "/app-audit.db", "audit") as audit,
            ):
                connection = app.connect(isolation_level=None)
                connection.execute("ATTACH ? AS audit", (audit.uri,))
                connection.execute("PRAGMA main.cache_size=1")
                if begin == 1:
                    connection.execute("CREATE TABLE main.t(id INTEGER PRIMARY KEY, x)")
                    connection.execute("CREATE TABLE audit.t(id INTEGER PRIMARY KEY, x)")
                for number in range(begin, begin + 3):
                    insert(connection, number, 100 if number % 2 else 9000)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                insert(connection, begin + 3, 12_000)
                connection.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (sqlite3.Error, Error) as error:
        print(f"ended {error}", flush=True)
