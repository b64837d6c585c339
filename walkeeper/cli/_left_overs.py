"""Files of a directory that are no part of what it holds: left over, set aside, or somebody else's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

from walkeeper.cli._inspection import inspect_file
from walkeeper.cli._show import counted, printable
from walkeeper.directory._paths import journal_of
from walkeeper.errors import Error

PARTS = ("journal", "entries", "index")

OURS = re.compile(
    r"superblock|lock|shared|journal|entries|index"
    r"|journal/([0-9a-f]{16}\.wkj|prepared-[0-9a-f]{16}\.wkp)"
    r"|entries/([0-9a-f]{16}\.wke|prepared-(output|index)\.wkp)"
)
UNFINISHED = re.compile(r"(journal/)?probe-\d+\.tmp|doctor-\d+\.tmp|(entries|index)/[0-9a-f]{16}\.tmp")
SET_ASIDE = re.compile(r"(journal|entries|index)/[0-9a-f]{16}\.damaged")
OF_A_JOURNAL_DIRECTORY = ("owner", "lost+found")
INDEX = re.compile(r"index/([0-9a-f]{16})\.wki")


def index_generation(directory: Path) -> int | None:
    """Of the index file that counts, from the superblock; None where that cannot be read."""
    lines: list[str] = []

    def take(line: str) -> bool:
        lines.append(line)
        return True

    try:
        inspect_file(directory / "superblock", False, take)
    except Error:
        pass  # one slot is enough
    slots = [slot for slot in map(json.loads, lines) if "index_generation" in slot]
    return max(slots, key=lambda slot: int(slot["generation"]))["index_generation"] if slots else None


def meaning(name: str, generation: int | None) -> str | None:
    """What a file that is not part of the directory is; None for one that is."""
    if OURS.fullmatch(name):
        return None
    if UNFINISHED.fullmatch(name):
        return "unfinished: a writer is at it, or the next open for writing removes it"
    if SET_ASIDE.fullmatch(name):
        return "set aside as damaged by an open that accepted the loss; nothing uses it"
    if found := INDEX.fullmatch(name):
        if generation is not None and int(found[1], 16) == generation:
            return None
        return "an index that does not count; the next open for writing removes it"
    return "not walkeeper's; nothing here uses it"


def roots(directory: Path, journal: Path | None) -> list[tuple[Path, Path]]:
    """Each folder, and the directory below which its files have their names: the journal's own, where it has one."""
    folders = [(directory, directory), *((directory / part, directory) for part in PARTS)]
    return folders if journal is None else [*folders, (journal, journal), (journal / "journal", journal)]


def left_overs(directory: Path, journal: Path | None = None) -> list[dict[str, object]]:
    """Name below the directory, size and meaning of each; by name. The journal directory, where it has one, is looked
    for where it was last unless it is told."""
    generation, named = index_generation(directory), journal_of(directory)
    apart = journal if journal is not None and named is not None else None if named is None else Path(named)
    found: list[dict[str, object]] = []
    for folder, root in roots(directory, apart):
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = file.relative_to(root).as_posix()
            what = meaning(name, generation)
            if what is None or (root == apart and name in OF_A_JOURNAL_DIRECTORY):
                continue
            try:
                found.append({"name": name, "size": file.lstat().st_size, "what": what})
            except FileNotFoundError:
                continue  # its writer finished with it
    return sorted(found, key=lambda one: str(one["name"]))


def words(found: list[dict[str, object]]) -> str:
    """A line each, for people."""
    return "\n".join(f"{printable(str(one['name']))} ({size(one)}): {one['what']}" for one in found)


def size(one: dict[str, object]) -> str:
    return counted(cast("int", one["size"]), "byte")
