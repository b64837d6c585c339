"""Identity: whether this directory is the one of this bookie in this cluster. Asked before anything is served.

A cookie stands in the directory (VERSION) and in the metadata, the same bytes. A bookie whose disk is not mounted, or
is another's, would answer "no such entry" for what it acknowledged, and a recovery would believe it; so where one of
the two is missing, or they differ, the bookie does not start, and says what to do.

A new bookie writes VERSION.new first, then the cookie in the metadata, then names the file VERSION: after a kill at any
step the next start sees VERSION.new and goes on. Without that file an empty directory and a cookie in the metadata look
like a lost disk, and are treated so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from walkeeper.metadata import Cookie, CookieMismatchError, ExistsError, MetadataFormatError, UnknownOutcomeError
from walkeeper_bookie._checked_lines import replace_file, sync_directory
from walkeeper_bookie._data_directory import DataDirectory

__all__ = [
    "PENDING",
    "IdentityError",
    "establish",
    "expected_cookie",
    "is_directory_of",
    "no_cluster",
    "refuse_lost_store",
    "restore_hint",
]

PENDING = "VERSION.new"
"""Of the cookie that is being brought into the cluster."""
COOKIE_MAX = 64 * 1024
CREATES_MAX = 3


class IdentityError(Exception):
    """This is not the bookie that the directory or the cluster knows; `hint` is what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class CookieStore(Protocol):
    """The cookies of the cluster. MetadataError where they cannot be read or written."""

    def cookie(self, bookie_id: str) -> Cookie | None: ...

    def create_cookie(self, cookie: Cookie) -> None:
        """ExistsError, UnknownOutcomeError."""


def is_directory_of(data: DataDirectory, bookie_id: str, instance_id: str | None) -> bool:
    """Whether its cookie says so, for what must not be done to another's. Raises IdentityError, OSError."""
    here = _read(data.cookie)
    return here is not None and (here.bookie_id, here.instance_id) == (bookie_id, instance_id)


def expected_cookie(bookie_id: str, data: Path, instance_id: str, journal: Path | None = None) -> Cookie:
    """The cookie that this bookie must have; its journal lies in its data directory, or in one of its own."""
    place = os.path.abspath(data)
    journal_place = place if journal is None else os.path.abspath(journal)
    return Cookie(bookie_id, journal_dirs=(journal_place,), ledger_dirs=(place,), instance_id=instance_id)


def refuse_lost_store(data: DataDirectory, init: bool) -> None:
    """To be asked before the store is opened, which would make a new one: a directory with a cookie had one, and
    without --init none is made."""
    if data.store.is_dir():
        return
    if data.cookie.exists():
        raise IdentityError(
            f"{data.path} is a bookie's, and its ledgers are gone: there is no {data.store}",
            "look whether a disk is not mounted there. If it is lost for good, see A lost disk in the operations page",
        )
    if not init:
        raise new_directory(data)
    if strange := data.strange():
        raise IdentityError(
            f"{data.path} is not empty, and no bookie's: there is {strange[0]!r}",
            "look whether --data is right; for a new bookie name a directory that is empty, or not there yet",
        )


def establish(
    store: CookieStore,
    data: DataDirectory,
    expected: Cookie,
    is_empty: Callable[[], bool],
    before_it_counts: Callable[[], None] = lambda: None,
    *,
    init: bool = True,
) -> bool:
    """Returns where the directory is this bookie's; whether it is a new bookie, which has its cookies now. `init`: it
    may be one. One that was begun is finished without that, too.

    The caller holds the directory's lock. `before_it_counts` is called for a new bookie before its directory counts as
    one that it had. Raises IdentityError, MetadataError, OSError.
    """
    pending_file = data.cookie.with_name(PENDING)
    here, pending, there = _read(data.cookie), _read(pending_file), store.cookie(expected.bookie_id)
    if here is not None and there is not None:
        _compare(expected, here, data, f"the directory {data.path}")
        _compare(expected, there, data, "the cluster")
        return False
    if here is not None:
        _compare(expected, here, data, f"the directory {data.path}")
        raise IdentityError(
            f"{data.path} is the directory of bookie {expected.bookie_id}, but the cluster has no cookie of it",
            "look whether --metadata names the right cluster. If it does, and the cookie was deleted by mistake: "
            f"walkeeper bookie cookie create {data.path} --metadata URI",
        )
    if not is_empty():
        raise IdentityError(
            f"{data.path} has ledgers, but no cookie ({data.cookie.name}): it is another's, or the file was lost",
            f"look whether --data names the right directory. If it does: walkeeper bookie cookie create {data.path} "
            f"--metadata URI --bookie-id {expected.bookie_id}; every ledger is in limbo then",
        )
    if there is not None and (pending != there or there.differences(expected)):
        raise IdentityError(
            f"bookie {expected.bookie_id} has been in this cluster before, and {data.path} is empty: its disk is not "
            "mounted, or lost",
            "mount it. If it is lost for good: let the other bookies repair its ledgers, then walkeeper bookie cookie "
            "delete, and start it again; or start it under another --bookie-id",
        )
    if there is None:
        if not init and pending is None:
            raise new_directory(data)
        replace_file(pending_file, expected.serialise())
        try:
            _create(store, expected, perhaps=pending == expected)
        except IdentityError:
            pending_file.unlink()  # the next start would take the other's cookie for what this one began
            raise
    before_it_counts()
    os.rename(pending_file, data.cookie)
    sync_directory(data.path)
    return True


def no_cluster(uri: str, why: str) -> IdentityError:
    return IdentityError(
        f"there is no cluster at {uri} ({why})",
        "look at --metadata; where a new cluster is meant, give --init at the first start",
    )


def restore_hint(data: Path, bookie_id: str = "ID") -> str:
    """How a directory gets its cookie again."""
    return (
        f"remove {data / 'VERSION'}, then walkeeper bookie cookie create {data} --metadata URI --bookie-id {bookie_id}"
        ": every ledger is in limbo then"
    )


def new_directory(data: DataDirectory) -> IdentityError:
    return IdentityError(
        f"{data.path} is no bookie's directory yet",
        "look whether --data is right, and its disk mounted; for a new bookie give --init at its first start",
    )


def _create(store: CookieStore, cookie: Cookie, perhaps: bool) -> None:
    """A write whose outcome is unknown may be found done by the next try. `perhaps`: an earlier start, or try, may have
    written it. UnknownOutcomeError after CREATES_MAX tries: who waits for the store decides how long to."""
    unknown: UnknownOutcomeError | None = None
    for _ in range(CREATES_MAX):
        try:
            return store.create_cookie(cookie)
        except UnknownOutcomeError as error:  # noqa: PERF203 - seldom
            unknown = error
        except ExistsError:
            if (perhaps or unknown) and store.cookie(cookie.bookie_id) == cookie:
                return None
            raise IdentityError(
                f"another bookie with the id {cookie.bookie_id} came into the cluster just now",
                "give one of them another --bookie-id",
            ) from None
    assert unknown is not None
    raise unknown


def _compare(expected: Cookie, found: Cookie, data: DataDirectory, where: str) -> None:
    try:
        expected.check(found)
    except CookieMismatchError as wrong:
        names = {difference.field for difference in wrong.differences}
        said = "; ".join(f"{field} {there!r} instead of {here!r}" for field, here, there in wrong.differences)
        hint = (
            "look whether --data, --journal, --bookie-id, --advertise and --listen are those of the bookie's earlier "
            "starts"
        )
        if "instance_id" in names:
            hint = "this directory belongs to another cluster, or the cluster was formatted: look at --metadata"
        elif names <= {"journal_dirs", "ledger_dirs", "index_dirs"}:
            hint = (
                "start it with each directory under its old path, or, if one was moved on purpose, once the old one is "
                f"gone: walkeeper bookie cookie delete --metadata URI {expected.bookie_id}, "
                + restore_hint(data.path, expected.bookie_id)
            )
        raise IdentityError(f"the cookie in {where} is not this bookie's: {said}", hint) from None


def _read(path: Path) -> Cookie | None:
    """The cookie in a file; None where there is none. Raises OSError, IdentityError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        text = file.read(COOKIE_MAX)
    try:
        return Cookie.parse(text, str(path))
    except MetadataFormatError as wrong:
        if path.name == PENDING:  # a crash may leave anything of it; it is written again
            return None
        raise IdentityError(f"{path} is no cookie: {wrong}", restore_hint(path.parent)) from None
