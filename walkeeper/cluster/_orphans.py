"""Orphans: ledgers that were made for a log, and that no log refers to.

The document of a log names a ledger before the ledger is made (as the intent), while it is a segment, and until it is
deleted. A document that stopped naming a ledger never names it again: the one change that makes a ledger a segment is
conditional on the number of the writer that intended it, and that writer has been overtaken. So a ledger that was seen,
and that its log's document, read behind that, does not name, is nobody's. One that is just being made is named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from walkeeper.cluster._document import LogDocument
from walkeeper.cluster._ledgers import LOG, NAMESPACE, SEGMENT
from walkeeper.cluster._log_store import LogStore, OtherClusterError
from walkeeper.errors import CorruptError, LedgerNotFoundError, UnavailableError, UnsupportedError
from walkeeper.ledgers import LedgerClient
from walkeeper.ledgers._errors import translated
from walkeeper.metadata import ConflictError, LedgerMetadata, MissingError

__all__ = ["Orphan", "Orphans"]


@dataclass(frozen=True, slots=True)
class Orphan:
    """A ledger that no log refers to."""

    ledger_id: int
    namespace: str
    log_id: str
    segment: int
    created_ms: int | None
    reason: str
    """Why nothing refers to it, for people; or why that is not certain."""
    certain: bool
    """Whether it may be deleted. Not where documents may be lost: then the ledger is all that is left of records."""


class Orphans:
    """The orphans of one cluster: `find`, then `delete` of what it found, by the same object."""

    def __init__(self, client: LedgerClient) -> None:
        self._client = client
        self._instance_id = ""
        self.unreadable: list[str] = []
        """Of the last `find`: ledgers whose metadata cannot be read, each in a sentence."""

    def find(self) -> list[Orphan]:
        """Those that there are, by id. Each was seen before the documents were read."""
        self._instance_id = self._instance()
        self.unreadable = []
        made = [orphan for ledger_id in self._client.list() if (orphan := self._made_for_a_log(ledger_id)) is not None]
        if not made:
            return []
        stores = {name: self._store(name) for name in {*self._namespaces(), *(one.namespace for one in made)}}
        named: set[int] = set()
        unread: list[str] = []
        elsewhere: dict[str, str] = {}
        logs: dict[str, list[LogDocument] | None] = {}
        for name, store in stores.items():
            try:
                documents = _documents(store)
            except OtherClusterError as error:
                elsewhere[name] = str(error)  # it refers to that cluster's ledgers
                continue
            except (CorruptError, UnsupportedError) as error:
                unread.append(f"namespace {name!r} cannot be read, and may refer to it: {error}")
                continue
            logs[name] = documents
            for document in documents or ():
                named |= _named(document)
        found = []
        for one in made:
            if one.ledger_id not in named:
                doubts = [*elsewhere.get(one.namespace, "").splitlines(), *unread]
                found.append(self._judged(one, stores[one.namespace], logs.get(one.namespace), doubts))
        return [one for one in found if one is not None]

    def delete(self, orphan: Orphan) -> bool:
        """Whether it is gone by this call. It stays where it is not certain to be an orphan now: everything is read
        again, behind a look whether this is the same cluster still."""
        session = self._client._cluster.store.session()
        if not orphan.certain or self._instance() != self._instance_id:
            return False
        with translated(f"deleting ledger {orphan.ledger_id}", ledger_id=orphan.ledger_id, writes=True):
            ledgers = self._client._ledgers
            found = ledgers.read(orphan.ledger_id, linearizable=True)
            if found is None or _of_a_log(orphan.ledger_id, found.value) != replace(orphan, reason="", certain=False):
                return False
            logs = self._store(orphan.namespace)
            there = logs.look(orphan.log_id)
            if there is not None and orphan.ledger_id in _named(there[0]):
                return False
            if there is None and not (logs.prepare(create=False) and logs.log_ids()):
                return False  # all documents went meanwhile
            if self._client._cluster.store.session() != session:
                return False
            try:
                ledgers.delete(orphan.ledger_id, found.version)
            except (ConflictError, MissingError):
                return False
            return True

    def _judged(
        self, made: Orphan, store: LogStore, logs: list[LogDocument] | None, doubts: list[str]
    ) -> Orphan | None:
        """The ledger with its reason; None: its log refers to it after all, or it is gone."""
        if doubts:
            return replace(made, reason=doubts[0])
        if logs is None:
            return replace(made, reason=f"there is no namespace {made.namespace!r}: its documents may be lost")
        there = store.look(made.log_id)
        if there is not None and made.ledger_id in _named(there[0]):
            return None
        try:
            self._client.metadata(made.ledger_id)
        except LedgerNotFoundError:
            return None
        if there is not None:
            reason = f"log {there[0].name!r} does not refer to it: its writer was overtaken while it began the segment"
            return replace(made, reason=reason, certain=True)
        if not logs:
            return replace(made, reason=f"namespace {made.namespace!r} has no log at all: its documents may be lost")
        return replace(made, reason="its log was deleted", certain=True)

    def _made_for_a_log(self, ledger_id: int) -> Orphan | None:
        try:
            return _of_a_log(ledger_id, self._client.metadata(ledger_id))
        except LedgerNotFoundError:
            return None  # it was deleted meanwhile
        except (CorruptError, UnsupportedError) as error:
            self.unreadable.append(str(error))
            return None

    def _instance(self) -> str:
        with translated("looking which cluster this is"):
            found = self._client._cluster.instance_id()
        if found is None:
            raise UnavailableError("the cluster has no instance id: its metadata are lost, or are another store's")
        return found

    def _namespaces(self) -> list[str]:
        with translated("listing the namespaces"):
            return LogStore.namespaces(self._client._cluster.store, self._client._cluster.root)

    def _store(self, namespace: str) -> LogStore:
        cluster = self._client._cluster
        return LogStore(cluster.store, namespace, self._client._check, root=cluster.root, instance_id=self._instance_id)


def _of_a_log(ledger_id: int, metadata: LedgerMetadata) -> Orphan | None:
    """The ledger as what it may be; None: it was not made for a log."""
    custom = metadata.custom_metadata
    try:
        namespace, log_id, segment = (custom[name].decode() for name in (NAMESPACE, LOG, SEGMENT))
        int(log_id, 16)
        return Orphan(ledger_id, namespace, log_id, int(segment), metadata.ctime, "", False)
    except (KeyError, ValueError):
        return None


def _documents(store: LogStore) -> list[LogDocument] | None:
    """Of all logs of a namespace, also of those that are being deleted; None: there is no such namespace. CorruptError,
    UnsupportedError."""
    if not store.prepare(create=False):
        return None
    found = [store.look(log_id) for log_id in store.log_ids()]
    return [one[0] for one in found if one is not None]


def _named(document: LogDocument) -> set[int]:
    """The ledgers that a document refers to."""
    named = {segment.ledger_id for segment in document.segments} | set(document.deleting)
    return named if document.intent is None else named | {document.intent}
