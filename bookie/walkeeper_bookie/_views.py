"""Views: what the running bookie shows over HTTP, put together when somebody asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from walkeeper_bookie._directory import DirectoryStats, JournalTimes, Recovery
from walkeeper_bookie._disk_watch import DiskState, Space
from walkeeper_bookie._metrics import Facts, Recent, counted, render
from walkeeper_bookie._server import ServerStats
from walkeeper_bookie._state_files import LimboState

__all__ = ["BookieViews", "Shown"]


class Shown(Protocol):
    """What the views ask of the bookie. From any thread."""

    disk_state: DiskState
    space: Space | None
    stopping: bool

    def problem(self) -> str:
        """Why clients should not be sent here; empty: they may."""
        ...

    def facts(self) -> Facts: ...

    def server_stats(self) -> ServerStats: ...

    def directory_stats(self) -> DirectoryStats: ...

    def journal_times(self) -> JournalTimes: ...

    def recovery(self) -> Recovery: ...

    def wish_read_only(self, read_only: bool) -> None: ...

    def limbo_state(self) -> LimboState: ...

    def change_limbo(self, add: bool, ledger_ids: Collection[int] | None) -> None: ...


class BookieViews:
    """The views of one bookie."""

    def __init__(self, bookie: Shown) -> None:
        self._bookie = bookie
        self._recent = Recent()

    def note(self) -> None:
        """To be called now and then, so that quantiles are those of the last minute."""
        self._recent.note(counted(self._bookie.server_stats(), self._bookie.journal_times()))

    def metrics(self) -> str:
        server, journal = self._bookie.server_stats(), self._bookie.journal_times()
        recent = self._recent.since(counted(server, journal))
        directory, facts = self._bookie.directory_stats(), self._bookie.facts()
        if self._bookie.stopping:
            facts = replace(facts, registered=False)
        return render(facts, server, directory, self._bookie.recovery(), journal, recent)

    def not_ready(self) -> str:
        return self._bookie.problem()

    def info(self) -> Mapping[str, object]:
        space = self._bookie.space
        return {"freeSpace": space.free if space else 0, "totalSpace": space.total if space else 0}

    def state(self) -> Mapping[str, object]:
        disk = self._bookie.disk_state
        return {
            "running": not self._bookie.stopping,
            "readOnly": disk.read_only,
            "shuttingDown": self._bookie.stopping,
            "availableForHighPriorityWrites": disk.high_priority,
        }

    def set_read_only(self, read_only: bool) -> None:
        self._bookie.wish_read_only(read_only)

    def limbo(self) -> Mapping[str, object]:
        state = self._bookie.limbo_state()
        return {"everything": state.everything, "ledgers": list(state.ledger_ids), "cleared": list(state.cleared)}

    def change_limbo(self, add: bool, ledger_ids: Collection[int] | None) -> None:
        self._bookie.change_limbo(add, ledger_ids)
