"""LedgerIds: new ids for ledgers, by BookKeeper's rule, so that its clients and ours never take the same one."""

from __future__ import annotations

import re

from walkeeper.metadata._layout import SHORT_LEDGER_ID_MAX, LedgerManager
from walkeeper.metadata._settle import TRIES_MAX
from walkeeper.metadata._store import ExistsError, MetadataError, MetadataStore, MissingError, UnknownOutcomeError

_HIGH = re.compile(r"HOB-([0-9]{10})")
_HIGH_MAX = 2**31 - 1
_HIGH_KEPT = 3  # so many folders stay: others may be about to use the last but one


class LedgerIdOverflowError(MetadataError):
    """The ids that this layout has keys for are used up."""


class LedgerIds:
    """Numbers that only rise. Short ids come from `idgen`; when they are used up, long ones from `idgen-long`."""

    def __init__(self, store: MetadataStore, root: str, manager: LedgerManager) -> None:
        self._store = store
        self._short = root if manager is LedgerManager.FLAT else f"{root}/idgen"
        self._long = f"{root}/idgen-long"
        self._has_long = manager in (LedgerManager.HIERARCHICAL, LedgerManager.LONG_HIERARCHICAL)

    def next_id(self) -> int:
        """An id that was not given before. LedgerIdOverflowError. Where the store fails an id may be lost."""
        if self._has_long and self._store.get(self._long) is not None:
            return self._next_long()
        number = self._take_number(self._short)
        if number is not None:
            return number
        if not self._has_long:
            raise LedgerIdOverflowError(f"{self._short} has given all ids up to {SHORT_LEDGER_ID_MAX}", self._short)
        self._create(self._long)
        return self._next_long()

    def _next_long(self) -> int:
        while True:
            names = (_HIGH.fullmatch(name) for name in self._store.children(self._long))
            highs = sorted(int(found[1]) for found in names if found)
            high = highs[-1] if highs else 0
            low = self._take_number(f"{self._long}/HOB-{high:010d}") if high else None
            if low is not None:
                self._prune(highs)
                return high << 32 | low
            if high >= _HIGH_MAX:
                raise LedgerIdOverflowError(f"{self._long} has given all ids", self._long)
            self._create(f"{self._long}/HOB-{high + 1:010d}")

    def _take_number(self, folder: str) -> int | None:
        """The next number of the folder, None where they are used up. One whose creation nobody knows of is lost."""
        unsure: UnknownOutcomeError | None = None
        for _ in range(TRIES_MAX):
            try:
                key = self._store.create_sequential(f"{folder}/ID-", ephemeral=True)
            except MissingError:
                self._create(folder)
                continue
            except UnknownOutcomeError as error:
                unsure = error
                continue
            try:
                self._store.delete(key)
            except MetadataError:
                pass  # it is ephemeral
            number = int(key.rpartition("/ID-")[2])
            return number if 0 <= number <= SHORT_LEDGER_ID_MAX else None
        raise unsure or MissingError(f"there is no {folder}, however often it is made", folder)

    def _create(self, key: str) -> None:
        try:
            self._store.create(key, parents=True)
        except (ExistsError, UnknownOutcomeError):
            pass  # what needs it finds out

    def _prune(self, highs: list[int]) -> None:
        for high in highs[:-_HIGH_KEPT]:
            try:
                self._store.delete(f"{self._long}/HOB-{high:010d}")
            except MetadataError:  # noqa: PERF203 - each by itself
                pass  # somebody else does it, or the next call
