"""What the ingesting process tells the one that kills it: messages of one fixed size through a pipe.

A message is far smaller than PIPE_BUF, so it arrives whole or not at all, whenever the sender is killed; what was in
the pipe is still there to be read afterwards.
"""

from __future__ import annotations

import enum
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

LAYOUT = struct.Struct("<BBxxIqqq")


class Kind(enum.IntEnum):
    """What happened."""

    OPENED = 1  # the directory is open; elapsed_ns is what opening (with recovery) took
    FOUND = 2  # this log held `total` records when it was opened
    ACKNOWLEDGED = 3  # one append of `count` records returned: `total` records of the log are durable
    FINISHED = 4  # everything is ingested and the directory closed in order


@dataclass(frozen=True)
class Message:
    kind: Kind
    log: int  # index into source.sources()
    count: int
    total: int
    at_ns: int  # CLOCK_MONOTONIC, the same in all processes
    elapsed_ns: int


def send(pipe: int, message: Message) -> None:
    """Writes the message whole; blocks while the pipe is full."""
    fields = (message.kind, message.log, message.count, message.total, message.at_ns, message.elapsed_ns)
    os.write(pipe, LAYOUT.pack(*fields))


def decode(buffer: bytearray) -> Iterator[Message]:
    """Takes the whole messages from the front of `buffer`."""
    whole = len(buffer) // LAYOUT.size * LAYOUT.size
    for kind, log, count, total, at_ns, elapsed_ns in LAYOUT.iter_unpack(bytes(buffer[:whole])):
        yield Message(Kind(kind), log, count, total, at_ns, elapsed_ns)
    del buffer[:whole]
