"""GcStateFile: what garbage collection knows of the passes before, over restarts: the file `gc-state`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from walkeeper_bookie._checked_lines import damaged, read_lines, write_lines
from walkeeper_bookie._emergency_space import EmergencySpace, is_no_space
from walkeeper_bookie._gc_hold import GcState, Hold, Reason
from walkeeper_bookie._state_files import batches, boot_seconds, is_ids, is_number

__all__ = ["GcStateFile"]


class GcStateFile:
    """The file. The time that is left of a hold only passes while a process counts it, as that of a tombstone: a clock
    that is set ends no hold early. It is saved by every pass, so that each process that makes a pass brings the end
    nearer."""

    REMEDY = (
        "It holds which ledgers garbage collection holds back. If the metadata are those of the bookie's cluster, and "
        "whole, remove the file"
    )

    def __init__(
        self, path: Path, spare: EmergencySpace | None = None, clock: Callable[[], float] = boot_seconds
    ) -> None:
        """`spare`: what is held back must be known on a full disk, too. `clock`: of which `Hold.until` is a time."""
        self.path, self._emergency_space, self.clock = path, spare, clock
        self._lock = threading.Lock()

    def load(self) -> GcState:
        """As it was saved; where there is no file, that of a bookie that made no pass yet. Raises OSError; a
        StateFileError says what to do."""
        lines = read_lines(self.path, "gc-state", self.REMEDY)
        if lines is None:
            return GcState()
        if not lines or not _is_head(lines[0]):
            raise damaged(self.path, 2, "the last listing was expected", self.REMEDY)
        now = self.clock()
        holds: list[dict[str, Any]] = []
        for number, line in enumerate(lines[1:], 3):
            if _is_hold(line):
                left_ms = line["left_ms"]
                until = None if left_ms is None else now + left_ms / 1000
                holds.append({"until": until, "ledger_ids": set(), **line})
            elif line.keys() == {"ledgers"} and is_ids(line["ledgers"]) and holds:
                holds[-1]["ledger_ids"].update(line["ledgers"])
            else:
                raise damaged(self.path, number, "it is none of this file", self.REMEDY)
        return GcState(
            lines[0]["listed"],
            lines[0]["peak"],
            now + lines[0]["peak_left_ms"] / 1000,
            lines[0]["here"],
            lines[0]["met"],
            tuple(
                Hold(
                    hold["hold"],
                    hold["listed"],
                    hold["before"],
                    hold["until"],
                    hold["bytes"],
                    frozenset(hold["ledger_ids"]),
                )
                for hold in holds
            ),
        )

    def save(self, state: GcState) -> None:
        """Durable when it returns, also on a full disk. Raises OSError."""
        with self._lock:
            write_lines(self.path, "gc-state", self._lines(state), self._emergency_space)

    def save_if_there_is_room(self, state: GcState) -> None:
        """The same of a state by which no more is held back than the file says: where the disk is full the file stays
        as it is, and the space that is kept for that stays for tombstones. Raises OSError."""
        try:
            with self._lock:
                write_lines(self.path, "gc-state", self._lines(state))
        except OSError as wrong:
            if not is_no_space(wrong):
                raise

    def _lines(self, state: GcState) -> Iterator[dict[str, Any]]:
        now = self.clock()
        yield {
            "listed": state.listed,
            "peak": state.peak,
            "peak_left_ms": _milliseconds(state.peak_until - now),
            "here": state.here,
            "met": state.met,
        }
        for hold in state.holds:
            yield {
                "hold": hold.reason,
                "listed": hold.listed,
                "before": hold.before,
                "bytes": hold.bytes,
                "left_ms": None if hold.until is None else _milliseconds(hold.until - now),
            }
            for batch in batches(sorted(hold.ledger_ids)):
                yield {"ledgers": batch}


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _is_head(line: dict[str, Any]) -> bool:
    return (
        line.keys() == {"listed", "peak", "peak_left_ms", "here", "met"}
        and all(is_number(line[name]) for name in ("listed", "peak", "peak_left_ms", "here"))
        and isinstance(line["met"], bool)
    )


def _is_hold(line: dict[str, Any]) -> bool:
    return (
        line.keys() == {"hold", "listed", "before", "bytes", "left_ms"}
        and line["hold"] in get_args(Reason)
        and all(is_number(line[name]) for name in ("listed", "before", "bytes"))
        and (line["left_ms"] is None or is_number(line["left_ms"]))
    )
