"""Words that somebody else chose, on one line of a terminal or a file."""

from __future__ import annotations

__all__ = ["printable"]


def printable(words: str) -> str:
    """What moves a terminal's cursor, ends a line, or turns the direction of writing, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
