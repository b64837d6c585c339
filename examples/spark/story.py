"""How a program of the demo says what happens."""

from __future__ import annotations


def say(what: str, text: str) -> None:
    """A word, and what happened; further lines of the text are indented."""
    print(f"{what:<10} {text.replace(chr(10), chr(10) + ' ' * 11)}", flush=True)
