"""bookie.svg: a Java client, its ensemble of bookies, what one of them is inside, and the one that takes over."""

from __future__ import annotations

from drawing import Drawing

BOOKIES_X, BOOKIE_WIDTH, BOOKIE_HEIGHT = 316, 250, 54
ENSEMBLE_Y = (162, 234, 306)
SPARE_Y = 412
CELL = 24
MINE = 41  # the entry whose way is shown
CHANGE = 42  # the first entry of the second ensemble


def entries(d: Drawing, y: float, first: int, last: int) -> None:
    """What a bookie has, a cell an entry; entry 40 is the leftmost, and each entry has its column."""
    for number in range(first, last + 1):
        x = BOOKIES_X + 110 + (CELL + 3) * (number - 40)
        d.box(x, y + 14, CELL, 26, "ours" if number == MINE else "durable", rx=4)
        d.text(x + CELL / 2, y + 32, str(number), "on", "middle", "on")


def draw_client(d: Drawing) -> None:
    d.step(40, 56, 1, "a Java client")
    d.lines(40, 84, ["Apache BookKeeper's,", "unmodified; protocol", "v2 or v3"])
    for y, number in ((162, 40), (200, 41), (238, 42)):
        d.box(40, y, 118, 30, "ours" if number == MINE else "other")
        d.text(99, y + 20, f"entry {number}", "code", "middle", "on" if number == MINE else "ink")
    for y in ENSEMBLE_Y:
        d.arrow(f"M162 215 C 220 215, 250 {y + 18}, {BOOKIES_X - 6} {y + 18}", "line")


def draw_ensemble(d: Drawing) -> None:
    d.step(BOOKIES_X, 56, 2, "an ensemble of bookies")
    d.lines(
        BOOKIES_X,
        84,
        ["E = 3, Qw = 3: an entry goes to three;", "Qa = 2: the append returns when two", "of them have it durable"],
    )
    for number, (y, last) in enumerate(zip(ENSEMBLE_Y, (44, 44, 41), strict=True), 1):
        d.box(BOOKIES_X, y, BOOKIE_WIDTH, BOOKIE_HEIGHT, "box", "line")
        d.text(BOOKIES_X + 14, y + 32, f"bookie {number}", "head")
        entries(d, y, 40, last)
    ways = [f"M{BOOKIES_X - 2} {y + 40} C 262 {y + 40}, 250 316, 168 316" for y in ENSEMBLE_Y[:2]]
    for way in ways:  # bridges over what crosses them
        d.add("path", stroke="card", d=way, stroke_width=7)
    for way in ways:
        d.arrow(way, "durable")
    d.box(40, 300, 124, 32, "none", "durable", stroke_width=1.5)
    d.text(102, 321, "append returns", "soft", "middle", "durable")


def draw_takeover(d: Drawing) -> None:
    y = ENSEMBLE_Y[2]
    d.add(
        "path",
        stroke="gone",
        d=f"M{BOOKIES_X + 184} {y + 10} l34 34 m0 -34 l-34 34",
        stroke_width=4,
        stroke_linecap="round",
    )
    d.step(40, 396, 4, "one is killed")
    d.lines(40, 424, ["the client notices, puts the", "spare in its place, and goes", "on: nobody waits for a repair"])
    d.box(BOOKIES_X, SPARE_Y, BOOKIE_WIDTH, BOOKIE_HEIGHT, "box", "line", stroke_width=1.5, stroke_dasharray="6 4")
    d.text(BOOKIES_X + 14, SPARE_Y + 32, "bookie 4", "head")
    entries(d, SPARE_Y, CHANGE, 44)
    x = BOOKIES_X + 201
    d.arrow(f"M{x} {y + BOOKIE_HEIGHT + 4} V {SPARE_Y - 4}", "gone", dashed=True)
    d.text(x - 12, y + 84, f"from entry {CHANGE} on", "soft", "end")


def draw_inside(d: Drawing) -> None:
    """The second bookie, seen from near."""
    left, top, bottom = 640, 152, 478
    y, right = ENSEMBLE_Y[1], BOOKIES_X + BOOKIE_WIDTH
    d.add(
        "path",
        fill="box",
        d=f"M{right} {y} L{left} {top + 8} V{bottom - 8} L{right} {y + BOOKIE_HEIGHT} z",
        opacity=0.6,
    )
    d.step(left, 56, 3, "inside one: walkeeper-bookie")
    d.lines(
        left,
        84,
        [
            "one thread serves all connections; the adds of a turn go to the",
            "journal together, and are answered when they are durable; reads",
            "have threads of their own",
        ],
    )
    d.box(left, top, 520, bottom - top, "card", "line", rx=10)

    d.box(660, 196, 118, 78, "ours")
    d.text(719, 224, "loop", "head", "middle", "on")
    d.text(719, 244, "sockets,", "on", "middle", "on")
    d.text(719, 261, "v2 and v3", "on", "middle", "on")
    d.arrow("M782 216 H 852")
    d.text(817, 208, "adds", "on", "middle", "soft")
    d.arrow("M856 254 H 786", "durable")
    d.text(819, 272, "durable", "on", "middle", "durable")

    d.text(860, 186, "journal", "head")
    d.text(930, 186, "one write, one wait", "soft")
    d.box(860, 196, 280, 78, "box", "line")
    for i in range(7):
        x = 868 + 38 * i
        if i < 5:
            d.box(x, 206, 34, 58, "durable", rx=4)
        else:
            d.box(x, 206, 34, 58, "none", "line", rx=4, stroke_dasharray="2 5")
    d.box(868 + 38 * 4 + 12, 216, 10, 38, "ours", rx=3)

    d.box(860, 318, 128, 56, "box", "line")
    d.text(924, 342, "memtable", "head", "middle")
    d.text(924, 362, "written last", "on", "middle", "soft")
    d.arrow("M924 278 V 314")
    d.box(860, 406, 280, 54, "box", "line")
    d.text(876, 439, "entry logs", "head")
    d.text(976, 439, "sorted by ledger", "soft")
    d.arrow("M1116 278 V 402", dashed=True)
    d.text(1104, 330, "mover", "head", "end")
    d.text(1104, 350, "where it pays", "on", "end", "soft")

    d.box(660, 352, 118, 62, "box", "reader", stroke_width=1.5)
    d.text(719, 379, "reads", "head", "middle", "reader")
    d.text(719, 399, "a few threads", "on", "middle", "soft")
    d.arrow("M719 278 V 348", "reader")
    d.arrow("M782 372 C 820 372, 820 346, 856 346", "reader")
    d.arrow("M782 394 C 820 394, 820 433, 856 433", "reader")


def draw_metadata(d: Drawing) -> None:
    top = 516
    d.box(40, top, 1120, 96, "none", "footer", rx=10, stroke_width=1.5)
    d.step(64, top + 36, 5, "metadata in ZooKeeper")
    d.text(64, top + 68, "or a sqlite file, without Java", "soft")
    d.box(346, top + 16, 396, 64, "box", "edge")
    for row, (first, last) in enumerate(((0, 3), (CHANGE, 4))):
        y = top + 42 + 22 * row
        if row == 0:
            d.text(362, y, "ledger 7", "code")
        d.text(448, y, "from entry", "code")
        d.text(560, y, str(first), "code", "end")
        d.text(576, y, f"bookies 1, 2, {last}", "code")
    d.lines(
        764,
        top + 32,
        [
            "changed by compare-and-set. Another client that",
            "opens the ledger fences its writer, finds its end,",
            "and reads all that was acknowledged",
        ],
    )
    d.arrow(f"M70 474 V {top - 4}", "footer", dashed=True)
    d.text(82, 498, "the new ensemble", "on", colour="soft")
    d.arrow(f"M{BOOKIES_X + 36} {SPARE_Y + BOOKIE_HEIGHT + 4} V {top - 4}", "footer", dashed=True)
    d.text(BOOKIES_X + 48, 498, "every bookie is registered", "on", colour="soft")


def draw_bookie() -> Drawing:
    d = Drawing(
        "A Java client writes to an ensemble of three bookies; one is killed, a fourth takes over; one from inside",
        1200,
        634,
    )
    for draw in (draw_inside, draw_client, draw_ensemble, draw_takeover, draw_metadata):
        draw(d)
    return d
