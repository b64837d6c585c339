"""BookieCopies: what one given bookie has of a ledger.

A client of ledgers asks whichever bookie answers, so that it never sees a copy that is bad. This one is given a cluster
in memory, in which each ledger is on one bookie alone: whatever it reads is the copy of that bookie, and its digest is
checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walkeeper import LedgerClient
from walkeeper.errors import (
    DamagedError,
    Error,
    LedgerNotFoundError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from walkeeper.metadata import Cluster, MemoryStore, OpenedStore

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from walkeeper.ledgers import LedgerReader
    from walkeeper.metadata import LedgerMetadata, ServiceInfo

__all__ = ["BadCopies", "BookieCopies", "held_runs"]

ROOT = "/ledgers"


@dataclass(frozen=True)
class BadCopies:
    """Entries, each held by the bookie as the metadata say, of which it has no good copy."""

    kind: str
    """missing, damaged, unreachable or refused."""
    first_entry_id: int
    last_entry_id: int
    entries_count: int
    """From the first to the last one, those that this bookie holds."""
    detail: str


class BookieCopies:
    """Reads from one bookie. A context manager."""

    def __init__(self, bookie_id: str, info: ServiceInfo | None, timeout: float) -> None:
        """`info`: where it answers, as the cluster's metadata have it; None: it is down, or its id says it."""
        self._bookie_id = bookie_id
        self._store = MemoryStore()
        opened = OpenedStore(self._store, ROOT, "longhierarchical")
        self._client = LedgerClient(opened, create=True, connect_timeout=timeout, read_timeout=timeout)
        self._cluster = Cluster(self._store, ROOT)
        if info is not None:
            self._store.create(f"{ROOT}/{self._cluster.keys.writable}/{bookie_id}", info.serialise())
        self._down = ""
        """Why the bookie is not asked any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def check(self, ledger_id: int, metadata: LedgerMetadata, runs: Iterable[tuple[int, int]]) -> Iterator[BadCopies]:
        """Reads the entries of these runs (first and last, rising), and yields those of which there is no good copy."""
        alone = replace(
            metadata,
            ensemble_size=1,
            write_quorum=1,
            ack_quorum=1,
            segments={0: (self._bookie_id,)},
            custom_metadata={},
            format_version=3,
        )
        self._cluster.ledgers.create(alone, ledger_id)
        try:
            with self._client.open_no_recovery(ledger_id, password=metadata.password or b"") as reader:
                yield from _joined(self._bad(reader, runs))
        finally:
            self._cluster.ledgers.delete(ledger_id)

    def _bad(self, reader: LedgerReader, runs: Iterable[tuple[int, int]]) -> Iterator[BadCopies | None]:
        """None: good ones were read."""
        whole = ("unreachable", self._down) if self._down else None
        """What is known of all that follows."""
        for first, last in runs:
            at = first
            while at <= last:
                if whole is not None:
                    yield BadCopies(whole[0], at, last, last - at + 1, whole[1])
                    break
                begun = at
                try:
                    for entry in reader.read_unconfirmed(at, last):
                        at = entry.entry_id + 1
                    yield None
                except LedgerNotFoundError as error:
                    whole = ("missing", str(error))
                except UnavailableError as error:
                    self._down = str(error)
                    whole = ("unreachable", self._down)
                except UnauthorizedError as error:
                    whole = ("refused", str(error))
                except (NotFoundError, DamagedError) as error:
                    if at > begun:
                        yield None
                    yield BadCopies(_kind(error), at, at, 1, str(error))
                    at += 1


def held_runs(first: int, last: int, place: int, ensemble_size: int, write_quorum: int) -> Iterator[tuple[int, int]]:
    """The entries from `first` to `last` that the bookie at this place of an ensemble holds, as runs.

    An entry is striped: it goes to the bookies at its number modulo the size of the ensemble, and behind.
    """
    if ensemble_size == write_quorum:
        yield first, last
        return
    begin = first - (first - (place - write_quorum + 1)) % ensemble_size
    while begin <= last:
        run = max(begin, first), min(begin + write_quorum - 1, last)
        if run[0] <= run[1]:
            yield run
        begin += ensemble_size


def _kind(error: Error) -> str:
    return "damaged" if isinstance(error, DamagedError) else "missing"


def _joined(found: Iterable[BadCopies | None]) -> Iterator[BadCopies]:
    """Neighbours of one kind as one."""
    before: BadCopies | None = None
    for now in found:
        if before is not None and now is not None and before.kind == now.kind:
            count = before.entries_count + now.entries_count
            before = replace(before, last_entry_id=now.last_entry_id, entries_count=count)
            continue
        if before is not None:
            yield before
        before = now
    if before is not None:
        yield before
