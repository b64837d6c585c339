"""A random life of a database, by a seed: transactions, savepoints, spills, checkpoints, VACUUM, other connections."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from dataclasses import dataclass, field

import walkeeper_sqlite

PAGE_SIZES = (512, 1024, 2048, 4096, 4096, 4096, 8192, 32768, 65536)
CHECKPOINTS = ("PASSIVE", "FULL", "RESTART", "TRUNCATE")


def content_of(connection: sqlite3.Connection) -> str:
    """A digest of schema and rows."""
    digest = hashlib.sha256()
    tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    digest.update(repr(tables).encode())
    for name, _ in tables:
        if name.startswith("t"):
            for row in connection.execute(f"SELECT * FROM {name} ORDER BY 1"):
                digest.update(repr(row).encode())
    return digest.hexdigest()


@dataclass
class Life:
    """One life. `marks` has what a connection saw behind some commits, by their LSN."""

    database: walkeeper_sqlite.Database
    seed: int
    steps: int = 40
    exclusive: bool = True
    vacuum: bool = True
    marks: dict[int, str] = field(default_factory=dict)
    tables: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.connection = self._connect()
        self._set_up()

    def _connect(self) -> sqlite3.Connection:
        connection = self.database.connect(isolation_level=None, timeout=5, check_same_thread=False)
        synchronous = self.random.choice(("FULL", "NORMAL", "OFF", "EXTRA"))
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute(f"PRAGMA cache_size={self.random.choice((1, 5, 20, 2000))}")
        connection.execute(f"PRAGMA wal_autocheckpoint={self.random.choice((0, 3, 10, 1000))}")
        if self.random.random() < 0.15 and self.exclusive:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        return connection

    def _set_up(self) -> None:
        vacuum = self.random.choice(("NONE", "NONE", "FULL", "INCREMENTAL"))
        if vacuum != "NONE":
            self.connection.execute(f"PRAGMA auto_vacuum={vacuum}")
            self.connection.execute("VACUUM")
        self._table()

    def _table(self) -> None:
        name = f"t{self.tables}"
        without = " WITHOUT ROWID" if self.random.random() < 0.2 else ""
        self.connection.execute(f"CREATE TABLE {name}(id INTEGER PRIMARY KEY, a, b BLOB){without}")
        if self.random.random() < 0.5:
            self.connection.execute(f"CREATE INDEX i{self.tables} ON {name}(a)")
        self.tables += 1

    def live(self) -> None:
        for _ in range(self.steps):
            self._step()
        self.connection.close()

    def _step(self) -> None:
        chance = self.random.random()
        if chance < 0.72:
            self._transaction()
        elif chance < 0.84:
            mode = self.random.choice(CHECKPOINTS)
            self.connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        elif chance < 0.88 and self.vacuum:
            self.connection.execute("VACUUM")
        elif chance < 0.91 and self.tables < 6:
            self._table()
        elif chance < 0.93:
            self.connection.execute("PRAGMA incremental_vacuum(3)").fetchall()
        elif chance < 0.96:
            self.connection.close()
            self.connection = self._connect()
        else:
            self._mark()

    def _mark(self) -> None:
        self.marks[walkeeper_sqlite.last_lsn(self.connection)] = content_of(self.connection)

    def _transaction(self) -> None:
        if self.random.random() < 0.3:
            self._change()
            return
        self.connection.execute(self.random.choice(("BEGIN", "BEGIN IMMEDIATE")))
        depth = 0
        for _ in range(self.random.randrange(1, 8)):
            chance = self.random.random()
            if chance < 0.2:
                self.connection.execute(f"SAVEPOINT s{depth}")
                depth += 1
            elif chance < 0.35 and depth > 0:
                depth = self.random.randrange(depth) + 1
                self.connection.execute(f"ROLLBACK TO s{depth - 1}")
            elif chance < 0.4 and depth > 0:
                depth = self.random.randrange(depth)
                self.connection.execute(f"RELEASE s{depth}")
            else:
                self._change()
        self.connection.execute("ROLLBACK" if self.random.random() < 0.15 else "COMMIT")

    def _change(self) -> None:
        name = f"t{self.random.randrange(self.tables)}"
        rows, size = self.random.randrange(1, 30), self.random.choice((10, 100, 100, 900, 5000))
        low = self.random.randrange(400)
        chance = self.random.random()
        if chance < 0.55:
            values = [(low + i, self.random.randrange(1000), self.random.randbytes(size)) for i in range(rows)]
            self.connection.executemany(f"INSERT OR REPLACE INTO {name} VALUES(?, ?, ?)", values)
        elif chance < 0.8:
            update = f"UPDATE {name} SET a = a + 1, b = ? WHERE id BETWEEN ? AND ?"
            self.connection.execute(update, (self.random.randbytes(size), low, low + rows))
        else:
            self.connection.execute(f"DELETE FROM {name} WHERE id BETWEEN ? AND ?", (low, low + 4 * rows))
