"""State files: what a bookie must know before it answers anybody, beside its ledgers: limbo, tombstones, read-only,
starts.

Every change is durable when its call returns. A file that cannot be understood is an error and never an empty one: the
bookie does not start then, since it would say what is not so.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from walkeeper_bookie._checked_lines import damaged, read_lines, replace_file, sync_directory, write_lines
from walkeeper_bookie._emergency_space import EmergencySpace

__all__ = ["LimboFile", "LimboState", "NotInLimboError", "ReadOnlyFile", "StartsFile", "TombstoneFile"]

IDS_A_LINE = 1000
COUNTDOWN_SAVED_S = 3600.0
ID_MAX = 2**63 - 1


# ---- limbo ----


class NotInLimboError(ValueError):
    """These are not in limbo: nothing was changed."""


@dataclass(frozen=True)
class LimboState:
    """`everything`: which ledgers it concerns is not noted yet; every one is but those that were `cleared` since. Else
    those in `ledger_ids` are; with `everything`, they are whatever will be noted. `unfenced` were cleared where nobody
    could fence them, and are to be fenced by the next start. All rising."""

    everything: bool = False
    ledger_ids: array[int] = field(default_factory=lambda: array("q"))
    cleared: array[int] = field(default_factory=lambda: array("q"))
    unfenced: array[int] = field(default_factory=lambda: array("q"))

    def __bool__(self) -> bool:
        return self.everything or len(self.ledger_ids) > 0

    @property
    def listed(self) -> array[int]:
        """With `everything` those that are not in limbo, else those that are."""
        return self.cleared if self.everything else self.ledger_ids

    def with_added(self, ledger_ids: Iterable[int] | None) -> LimboState:
        """These, or with None every ledger, are in limbo too."""
        if ledger_ids is None:
            return LimboState(True, self.ledger_ids, unfenced=self.unfenced)
        added = set(ledger_ids)
        return replace(self, ledger_ids=_ids({*self.ledger_ids, *added}), cleared=_ids(set(self.cleared) - added))

    def without(self, ledger_ids: Iterable[int] | None) -> LimboState:
        """These, or with None whatever was, are in limbo no more. NotInLimboError where one of them is not."""
        if ledger_ids is None:
            return LimboState(unfenced=self.unfenced)
        gone, ids = set(ledger_ids), set(self.ledger_ids)
        if strange := gone & set(self.cleared) if self.everything else gone - ids:
            raise NotInLimboError(f"not in limbo: {', '.join(map(str, sorted(strange)))}. Nothing was changed")
        cleared = {*self.cleared, *gone} if self.everything else set[int]()
        return replace(self, ledger_ids=_ids(ids - gone), cleared=_ids(cleared))

    def without_a_fence(self, ledger_ids: Iterable[int] | None) -> LimboState:
        """The same, by whoever cannot fence them: the bookie does when it starts, before it serves."""
        gone = {*self.ledger_ids, *self.cleared} if ledger_ids is None else set(ledger_ids)
        return replace(self.without(ledger_ids), unfenced=_ids({*self.unfenced, *gone}))

    def fenced(self) -> LimboState:
        """Those that were to be fenced are."""
        return replace(self, unfenced=_ids(()))

    def without_deleted(self, ledger_ids: Collection[int]) -> LimboState:
        """These exist no more. What was cleared stays cleared: to leave it out there would put it back into limbo."""
        gone = set(ledger_ids) & set(self.ledger_ids)
        return replace(self, ledger_ids=_ids(set(self.ledger_ids) - gone)) if gone else self

    def noted(self, found: Iterable[int]) -> LimboState:
        """It is known now which ledgers it concerns."""
        noted = _ids({*found, *self.ledger_ids} - set(self.cleared))
        return LimboState(ledger_ids=noted, unfenced=self.unfenced)


def _ids(ledger_ids: Iterable[int]) -> array[int]:
    return array("q", sorted(ledger_ids))


class LimboFile:
    """The file `limbo`. There is none where nothing is in limbo, and nothing is to be fenced."""

    REMEDY = "To be safe put every ledger in limbo: remove the file, then walkeeper bookie limbo add --all"

    def __init__(self, path: Path, spare: EmergencySpace | None = None) -> None:
        self.path, self._emergency_space = path, spare

    def load(self) -> LimboState:
        """What is in limbo. Raises OSError; a StateFileError says what to do."""
        everything = False
        listed: dict[str, set[int]] = {"ledgers": set(), "cleared": set(), "unfenced": set()}
        for number, line in enumerate(read_lines(self.path, "limbo", self.REMEDY) or (), 2):
            if line == {"everything": True}:
                everything = True
                continue
            name = next(iter(line), "")
            if len(line) != 1 or name not in listed or not is_ids(line[name]):
                raise damaged(self.path, number, "it is none of this file", self.REMEDY)
            listed[name].update(line[name])
        return LimboState(everything, _ids(listed["ledgers"]), _ids(listed["cleared"]), _ids(listed["unfenced"]))

    def save(self, state: LimboState) -> None:
        """Durable when it returns. Raises OSError."""
        if not state and not state.unfenced:
            remove(self.path)
            return
        lines: list[dict[str, Any]] = [{"everything": True}] if state.everything else []
        lines += [{"ledgers": ids} for ids in batches(sorted(set(state.ledger_ids)))]
        lines += [{"cleared": ids} for ids in batches(sorted(set(state.cleared)))]
        lines += [{"unfenced": ids} for ids in batches(sorted(set(state.unfenced)))]
        write_lines(self.path, "limbo", lines, self._emergency_space)


# ---- tombstones ----


def boot_seconds() -> float:
    """Seconds that no setting of a clock changes; they pass while the machine sleeps, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class Tombstone:
    """When a ledger was deleted, by the wall clock, for people; and up to which moment of `clock` it is refused."""

    deleted_ms: int
    until: float


class TombstoneFile:
    """The file `tombstones`: the ids of deleted ledgers, each for the time that it must be refused still.

    That time only passes while a process counts it: a clock that was set forward while the bookie was down brings no
    ledger back to life. So a bookie that is down for a week refuses for a week longer, which harms nobody. What a kill
    loses of the count is an hour at most, and makes it longer.

    Every method may be called from any thread.
    """

    REMEDY = (
        "It holds the ids of deleted ledgers, which are refused for a week. If no writer can have been away for as "
        "long as they were deleted, remove the file"
    )

    def __init__(
        self,
        path: Path,
        keep: float,
        clock: Callable[[], float] = boot_seconds,
        wall: Callable[[], float] = time.time,
        spare: EmergencySpace | None = None,
    ) -> None:
        """Reads the file. `keep`: seconds for which an id is refused that is added from now on. Raises OSError."""
        self.path, self.keep, self._emergency_space = path, keep, spare
        self._clock, self._wall = clock, wall
        self._lock = threading.Lock()
        self._stones: dict[int, Tombstone] = {}
        self._saved = now = clock()
        for number, line in enumerate(read_lines(path, "tombstones", self.REMEDY) or (), 2):
            if line.keys() != {"deleted_ms", "left_ms", "ledgers"} or not (
                is_number(line["deleted_ms"]) and is_number(line["left_ms"]) and is_ids(line["ledgers"])
            ):
                raise damaged(path, number, "it is none of this file", self.REMEDY)
            stone = Tombstone(line["deleted_ms"], now + line["left_ms"] / 1000)
            self._stones.update(dict.fromkeys(line["ledgers"], stone))

    def __len__(self) -> int:
        """How many are refused."""
        return len(self._stones)

    def ids(self) -> list[int]:
        """Those that are refused, rising."""
        with self._lock:
            return sorted(self._stones)

    def among(self, ledger_ids: Iterable[int]) -> set[int]:
        """Those of these that are refused."""
        with self._lock:
            return self._stones.keys() & set(ledger_ids)

    def tombstones(self) -> dict[int, Tombstone]:
        """All of them, by id."""
        with self._lock:
            return dict(self._stones)

    def add(self, ledger_ids: Iterable[int]) -> None:
        """Durable when it returns. Raises OSError: they are refused by this process all the same."""
        with self._lock:
            stone = Tombstone(int(self._wall() * 1000), self._clock() + self.keep)
            self._stones.update(dict.fromkeys(ledger_ids, stone))
            self._save()

    def expire(self) -> bool:
        """Forgets those whose time has passed; whether there were any. Raises OSError.

        To be called now and then: it also saves how much time is left of the others, once an hour, and makes the spare
        where there is room for it again.
        """
        with self._lock:
            if self._emergency_space is not None:
                self._emergency_space.keep()
            now = self._clock()
            left = {ledger_id: stone for ledger_id, stone in self._stones.items() if stone.until > now}
            fewer = len(left) < len(self._stones)
            self._stones = left
            if fewer or (left and now - self._saved >= COUNTDOWN_SAVED_S):
                self._save()
            return fewer

    def save(self) -> None:
        """Saves how much time is left; at the end of a process. Raises OSError."""
        with self._lock:
            if self._stones or self.path.exists():
                self._save()

    def _save(self) -> None:
        now = self._clock()
        alike: dict[tuple[int, int], list[int]] = {}
        for ledger_id, stone in self._stones.items():
            alike.setdefault((stone.deleted_ms, max(0, round((stone.until - now) * 1000))), []).append(ledger_id)
        if alike:
            write_lines(
                self.path,
                "tombstones",
                (
                    {"deleted_ms": deleted_ms, "left_ms": left_ms, "ledgers": batch}
                    for (deleted_ms, left_ms), ids in sorted(alike.items())
                    for batch in batches(sorted(ids))
                ),
                self._emergency_space,
            )
        else:
            remove(self.path)
        self._saved = now


# ---- read-only ----


class ReadOnlyFile:
    """The file `read-only`: an operator's wish. It is there, or it is not; what it says is for people.

    `touch read-only` in the data directory is as good. The wish survives restarts.
    """

    TEXT_MAX = 4096

    def __init__(self, path: Path) -> None:
        self.path = path

    def wished(self) -> bool:
        """Whether the bookie shall be read-only. Where that cannot be told it shall."""
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def reason(self) -> str:
        """What whoever wished it said; empty where nothing was, or none can be read."""
        try:
            with open(self.path, "rb") as file:
                return file.read(self.TEXT_MAX).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def set(self, read_only: bool, reason: str = "") -> None:
        """Durable when it returns. Raises OSError."""
        if read_only:
            replace_file(self.path, (reason.strip() + "\n").encode()[: self.TEXT_MAX] if reason.strip() else b"")
        else:
            remove(self.path)


# ---- starts ----


class StartsFile:
    """The file `starts`: how often a bookie was started on this directory, or an older directory of its id."""

    REMEDY = "To be safe remove the file: every ledger is in limbo from the next start on"

    def __init__(self, path: Path, spare: EmergencySpace | None = None) -> None:
        """`spare`: a bookie on a full disk must start."""
        self.path, self._emergency_space = path, spare

    def load(self) -> int:
        """0 where there is no file. Raises OSError; a StateFileError says what to do."""
        lines = read_lines(self.path, "starts", self.REMEDY)
        if lines is None:
            return 0
        if len(lines) != 1 or lines[0].keys() != {"number"} or not is_number(lines[0]["number"]):
            raise damaged(self.path, 2, "one number was expected", self.REMEDY)
        return int(lines[0]["number"])

    def save(self, number: int) -> None:
        """Durable when it returns. Raises OSError."""
        write_lines(self.path, "starts", [{"number": number}], self._emergency_space)


# ---- what they share ----


def remove(path: Path) -> None:
    """The file is gone, durably; also where there was none."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    sync_directory(path.parent)


def batches(ids: list[int]) -> list[list[int]]:
    return [ids[at : at + IDS_A_LINE] for at in range(0, len(ids), IDS_A_LINE)]


def is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= ID_MAX


def is_ids(value: object) -> bool:
    return isinstance(value, list) and all(map(is_number, value))
