"""What lies in a bookie's data directory, by name.

The ledger store is a directory in it: the engine owns all files there, and the bookie's own lie beside.
"""

from __future__ import annotations

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
    def limbo(self) -> Path:
        """Of which ledgers nothing may be said to be absent."""
        return self.path / "limbo"

    @property
    def tombstones(self) -> Path:
        """Ids of deleted ledgers that are still refused."""
        return self.path / "tombstones"

    @property
    def read_only(self) -> Path:
        """Where it is there, an operator made the bookie read-only."""
        return self.path / "read-only"
