"""A client in a process of its own, which appends to a log or follows it, and notes in a file what it was told.

    python history_client.py write|follow URI NAMESPACE WHO NOTES

A line of NOTES is "SEQUENCE_ID PAYLOAD". A writer notes a record once its append was acknowledged, and ends with
status 3 where another writer has the log. What it notes is in the page cache at once: SIGKILL takes nothing of it away.
"""

from __future__ import annotations

import os
import sys
import time

import walkeeper

LOG = "orders"
SEGMENT_BYTES = 40_000
FENCED = 3


def note(file: int, sequence_id: int, payload: bytes) -> None:
    os.write(file, b"%d %s\n" % (sequence_id, payload))


def write(uri: str, namespace: str, who: str, notes: int) -> int:
    number = 0
    while True:
        try:
            with (
                walkeeper.open(uri, namespace=namespace) as ns,
                ns.log(LOG, segment_bytes=SEGMENT_BYTES).writer() as writer,
            ):
                while True:
                    payloads = [b"%s-%d-%s" % (who.encode(), number + one, b"." * 100) for one in range(number % 9 + 1)]
                    number += len(payloads)
                    futures = [writer.submit(payload) for payload in payloads]
                    for payload, future in zip(payloads, futures, strict=True):
                        note(notes, future.result(timeout=60).sequence_id, payload)
        except walkeeper.FencedError:  # noqa: PERF203
            return FENCED
        except walkeeper.UnavailableError as error:
            told(who, error)


def follow(uri: str, namespace: str, who: str, notes: int) -> int:
    following = 0
    while True:
        try:
            with (
                walkeeper.open(uri, namespace=namespace, read_only=True) as ns,
                ns.log(LOG).reader(sequence_id=following, follow=True) as reader,
            ):
                for record in reader:
                    note(notes, record.position.sequence_id, bytes(record.payload))
                    following = record.position.sequence_id + 1
        except walkeeper.UnavailableError as error:  # noqa: PERF203
            told(who, error)


def told(who: str, error: walkeeper.Error) -> None:
    print(f"{who}: {error!r}", flush=True)
    time.sleep(0.05)


def main() -> int:
    what, uri, namespace, who, path = sys.argv[1:]
    notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return (write if what == "write" else follow)(uri, namespace, who, notes)


if __name__ == "__main__":
    sys.exit(main())
