"""What a metadata store is: the protocol, its values and its errors. Every store keeps all of it.

Keys are absolute paths (`/ledgers/available/127.0.0.1:3181`), values are bytes. A key may have a value and children; on
a store without folders, children are the keys below it. A *version* is an opaque integer that changes with each write
of a key; it is compared for equality and nothing else.

A write has three outcomes: it is done (the call returns), it is refused (`ConflictError`, `ExistsError`,
`MissingError`: definitely nothing was written), or nobody knows (`UnknownOutcomeError`): the caller reads the key
again, and finds out by a token that it wrote or by a predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

# The limits of etcd (operations) and of ZooKeeper (bytes): no store takes more, so that code for one works on all.
TRANSACTION_OPERATIONS_MAX = 100
TRANSACTION_BYTES_MAX = 512 * 1024
# ZooKeeper takes requests below 1 MiB: a key and a value together, and what the request needs for itself.
KEY_BYTES_MAX = 4096
VALUE_BYTES_MAX = 1024 * 1024 - 2 * KEY_BYTES_MAX


class MetadataError(Exception):
    """A metadata store refused or failed. `key` is what it was about, or None."""

    def __init__(self, text: str, key: str | None = None) -> None:
        super().__init__(text)
        self.key = key


class ExistsError(MetadataError):
    """The key is there already; nothing was written."""


class MissingError(MetadataError):
    """The key is not there; nothing was written."""


class ConflictError(MetadataError):
    """The key has another version than the one given; nothing was written."""


class NotEmptyError(MetadataError):
    """The key has children; nothing was deleted."""


class InvalidKeyError(MetadataError):
    """No store has keys that look so, or has this one in that place; nothing was sent."""


class LimitError(MetadataError):
    """A key, a value or a transaction is larger than its limit, which the text names; nothing was sent."""


class UnknownOutcomeError(MetadataError):
    """The write may or may not have happened, or may still happen: read the key again."""


class UnavailableError(MetadataError):
    """The store cannot be reached, or does not answer in time. Of a write: nothing was written."""


class ClosedError(MetadataError):
    """The store was closed here."""


@dataclass(frozen=True)
class Value:
    """What a key holds: its bytes and the version to give to the next conditional write."""

    data: bytes
    version: int
    ephemeral: bool = False


@dataclass(frozen=True)
class Operation:
    """One step of a transaction. `version` None: whatever version it has. `check` writes nothing."""

    kind: Literal["create", "put", "delete", "check"]
    key: str
    data: bytes = b""
    version: int | None = None
    ephemeral: bool = False


class Watch(Protocol):
    """A hint that something changed, backed by polling where the store has nothing better; it may come too often."""

    def close(self) -> None:
        """No call of the callback begins any more. From any thread, also from the callback."""
        ...


class MetadataStore(Protocol):
    """A connection to a store. Every call may be made from any thread; `close` ends those that wait."""

    uri: str

    def get(self, key: str, *, linearizable: bool = False) -> Value | None:
        """The value, or None where there is no such key. `linearizable`: not older than any write that ended before."""
        ...

    def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
        """A new key; its version. ExistsError, MissingError (no parent). `parents`: missing keys above are made, empty.

        An ephemeral key has no children. It goes when this store's session ends: by `close`, or some time after this
        process has died.
        """
        ...

    def create_sequential(self, prefix: str, data: bytes = b"", *, ephemeral: bool = False) -> str:
        """A new key, `prefix` and ten digits that only rise among the children of its parent; the key."""
        ...

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        """Another value; the new version. ConflictError where `version` is given and is not the key's; MissingError."""
        ...

    def delete(self, key: str, version: int | None = None) -> None:
        """The key goes. ConflictError; MissingError; NotEmptyError where it has children."""
        ...

    def transact(self, operations: Sequence[Operation]) -> list[int | None]:
        """All of them or none, in order; the new versions (None: deleted or checked). The first refusal is raised.

        No key is written twice in one (etcd takes no such transaction); one may be checked and written.
        """
        ...

    def children(self, key: str) -> list[str]:
        """The names (not the keys) just below, in byte order; MissingError where the key is not there."""
        ...

    def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
        """The names just below, in byte order, `page` of them a request. MissingError, also in the middle.

        One that comes or goes meanwhile may be missed. A listing that ended by an error is no listing.
        """
        ...

    def watch(self, key: str, callback: Callable[[], None]) -> Watch:
        """Calls back, on a thread of the store, soon after the key's value, existence or children changed."""
        ...

    def on_session(self, callback: Callable[[Literal["lost", "new"]], None]) -> Watch:
        """Calls back when the session is lost (its ephemeral keys go) and when there is a new one."""
        ...

    def session(self) -> int:
        """A number, another one after the session was lost: what was true of the old one must be checked again."""
        ...

    def close(self) -> None:
        """Ends the session: its ephemeral keys go. Idempotent."""
        ...
