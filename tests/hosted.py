"""Hosted ledgers and long polls through the native library: what the specs and the random tests of machines share."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from typing import Any

from tests.core_lib import ffi, lib

DIGESTS = {
    lib.WK_DIGEST_UNKNOWN: "unknown",
    lib.WK_DIGEST_CRC32: "CRC32",
    lib.WK_DIGEST_CRC32C: "CRC32C",
    lib.WK_DIGEST_DUMMY: "none",
}
HEADER = b"".join(number.to_bytes(8, "big", signed=True) for number in (1, 0, -1, 5))


def entry(digest: str) -> bytes:
    """An entry with this digest: CRC32C, CRC32, MAC or none; `damaged`: a CRC32C that is wrong; `short`: no payload."""
    if digest == "MAC":
        return HEADER + hmac.new(b"key", HEADER + b"hello", hashlib.sha1).digest() + b"hello"
    if digest == "none":
        return HEADER + b"hello"
    if digest == "short":
        return HEADER + b"abc"
    number, width = (lib.WK_DIGEST_CRC32, 8) if digest == "CRC32" else (lib.WK_DIGEST_CRC32C, 4)
    data = bytearray(HEADER + bytes(width) + b"hello")
    lib.wk_wire_digest_put(ffi.from_buffer("uint8_t[]", data), len(data), number)
    if digest == "damaged":
        data[-1] ^= 1
    return bytes(data)


class Table:
    """wk_hosted_ledgers with its memory. Methods answer statuses."""

    def __init__(self, capacity: int) -> None:
        self.table, self.room = ffi.new("wk_hosted_ledgers *"), ffi.new("wk_hosted_ledger[]", capacity)
        self.status = lib.wk_hosted_init(self.table, self.room, capacity)

    def seed(self, seed: int) -> int:
        return int(lib.wk_hosted_seed(self.table, seed))

    def put(self, ledger_id: int) -> int:
        return int(lib.wk_hosted_put(self.table, ledger_id, ffi.new("wk_hosted_ledger **")))

    def find(self, ledger_id: int) -> Any:
        """None where nothing is kept of it."""
        found = lib.wk_hosted_find(self.table, ledger_id)
        return None if found == ffi.NULL else found

    def grow(self, capacity: int) -> int:
        room, old = ffi.new("wk_hosted_ledger[]", capacity), ffi.new("wk_hosted_ledger **")
        status = int(lib.wk_hosted_grow(self.table, room, capacity, old))
        if status == lib.WK_OK:
            assert old[0] == self.room
            ffi.buffer(self.room)[:] = b"\xee" * ffi.sizeof(self.room)  # nobody looks there again
            self.room = room
        return status

    def remove(self, ledger_id: int) -> int:
        return int(lib.wk_hosted_remove(self.table, ledger_id))

    def rise(self, ledger_id: int, lac: int, wall_ms: int) -> bool:
        return bool(lib.wk_hosted_raise(self.find(ledger_id), lac, wall_ms))

    def accepts(self, ledger_id: int, digest: str) -> bool:
        data = entry(digest)
        return bool(lib.wk_hosted_verify(self.find(ledger_id), data, len(data)) == lib.WK_DIGEST_ACCEPT)

    def ids(self) -> list[int]:
        slots = (self.table.slots[at].ledger_id for at in range(self.table.capacity))
        return sorted(ledger_id for ledger_id in slots if ledger_id != -1)


class Polls:
    """wk_polls with its memory, its ledgers (made when they are named first) and its owners."""

    def __init__(self, capacity: int) -> None:
        self.polls = ffi.new("wk_polls *")
        self.room, self.heap = ffi.new("wk_poll[]", capacity), ffi.new("int32_t[]", capacity)
        self.status = lib.wk_polls_init(self.polls, self.room, self.heap, capacity)
        self.table = Table(64)
        self.owners: dict[int, Any] = {}

    def ledger(self, ledger_id: int) -> Any:
        self.table.put(ledger_id)
        return self.table.find(ledger_id)

    def owner(self, owner: int) -> Any:
        return self.owners.setdefault(owner, ffi.new("int32_t *", lib.WK_NO_POLL))

    def add(self, tag: int, ledger_id: int, previous_lac: int, deadline: int, owner: int) -> int:
        poll, first = ffi.new("int32_t *"), self.owner(owner)
        arguments = (self.ledger(ledger_id), previous_lac, deadline, owner, first, tag, poll)
        return int(lib.wk_polls_add(self.polls, *arguments))

    def take(self, found: Iterable[int]) -> Iterator[int]:
        """Removes each poll before the next is looked for; their tags."""
        for at in found:
            poll = self.room[at]
            tag = int(poll.tag)
            lib.wk_polls_remove(self.polls, at, self.ledger(poll.ledger_id), self.owner(poll.owner))
            yield tag

    def wake(self, ledger_id: int, everyone: bool = False) -> list[int]:
        ledger = self.ledger(ledger_id)
        return list(self.take(iter(lambda: lib.wk_polls_ready(self.polls, ledger, everyone), lib.WK_NO_POLL)))

    def expire(self, now: int) -> list[int]:
        return list(self.take(iter(lambda: lib.wk_polls_expired(self.polls, now), lib.WK_NO_POLL)))

    def drop(self, owner: int) -> list[int]:
        first = self.owner(owner)
        return list(self.take(iter(lambda: first[0], lib.WK_NO_POLL)))

    def rise(self, ledger_id: int, lac: int) -> None:
        lib.wk_hosted_raise(self.ledger(ledger_id), lac, 1)

    def deadline(self) -> int | None:
        """The earliest; None: nobody waits."""
        deadline = int(lib.wk_polls_deadline(self.polls))
        return None if deadline == 2**64 - 1 else deadline
