"""Java's properties files: keys and values of text."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["parse_properties"]

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def parse_properties(text: str) -> list[tuple[str, str]]:
    """The pairs of a file in their order; a key may come twice. Raises ValueError for a malformed \\uXXXX."""
    pairs = []
    for line in logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None
        pairs.append((unescaped(match[1]), unescaped(match[2])))
    return pairs


def logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, with those that are continued put together."""
    line = None
    for natural in re.split(r"\r\n|\n|\r", text):
        part = natural.lstrip(" \t\f")
        if line is None:
            if not part or part[0] in "#!":
                continue
            line = ""
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            line += part[:-1]
            continue
        yield line + part
        line = None
    if line:
        yield line


def unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] != "u":
            return _ESCAPES.get(match[1], match[1])
        if not match[2]:
            raise ValueError(f"a malformed \\uXXXX in {text!r}")
        return chr(int(match[2], 16))

    found = re.sub(r"\\(?:(u)([0-9a-fA-F]{4})?|(.))", lambda m: one(m) if m[1] else _ESCAPES.get(m[3], m[3]), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
