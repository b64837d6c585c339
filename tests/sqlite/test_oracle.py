"""The log against the file: what the log's records make is the database, byte for byte, whatever SQL there was."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlite.random_sql import PAGE_SIZES, Life, content_of

import walkeeper
import walkeeper_sqlite

DATABASES = int(os.environ.get("WALKEEPER_SQLITE_DATABASES", "300"))
SHARES = 6
IN_ONE_DIRECTORY = 20
SEED = int(os.environ.get("WALKEEPER_TEST_SEED", "0")) or random.randrange(1, 1 << 32)


def live_and_compare(folder: Path, ns: walkeeper.Namespace, seed: int) -> int:
    """Returns how many commits SQLite would have lost."""
    log, file, again = ns.log(f"log-{seed}"), folder / f"{seed}.db", folder / f"{seed}-again.db"
    page_size = random.Random(seed).choice(PAGE_SIZES)
    with walkeeper_sqlite.attach(file, log, page_size=page_size) as database:
        life = Life(database, seed)
        life.live()
        status = database.status()
    assert status.state == "open"
    restored = walkeeper_sqlite.restore(log, again)
    assert restored.lsn == status.lsn
    assert again.read_bytes() == file.read_bytes()
    for lsn, content in random.Random(seed).sample(sorted(life.marks.items()), min(2, len(life.marks))):
        then = folder / f"{seed}-{lsn}.db"
        assert walkeeper_sqlite.restore(log, then, to=lsn).lsn == lsn
        connection = sqlite3.connect(then)
        assert content_of(connection) == content
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
        then.unlink()
    file.unlink()
    again.unlink()
    return status.healed


@pytest.mark.parametrize("share", range(SHARES))
def test_the_log_makes_the_file_byte_for_byte(tmp_path: Path, share: int) -> None:
    numbers = range(share, DATABASES, SHARES)
    for first in range(0, len(numbers), IN_ONE_DIRECTORY):
        with walkeeper.open(tmp_path / "wal") as ns:
            for number in numbers[first : first + IN_ONE_DIRECTORY]:
                seed = SEED + number
                try:
                    live_and_compare(tmp_path, ns, seed)
                except BaseException:
                    print(f"WALKEEPER_TEST_SEED={seed} WALKEEPER_SQLITE_DATABASES=1")
                    raise
        shutil.rmtree(tmp_path / "wal")
