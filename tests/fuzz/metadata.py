"""Mutated metadata for its parsers: only MetadataError may come out, and what is read is written and read the same.

    python -m tests.fuzz.metadata [SECONDS] [SEED]

Prints the seed; a finding is a traceback, with the bytes.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

from walkeeper.metadata import Cookie, Layout, LedgerMetadata, LedgerState, MetadataError, ServiceInfo

BOOKIES = ("127.0.0.1:3181", "b.example:3182", "c_3")
OPEN = LedgerMetadata(3, 3, 3, {0: BOOKIES, 9: BOOKIES}, custom_metadata={"k": b"\0v"}, ctime=5, ctoken=6)
CLOSED = LedgerMetadata(3, 3, 3, {0: BOOKIES}, LedgerState.CLOSED, 100, 9, password=b'\t"\xff')
WORDS = [b"\t", b"\n", b'"', b"\\", b"{", b"}", b"[", b"]", b"#", b":", b"-1", b"0x", b"\xff" * 9, b"segment", b"\\400"]

Parser = tuple[Callable[[bytes], Any], Callable[[Any], bytes]]
METADATA: Parser = (LedgerMetadata.parse, lambda metadata: metadata.serialise(metadata.format_version))
COOKIE: Parser = (Cookie.parse, Cookie.serialise)
SEEDS: list[tuple[Parser, bytes]] = [
    *((METADATA, made.serialise(version)) for made in (OPEN, CLOSED) for version in (1, 2, 3)),
    (COOKIE, Cookie("b:1", ("/j", "/k"), ("/l", "/m"), "id", ("/i",)).serialise()),
    (COOKIE, b"3\nb:1\n/j\n1\t/l\n"),
    ((ServiceInfo.parse, ServiceInfo.serialise), ServiceInfo.of_bookie("127.0.0.1", 3181, tls=True).serialise()),
    ((Layout.parse, Layout.serialise), Layout().serialise()),
]


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The bytes after some changes."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        at = draw.randrange(len(out) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del out[at : at + draw.randrange(1, 9)]
        elif kind == 2:
            out[at:at] = draw.choice(WORDS)
        elif kind == 3:
            out[at:at] = draw.randbytes(draw.randrange(1, 9))
        else:
            end = draw.randrange(at, len(out) + 1)
            out[at:at] = out[at:end]
    return bytes(out)


def check(parser: Parser, data: bytes) -> bool:
    """Whether it was valid. AssertionError where it is read otherwise the second time."""
    parse, serialise = parser
    try:
        found = parse(data)
    except MetadataError:
        return False
    assert parse(serialise(found)) == found
    return True


def run(seed: int, goes_on: Callable[[int], bool]) -> int:
    """How many of the texts were valid."""
    draw = random.Random(seed)
    count = valid = 0
    while goes_on(count):
        parser, data = draw.choice(SEEDS)
        data = mutated(data, draw)
        try:
            valid += check(parser, data)
        except BaseException:
            print(f"seed {seed}, text {count}: {data!r}", file=sys.stderr)
            raise
        count += 1
    print(f"seed {seed}: {count} texts, {valid} of them valid")
    return valid


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    end = time.monotonic() + seconds
    run(int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns(), lambda _: time.monotonic() < end)


if __name__ == "__main__":
    main()
