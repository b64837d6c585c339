"""record.svg: the way of a record, and where readers find it."""

from __future__ import annotations

from drawing import Drawing


def draw_append(d: Drawing) -> None:
    d.step(40, 56, 1, "append")
    d.lines(40, 84, ["records of any", "log, from any", "thread"])
    for y, payload, mine in ((176, "paid 42", True), (216, "paid 43", False), (256, "sent 7", False)):
        d.box(40, y, 118, 30, "ours" if mine else "other")
        d.text(99, y + 20, payload, "code", "middle", "on" if mine else "ink")
        d.arrow(f"M162 {y + 15} C 190 {y + 15}, 196 231, 222 231")


def draw_block(d: Drawing) -> None:
    d.step(228, 56, 2, "one block")
    d.lines(228, 84, ["what waits together is", "written together; a lone", "record does not wait"])
    d.box(228, 176, 196, 110, "box", "line")
    d.box(236, 184, 180, 34, "ink", rx=4)
    d.text(326, 206, "checksum · chain · place", "on", "middle", "card")
    for x, mine in ((236, True), (282, False), (328, False)):
        d.box(x, 226, 42, 52, "ours" if mine else "other", rx=4)
    d.add("path", d="M376 278 l40 -52 M376 252 l20 -26 M396 278 l20 -26", stroke="edge", stroke_width=2)
    d.arrow("M428 231 H 462")


def draw_journal(d: Drawing) -> None:
    d.step(468, 56, 3, "durable in the journal")
    d.lines(
        468,
        84,
        ["one write, one wait: space is", "prepared ahead, so that nothing but", "the block has to reach the disk"],
    )
    d.box(468, 196, 330, 70, "box", "line")
    for i in range(8):
        x = 476 + 39.6 * i
        if i < 5:
            d.box(x, 204, 34, 54, "durable", rx=4)
        elif i == 5:
            d.box(x, 204, 34, 54, "flight", "durable", rx=4, stroke_width=2, stroke_dasharray="4 3")
        else:
            d.box(x, 204, 34, 54, "none", "line", rx=4, stroke_dasharray="2 5")
    d.box(640, 214, 10, 34, "ours", rx=3)
    d.arrow("M671.5 276 V 154 H 99 V 172", "durable")
    d.box(238, 143, 176, 22, "card", rx=0)
    d.text(326, 159, "returns its position", "", "middle", "durable")
    d.text(680, 184, "durable point", "", colour="durable")
    d.arrow("M802 231 H 846")


def draw_sealed(d: Drawing) -> None:
    d.step(852, 56, 4, "sealed")
    d.lines(
        852,
        84,
        [
            "a full file gets an index at its end and",
            "is the storage from then on: most bytes",
            "are written once only",
        ],
    )
    d.box(852, 196, 308, 70, "box", "line")
    for i in range(6):
        d.box(860 + 37 * i, 204, 32, 54, "durable", rx=4)
    d.box(982, 214, 10, 34, "ours", rx=3)
    d.box(1082, 204, 70, 54, "footer", rx=4)
    d.text(1117, 236, "footer", "on", "middle")


def draw_recycled(d: Drawing) -> None:
    d.arrow("M876 268 V 300 H 771 V 272", dashed=True)
    d.step(738, 336, 5, "recycled")
    d.text(738, 364, "log.truncate(position)", "code")
    d.text(932, 364, "lets go of records;", "soft")
    d.text(738, 384, "a file that holds no other is used again", "soft")


def draw_readers(d: Drawing) -> None:
    d.box(40, 416, 1120, 122, "none", "reader", rx=10, stroke_width=1.5)
    d.text(64, 450, "readers", "head", colour="reader")
    d.text(148, 450, "replay, then follow", "soft")
    d.text(64, 486, "for record in log.reader(follow=True):", "code")
    d.text(100, 508, "apply(record.payload)", "code")
    d.box(506, 434, 294, 38, "box", "edge")
    d.text(653, 458, "follow: recent blocks, from memory", "", "middle")
    d.lines(653, 498, ["up to the durable point, not past it:", "acknowledged means readable"], anchor="middle")
    d.box(846, 434, 294, 38, "box", "edge")
    d.text(993, 458, "replay: any file, by its footer", "", "middle")
    d.lines(993, 498, ["from a sequence id, a txid, a time,", "or a cursor that is kept for you"], anchor="middle")
    d.arrow("M645 432 V 272", "reader")
    d.arrow("M1117 432 V 272", "reader")


def draw_record() -> Drawing:
    d = Drawing(
        "The way of a record: append, block, journal file, sealed file, recycled; readers replay and follow", 1200, 560
    )
    for draw in (draw_append, draw_block, draw_journal, draw_sealed, draw_recycled, draw_readers):
        draw(d)
    return d
