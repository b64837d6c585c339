"""The process that is killed: appends what the directory does not hold yet, each append durable before it is reported.

It keeps no state of its own. Where to go on is what the log says: `writer.next_sequence_id` is the index of the next
line of the source.

usage: ingest.py DIRECTORY PIPE ROWS_MAX        (started by run.py; PIPE is an open descriptor; ROWS_MAX 0 means all)
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from messages import Kind, Message, send
from source import Source, sources

import walkeeper

BATCH_RECORDS = 64  # one append_many ...
SINGLE_RECORDS = 16  # ... and then so many lone appends, so that both ways are in the run


def ingest_log(namespace: walkeeper.Namespace, index: int, source: Source, pipe: int) -> None:
    """Appends the rest of one log; reports each append once it is durable."""
    with namespace.log(source.log).writer() as writer:
        done = writer.next_sequence_id
        send(pipe, Message(Kind.FOUND, index, 0, done, time.monotonic_ns(), 0))
        singles_left = 0
        while done < len(source.records):
            began = time.monotonic_ns()
            if singles_left == 0:
                count = writer.append_many(source.records[done : done + BATCH_RECORDS]).count
                singles_left = SINGLE_RECORDS
            else:
                writer.append(source.records[done], expected=done)
                count = 1
                singles_left -= 1
            ended = time.monotonic_ns()
            done += count
            send(pipe, Message(Kind.ACKNOWLEDGED, index, count, done, ended, ended - began))


def main(directory: str, pipe: int, rows_max: int) -> None:
    logs = sources(rows_max or None)
    began = time.monotonic_ns()
    with walkeeper.open(directory) as namespace:
        opened = time.monotonic_ns()
        send(pipe, Message(Kind.OPENED, 0, 0, 0, opened, opened - began))
        for index, source in enumerate(logs):
            ingest_log(namespace, index, source, pipe)
    send(pipe, Message(Kind.FINISHED, 0, 0, 0, time.monotonic_ns(), 0))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
