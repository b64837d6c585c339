"""What lies in a bookie's data directory, by name.

The ledger store is a directory in it: the engine owns all files there, and the bookie's own lie beside.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DataDirectory"]


@dataclass(frozen=True)
class DataDirectory:
    """The paths; nothing is opened, and nothing need be there."""

    path: Path

    @property
    def store(self) -> Path:
        """The ledger store, a directory of the engine's; its `lock` is the bookie's."""
        return self.path / "ledgers"

    @property
    def cookie(self) -> Path:
        """Whose directory it is."""
        return self.path / "VERSION"

    @property
    def starts(self) -> Path:
        """How often a bookie was started on it."""
        return self.path / "starts"

    @property
    def limbo(self) -> Path:
        """Of which ledgers nothing may be said to be absent."""
        return self.path / "limbo"

    @property
    def tombstones(self) -> Path:
        """Ids of deleted ledgers that are still refused."""
        return self.path / "tombstones"

    @property
    def gc_state(self) -> Path:
        """How many ledgers the cluster had, and which ones garbage collection holds back."""
        return self.path / "gc-state"

    @property
    def read_only(self) -> Path:
        """Where it is there, an operator made the bookie read-only."""
        return self.path / "read-only"

    @property
    def acknowledged(self) -> Path:
        """How many held ledgers may go, by an operator's word."""
        return self.path / "gc-acknowledged"

    @property
    def spare(self) -> Path:
        """Space that limbo, tombstones and gc-state may take on a full disk."""
        return self.path / "spare"

    @property
    def beside(self) -> tuple[Path, ...]:
        """What a bookie has beside its store; its cookie first."""
        begun = self.cookie.with_name("VERSION.new")
        return (
            *(self.cookie, begun, self.starts, self.limbo, self.tombstones),
            *(self.gc_state, self.read_only, self.acknowledged, self.spare),
        )

    def strange(self) -> list[str]:
        """Names in the directory that no bookie made; none where there is no directory. Raises OSError."""
        ours = {each for one in (self.store, *self.beside) for each in (one.name, f"{one.name}.tmp")}
        ours.add("lost+found")  # of a file system that is mounted there
        try:
            return sorted(set(os.listdir(self.path)) - ours)
        except FileNotFoundError:
            return []
