"""layers.svg: the folders of native/, what each may use, and the rooms of the engine."""

from __future__ import annotations

from drawing import Drawing

# Top to bottom: a layer uses what lies below it.
ROOMS = {
    "log": "writer, readers, find",
    "catalogue": "logs, segments, cursors",
    "ledger": "ledger stores",
    "mover": "compaction, sorting",
    "check": "verify, inspect, doctor",
    "directory": "open, lock, backup",
    "follower": "read beside a writer",
    "recovery": "chain, damage, loss",
    "journal": "blocks, group commit",
    "index": "files, ranges, caches",
    "space": "recycle, reserve",
    "base": "names, wait words",
}


def layer(d: Drawing, x: float, y: float, width: float, height: float, name: str, about: str) -> None:
    d.box(x, y, width, height, "box", "line")
    d.text(x + 16, y + 26, name, "code")
    d.text(x + 16, y + 46, about, "soft", colour="soft")


def draw_rooms(d: Drawing, x: float, y: float) -> None:
    for at, (name, about) in enumerate(ROOMS.items()):
        left, top = x + at % 4 * 196, y + at // 4 * 62
        d.box(left, top, 186, 52, "card", "line", rx=6)
        d.text(left + 12, top + 21, name, "code")
        d.text(left + 12, top + 41, about, "on", colour="soft")


def draw_layers() -> Drawing:
    d = Drawing("The layers of native/ and the rooms of the engine", 1100, 596)
    layer(
        d,
        40,
        30,
        816,
        58,
        "native/include/walkeeper",
        "the contract: what a user of the library calls; cffi's declarations are made from it",
    )
    layer(d, 40, 98, 402, 58, "native/server", "a bookie: between sockets and a ledger store")
    layer(d, 454, 98, 402, 58, "native/client", "ledgers on bookies, logs over ledgers")
    d.box(40, 166, 816, 240, "box", "line")
    d.text(56, 192, "native/engine", "code")
    d.text(
        176, 192, "a room includes another room's door, engine/ROOM.h, and nothing else of it", "soft", colour="soft"
    )
    draw_rooms(d, 56, 208)
    layer(d, 40, 416, 402, 58, "native/records", "batches, codecs, Arrow: shared with clients")
    layer(d, 454, 416, 402, 58, "native/io", "the only folder that calls the kernel")
    layer(d, 40, 484, 816, 82, "native/core", "formats and state machines: no system call, no clock, no malloc")
    d.text(56, 552, "bytes, events and the time in; decisions out", "soft", colour="soft")
    d.box(886, 30, 174, 536, "none", "line", stroke_dasharray="4 4")
    d.text(902, 56, "native/sim", "code")
    d.lines(
        902,
        82,
        [
            "simulated disks",
            "behind the seam",
            "of native/io, for",
            "tests alone: it is",
            "in no library that",
            "is installed",
        ],
    )
    d.arrow("M884 445 H 860")
    return d
