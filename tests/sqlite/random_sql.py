"""A random life of a database, by a seed: transactions, savepoints, spills, checkpoints, VACUUM, backups, attached
databases, and connections that write in turn while another one reads."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from dataclasses import dataclass, field

import walkeeper_sqlite

PAGE_SIZES = (512, 1024, 2048, 4096, 4096, 4096, 8192, 32768, 65536)
PRAGMAS = (
    *("synchronous=FULL", "synchronous=NORMAL", "synchronous=OFF", "synchronous=EXTRA"),
    *("cache_size=1", "cache_size=5", "cache_size=20", "cache_size=2000"),
    *("wal_autocheckpoint=0", "wal_autocheckpoint=3", "wal_autocheckpoint=10", "wal_autocheckpoint=1000"),
    *("mmap_size=0", "mmap_size=1000000", "cache_spill=OFF", "cache_spill=ON", "temp_store=MEMORY"),
    *("secure_delete=OFF", "secure_delete=ON", "secure_delete=FAST"),
)
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
    of_python: bool = True
    """By connections of the module sqlite3: several of them, with backups and attached databases."""
    marks: dict[int, str] = field(default_factory=dict)
    tables: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.several = self.random.random() < 0.5 and self.of_python
        self.exclusive = self.exclusive and not self.several
        self.connection = self._connect()
        self.others = [self._connect() for _ in range(2)] if self.several else []
        self.reader: sqlite3.Connection | None = None
        self.read = ""
        """What the reader saw when it began."""
        self._set_up()

    def _connect(self) -> sqlite3.Connection:
        connection = self.database.connect(isolation_level=None, timeout=5, check_same_thread=False)
        for pragma in self.random.sample(PRAGMAS, 8):
            connection.execute(f"PRAGMA {pragma}").fetchall()
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
        self._end_reading()
        for connection in (*self.others, self.connection):
            connection.close()

    def _step(self) -> None:
        if self.several:
            self.others.append(self.connection)
            self.connection = self.others.pop(self.random.randrange(len(self.others)))
        chance = self.random.random()
        if chance < 0.66:
            self._transaction()
        elif chance < 0.78:
            self._checkpoint()
        elif chance < 0.82 and self.vacuum:
            self._vacuum()
        elif chance < 0.85 and self.tables < 6:
            self._table()
        elif chance < 0.87:
            self.connection.execute("PRAGMA incremental_vacuum(3)").fetchall()
        elif chance < 0.9:
            self.connection.close()
            self.connection = self._connect()
        elif chance < 0.91 and self.of_python:
            self._drop_table()
        elif chance < 0.92 and self.vacuum and self.of_python:
            self._back_up_into_it()
        elif chance < 0.93 and self.of_python:
            self._write_with_another()
        elif chance < 0.96 and self.several:
            self._begin_reading() if self.reader is None else self._end_reading()
        else:
            self._mark()

    def _mark(self) -> None:
        self.marks[walkeeper_sqlite.last_lsn(self.connection)] = content_of(self.connection)

    def _checkpoint(self) -> None:
        """It does what it can where a reader is in its way."""
        if self.reader is not None:
            self.connection.execute("PRAGMA busy_timeout=0").fetchall()
        self.connection.execute(f"PRAGMA wal_checkpoint({self.random.choice(CHECKPOINTS)})").fetchall()
        self.connection.execute("PRAGMA busy_timeout=5000").fetchall()

    def _vacuum(self) -> None:
        if self.random.random() < 0.3:
            self.connection.execute(f"PRAGMA page_size={self.random.choice(PAGE_SIZES)}")  # which stays as it is
        if self.random.random() < 0.3:
            self.connection.execute(f"PRAGMA auto_vacuum={self.random.choice(('NONE', 'FULL', 'INCREMENTAL'))}")
        self.connection.execute("VACUUM")

    def _drop_table(self) -> None:
        """And made anew, with the pages of others."""
        name = f"t{self.random.randrange(self.tables)}"
        (sql,) = self.connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        for statement in ("BEGIN", f"DROP TABLE {name}", sql, "COMMIT"):
            self.connection.execute(statement)

    def _back_up_into_it(self) -> None:
        """A copy that changed is written over the database, by pages."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.backup(copy)
        copy.execute("UPDATE t0 SET a = 7")
        copy.backup(self.connection)
        copy.close()

    def _write_with_another(self) -> None:
        """One transaction over two databases, of which the other one is without a log."""
        self.connection.execute("ATTACH ':memory:' AS other")
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("CREATE TABLE other.u(id, a)")
        self.connection.execute("INSERT INTO other.u SELECT id, a FROM t0")
        self._change()
        self.connection.execute("UPDATE t0 SET a = (SELECT max(a) FROM other.u) WHERE id % 3 = 0")
        self.connection.execute(self.random.choice(("COMMIT", "COMMIT", "ROLLBACK")))
        self.connection.execute("DETACH other")

    def _begin_reading(self) -> None:
        self.reader = self._connect()
        self.reader.execute("BEGIN")
        self.read = content_of(self.reader)

    def _end_reading(self) -> None:
        """It has seen nothing of what was committed meanwhile."""
        if self.reader is not None:
            assert content_of(self.reader) == self.read
            self.reader.close()
            self.reader = None

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
        if self.random.random() < 0.01:
            size = 100_000  # more than a record
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
