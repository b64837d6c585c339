"""A drawing that becomes an SVG.

It stands on a card of its own, so that it can be read on any page; browsers that prefer dark get a dark card.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

# Each colour by name: on the light card, on the dark one.
PALETTE = {
    "card": ("#fffdf8", "#171a1f"),
    "edge": ("#d8d2c4", "#343a43"),
    "ink": ("#22262b", "#e8eaed"),
    "soft": ("#666d75", "#a2a9b2"),
    "line": ("#8a9099", "#767d87"),
    "box": ("#f4efe4", "#22272e"),
    "ours": ("#d9730d", "#f0883e"),
    "other": ("#e6dcc6", "#454c57"),
    "durable": ("#2f8f5b", "#3fb074"),
    "flight": ("#ffffff", "#171a1f"),
    "footer": ("#6f4bb8", "#a684ec"),
    "reader": ("#1f6fbf", "#5aa7f0"),
    "gone": ("#c0392b", "#ef7d74"),
    "on": ("#ffffff", "#10131a"),
}

STYLE = """
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Arial, "DejaVu Sans", sans-serif; font-size: 15px; }
.code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 14px; }
.head { font-size: 17px; font-weight: 600; }
.soft { font-size: 14px; }
.on { font-size: 13px; }
"""


def paint(part: str, colour: str) -> str:
    """The attribute for the light card; the class that the dark one turns to another colour has the same name."""
    return f'{part}="{PALETTE[colour][0] if colour in PALETTE else colour}"'


def dark_style() -> str:
    rules = [
        f".{part}-{name} {{ {part}: {dark} }}" for part in ("fill", "stroke") for name, (_, dark) in PALETTE.items()
    ]
    return "@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}\n"


class Drawing:
    """An SVG that grows; coordinates are pixels from the top left."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self.title, self.width, self.height = title, width, height
        self.parts: list[str] = []
        self.box(1, 1, width - 2, height - 2, "card", "edge", rx=14)

    def add(
        self,
        name: str,
        content: str | None = None,
        *,
        fill: str = "none",
        stroke: str = "none",
        kind: str = "",
        **attributes: object,
    ) -> None:
        classes = " ".join(
            word for word in (kind, f"fill-{fill}", f"stroke-{stroke}") if word and not word.endswith("-none")
        )
        pairs = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
        head = f'<{name} class="{classes}" {paint("fill", fill)} {paint("stroke", stroke)}{pairs}'
        self.parts.append(f"{head}/>" if content is None else f"{head}>{content}</{name}>")

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        stroke: str = "none",
        rx: float = 6,
        **more: object,
    ) -> None:
        self.add("rect", fill=fill, stroke=stroke, x=x, y=y, width=width, height=height, rx=rx, **more)

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start", colour: str = "") -> None:
        fill = colour or (kind if kind in PALETTE else "ink")
        self.add("text", escape(words), fill=fill, kind=kind, x=x, y=y, text_anchor=anchor)

    def lines(self, x: float, y: float, words: list[str], anchor: str = "start") -> None:
        for i, line in enumerate(words):
            self.text(x, y + 20 * i, line, "soft", anchor)

    def arrow(self, path: str, colour: str = "line", dashed: bool = False) -> None:
        more = {"stroke_dasharray": "5 5"} if dashed else {}
        self.add("path", stroke=colour, d=path, stroke_width=2, marker_end=f"url(#{colour})", **more)

    def step(self, x: float, y: float, number: int, words: str) -> None:
        """A numbered heading."""
        self.add("circle", cx=x + 11, cy=y - 6, r=11, fill="ink")
        self.text(x + 11, y - 1, str(number), "on", "middle", "card")
        self.text(x + 30, y, words, "head")

    def svg(self) -> str:
        ends = [colour for colour in PALETTE if any(f"url(#{colour})" in part for part in self.parts)]
        markers = "".join(
            f'<marker id="{colour}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"'
            f' orient="auto">'
            f'<path class="fill-{colour}" d="M0 0.8 L10 5 L0 9.2 z" {paint("fill", colour)}/></marker>'
            for colour in ends
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img"'
            f' aria-label="{self.title}">\n'
            f"<title>{self.title}</title>\n<style>{STYLE}{dark_style()}</style>\n<defs>{markers}</defs>\n"
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )
