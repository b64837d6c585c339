"""Draws the pictures of README and docs: record.svg, bookie.svg, layers.svg and appends.svg.

usage: python docs/images/make.py        (writes beside itself; `rsvg-convert record.svg -o record.png` shows it)
"""

from __future__ import annotations

from pathlib import Path

from appends_picture import draw_appends
from bookie_picture import draw_bookie
from layers_picture import draw_layers
from record_picture import draw_record


def pictures() -> dict[str, str]:
    """Each picture's name and its SVG."""
    drawings = {"record": draw_record(), "bookie": draw_bookie(), "layers": draw_layers(), "appends": draw_appends()}
    return {name: drawing.svg() for name, drawing in drawings.items()}


def main() -> None:
    for name, svg in pictures().items():
        Path(__file__).with_name(f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
