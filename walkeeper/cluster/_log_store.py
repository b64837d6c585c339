"""LogStore: the logs of one namespace in a metadata store. Each change is read, decided and written by compare-and-set.

/walkeeper/<namespace>                      "walkeeper 1", and the instance id of the cluster that has the ledgers
/walkeeper/<namespace>/names/<name>          the id of the log
/walkeeper/<namespace>/logs/<id>             its document
/walkeeper/<namespace>/logs/<id>/<cursor>    a position

It stands beside the root of the cluster's metadata: two clusters in one store have two of them, as far as their roots
are in two places. Where they are not, the instance id tells whose ledgers a document speaks of.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote, unquote

from walkeeper._position import Position
from walkeeper.cluster._document import LogDocument, position_from, position_list
from walkeeper.errors import (
    CorruptError,
    CursorNotFoundError,
    ExistsError,
    InvalidError,
    LogDeletedError,
    LogNotFoundError,
    UnsupportedError,
)
from walkeeper.ledgers._errors import translated
from walkeeper.metadata import (
    ConflictError,
    MetadataStore,
    MissingError,
    Operation,
    UnknownOutcomeError,
)
from walkeeper.metadata import ExistsError as KeyExistsError
from walkeeper.metadata import NotEmptyError as KeyNotEmptyError

__all__ = ["Decision", "LogStore", "OtherClusterError"]

TRIES_MAX = 100
ROOT = "walkeeper"
FORMAT = "walkeeper 1"

Decision: TypeAlias = "Callable[[LogDocument], LogDocument | None]"
"""The document that is to be written; None: what there is may stay. It may raise."""


class OtherClusterError(UnsupportedError):
    """The ledgers that the logs of a namespace name are another cluster's."""


def _part(name: str) -> str:
    """A name as a part of a key."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


_parsed = lru_cache(maxsize=32)(LogDocument.parse)
"""A reader asks for the document with each batch, and mostly finds it as it was."""


class LogStore:
    """Every method asks the store, and raises what `translated` makes of its errors."""

    def __init__(
        self,
        store: MetadataStore,
        namespace: str,
        check: Callable[[], None] = lambda: None,
        *,
        root: str = "/ledgers",
        instance_id: str = "",
    ) -> None:
        self._store = store
        self._check = check
        """Raises where the store may not be used: it was closed, or belongs to the parent process."""
        self._root = f"{self._folder(root)}/{_part(namespace)}"
        self._namespace = namespace
        self._instance_id = instance_id

    @classmethod
    def namespaces(cls, store: MetadataStore, root: str = "/ledgers") -> list[str]:
        """The names of all namespaces beside the cluster at `root`. What the store raises."""
        try:
            return [unquote(part) for part in store.children(cls._folder(root))]
        except MissingError:
            return []

    @staticmethod
    def _folder(root: str) -> str:
        return f"{root.rpartition('/')[0]}/{ROOT}"

    @property
    def store(self) -> MetadataStore:
        self._check()
        return self._store

    def prepare(self, create: bool) -> bool:
        """Whether the namespace is there, made where `create`.

        UnsupportedError: it is of a newer format; OtherClusterError.
        """
        with translated("opening a namespace"):
            found = self.store.get(f"{self._root}/names", linearizable=True)
            if found is None and not create:
                return False
            self._check_home(create)
            if found is not None:
                return True
            for key in (f"{self._root}/logs", f"{self._root}/freed", f"{self._root}/names"):
                for _ in range(TRIES_MAX):
                    try:
                        self.store.create(key, parents=True)
                        break
                    except KeyExistsError:
                        break
                    except UnknownOutcomeError:
                        continue
            return True

    def _check_home(self, create: bool) -> None:
        value, found = f"{FORMAT}\n{self._instance_id}\n", None
        for _ in range(TRIES_MAX):
            found = self.store.get(self._root, linearizable=True)
            if found is not None and found.data:
                break
            if not create:
                return
            with suppress(KeyExistsError, ConflictError, MissingError, UnknownOutcomeError):
                if found is None:
                    self.store.create(self._root, value.encode(), parents=True)
                else:
                    self.store.put(self._root, value.encode(), found.version)
        written = "" if found is None else found.data.decode("utf-8", "replace")
        if written.partition("\n")[0] != FORMAT:
            raise UnsupportedError(f"namespace {self._namespace!r} has the format {written[:40]!r}, not {FORMAT!r}")
        if written != value:
            raise OtherClusterError(
                f"namespace {self._namespace!r} belongs to another cluster in the same metadata store, or to an earlier"
                f" one: its instance id is {written.split()[-1][:40]}, this cluster's is {self._instance_id}"
            )

    # ---- names ----

    def find(self, name: str) -> str | None:
        """The id of the log of that name."""
        with translated(f"looking for log {name!r}"):
            found = self.store.get(self._name_key(name), linearizable=True)
        return None if found is None else found.data.decode()

    def names(self, prefix: str) -> list[str]:
        with translated("listing the logs"):
            found = [unquote(part) for part in self.store.children(f"{self._root}/names")]
        return sorted((name for name in found if name.startswith(prefix)), key=str.encode)

    def create(self, document: LogDocument) -> str:
        """A new log; its id. ExistsError."""
        log_id = os.urandom(8).hex()
        number = self._freed(document.name)
        first = type(document.first)((number, 0, 0, 0, -1))
        created = replace(document, change=log_id, next_segment=number, first=first)
        operations = [
            Operation("create", self._name_key(document.name), log_id.encode()),
            Operation("create", self._key(log_id), created.serialise()),
        ]
        with translated(f"creating log {document.name!r}", writes=True):
            for _ in range(TRIES_MAX):
                try:
                    self.store.transact(operations)
                    return log_id
                except KeyExistsError:  # noqa: PERF203
                    if self.find(document.name) == log_id:
                        return log_id
                    raise ExistsError(f"there is a log {document.name!r}", log=document.name) from None
                except UnknownOutcomeError:
                    if self.find(document.name) == log_id:
                        return log_id
        raise ExistsError(f"log {document.name!r} comes and goes", log=document.name)

    def _freed(self, name: str) -> int:
        """Positions of an earlier log of the name are of other records: its segment numbers are not given again."""
        with translated(f"looking for log {name!r}"):
            found = self.store.get(f"{self._root}/freed/{_part(name)}", linearizable=True)
        return 1 if found is None else int(found.data)

    def _freeing(self, name: str, number: int) -> list[Operation]:
        key, data = f"{self._root}/freed/{_part(name)}", b"%d" % max(number, self._freed(name))
        there = self.store.get(key, linearizable=True)
        return [Operation("create", key, data)] if there is None else [Operation("put", key, data, there.version)]

    def rename(self, old: str, new: str) -> None:
        """LogNotFoundError; ExistsError."""
        with translated(f"renaming log {old!r}", writes=True):
            for _ in range(TRIES_MAX):
                found = self.store.get(self._name_key(old), linearizable=True)
                taken = self.store.get(self._name_key(new), linearizable=True)
                if found is None:
                    raise LogNotFoundError(f"there is no log {old!r}", log=old)
                if taken is not None:
                    if taken.data == found.data and old == new:
                        return
                    raise ExistsError(f"there is a log {new!r}", log=new)
                log_id = found.data.decode()
                document, version = self.read(log_id)
                renamed = replace(
                    document,
                    name=new,
                    next_segment=max(document.next_segment, self._freed(new)),
                    change=os.urandom(8).hex(),
                )
                try:
                    self.store.transact(
                        [
                            Operation("create", self._name_key(new), found.data),
                            Operation("delete", self._name_key(old), version=found.version),
                            *self._freeing(old, document.next_segment),
                            Operation("put", self._key(log_id), renamed.serialise(), version),
                        ]
                    )
                    return
                except (ConflictError, MissingError, KeyExistsError):
                    continue
                except UnknownOutcomeError:
                    if self.find(new) == log_id:
                        return
        raise ExistsError(f"log {old!r} changes as often as it is renamed", log=old)

    def forget(self, name: str, log_id: str, number: int) -> None:
        """The name and the document of a deleted log, with its cursors, go."""
        with translated(f"deleting log {name!r}", writes=True):
            for _ in range(TRIES_MAX):
                try:
                    found = self.store.get(self._name_key(name), linearizable=True)
                    if found is not None and found.data.decode() == log_id:
                        self.store.transact(
                            [
                                Operation("delete", self._name_key(name), version=found.version),
                                *self._freeing(name, number),
                            ]
                        )
                    for cursor in self._children(log_id):
                        self._drop(f"{self._key(log_id)}/{cursor}")
                    self._drop(self._key(log_id))
                    return
                except (  # noqa: PERF203
                    ConflictError,
                    KeyExistsError,
                    KeyNotEmptyError,
                    MissingError,
                    UnknownOutcomeError,
                ):
                    continue

    # ---- documents ----

    def log_ids(self) -> list[str]:
        """The ids of all logs, also of those that are being deleted."""
        with translated("listing the logs"):
            return self.store.children(f"{self._root}/logs")

    def read(self, log_id: str) -> tuple[LogDocument, int]:
        """The document and its version. LogDeletedError."""
        found = self.look(log_id)
        if found is None or found[0].deleted:
            raise LogDeletedError("the log was deleted")
        return found

    def look(self, log_id: str) -> tuple[LogDocument, int] | None:
        """The same, also of a log that is being deleted."""
        key = self._key(log_id)
        with translated("reading the metadata of a log"):
            found = self.store.get(key, linearizable=True)
        return None if found is None else (_parsed(found.data, key), found.version)

    def change(self, log_id: str, decide: Decision, also: list[Operation] | None = None) -> LogDocument:
        """The document once `decide` has had its way; it may be asked several times. LogDeletedError.

        `also` is written in the same transaction, and never by itself.
        """
        key = self._key(log_id)
        token = os.urandom(8).hex()
        with translated("changing the metadata of a log", writes=True):
            for _ in range(TRIES_MAX):
                document, version = self.read(log_id)
                if document.change == token:
                    return document
                wanted = decide(document)
                if wanted is None and not also:
                    return document
                wanted = replace(wanted or document, change=token)
                data = wanted.serialise()
                try:
                    if also:
                        self.store.transact([Operation("put", key, data, version), *also])
                    else:
                        self.store.put(key, data, version)
                    return wanted
                except (ConflictError, UnknownOutcomeError):
                    continue
                except MissingError:
                    continue
        raise CorruptError("the metadata of a log change as often as they are read")

    # ---- cursors ----

    def cursors(self, log_id: str) -> dict[str, Position]:
        with translated("reading the cursors of a log"):
            found = {}
            for part in self._children(log_id):
                value = self.store.get(f"{self._key(log_id)}/{part}", linearizable=True)
                if value is not None:
                    found[unquote(part)] = position_from(json.loads(value.data))
        return found

    def cursor(self, log_id: str, name: str) -> Position:
        """CursorNotFoundError, LogDeletedError."""
        self.read(log_id)
        with translated(f"reading cursor {name!r}"):
            found = self.store.get(self._cursor_key(log_id, name), linearizable=True)
        if found is None:
            raise CursorNotFoundError(f"there is no cursor {name!r}")
        return position_from(json.loads(found.data))

    def set_cursor(self, log_id: str, name: str, at: Position, check: Callable[[LogDocument], None]) -> None:
        """Forward only: InvalidError. `check` raises where the log has no such place."""
        key, data = self._cursor_key(log_id, name), json.dumps(position_list(at)).encode()
        with translated(f"moving cursor {name!r}", writes=True):
            for _ in range(TRIES_MAX):
                found = self.store.get(key, linearizable=True)
                if found is not None:
                    before = position_from(json.loads(found.data))
                    if before == at:
                        return
                    if at < before:
                        raise InvalidError(
                            f"moving the cursor {name!r} to {tuple(at.dlsn)}: it stands at {tuple(before.dlsn)}, and"
                            " moves forward only"
                        )
                try:
                    if found is None:
                        # The document is written too: a truncation that did not see this cursor fails.
                        def decide(document: LogDocument) -> LogDocument | None:
                            check(document)
                            return document

                        self.change(log_id, decide, [Operation("create", key, data)])
                    else:
                        check(self.read(log_id)[0])
                        self.store.put(key, data, found.version)
                    return
                except (ConflictError, MissingError, UnknownOutcomeError, KeyExistsError):
                    continue

    def delete_cursor(self, log_id: str, name: str) -> None:
        """CursorNotFoundError."""
        self.cursor(log_id, name)
        with translated(f"deleting cursor {name!r}", writes=True):
            self._drop(self._cursor_key(log_id, name))

    def _drop(self, key: str) -> None:
        for _ in range(TRIES_MAX):
            try:
                self.store.delete(key)
                return
            except MissingError:  # noqa: PERF203
                return
            except UnknownOutcomeError:
                continue

    def _children(self, log_id: str) -> list[str]:
        try:
            return self.store.children(self._key(log_id))
        except MissingError:
            return []

    def _name_key(self, name: str) -> str:
        return f"{self._root}/names/{_part(name)}"

    def _key(self, log_id: str) -> str:
        return f"{self._root}/logs/{log_id}"

    def _cursor_key(self, log_id: str, name: str) -> str:
        return f"{self._key(log_id)}/{_part(name)}"
