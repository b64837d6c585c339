"""
One cell: one INSERT a transaction into SQLite in WAL mode with synchronous=FULL. --tuned 1: exclusive locking and
rare checkpoints.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from pathlib import Path

from common import cpu_seconds, payload_of, report


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--tuned", type=int, default=0)
    arguments = parser.parse_args()
    database = sqlite3.connect(Path(arguments.dir) / "peer.db", isolation_level=None)
    if arguments.tuned:
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
        database.execute("PRAGMA page_size=4096")
    assert database.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    database.execute("PRAGMA synchronous=FULL")
    if arguments.tuned:
        database.execute("PRAGMA wal_autocheckpoint=4000")
        database.execute("PRAGMA cache_size=-65536")
    database.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
    payload, samples = payload_of(arguments.size), []
    # Past the first checkpoints the WAL file is written over, not extended: the peer's steady state.
    for _ in range(9000 if arguments.tuned else 2500):
        database.execute("INSERT INTO log (payload) VALUES (?)", (payload,))
    now = time.perf_counter_ns
    cpu, start = cpu_seconds(), now()
    end = start + int(arguments.seconds * 1e9)
    before = start
    while before < end:
        database.execute("INSERT INTO log (payload) VALUES (?)", (payload,))
        after = now()
        samples.append(after - before)
        before = after
    report(samples, len(samples), start, cpu, arguments.size)
    database.close()


if __name__ == "__main__":
    main()
