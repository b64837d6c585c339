"""Paths of database files, as a caller gives them."""

from __future__ import annotations

import os

from walkeeper.errors import InvalidError

__all__ = ["real_path"]


def real_path(path: str | os.PathLike[str]) -> str:
    """Absolute, without symbolic links. InvalidError for what SQLite, and nobody else, takes for a database."""
    name = os.fsdecode(path)
    if not name or name == ":memory:" or name.startswith("file:"):
        raise InvalidError(f"{name!r} is no path of a database file")
    return os.path.realpath(name)
