"""A start that fails leaves nothing behind that the next one, with what was wrong put right, would stumble over."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bookie_runs import Bookies, bookies_in, free_port

from walkeeper.errors import (
    DamagedError,
    DirectoryLockedError,
    InvalidError,
    JournalFailedError,
    NoMemoryError,
    NoSpaceError,
    StorageError,
    UnsupportedError,
)
from walkeeper.metadata import open_store
from walkeeper_bookie._addresses import AddressError
from walkeeper_bookie._exit_status import ExitStatus
from walkeeper_bookie._failures import EXPECTED, hint_of, status_of


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def nothing_was_made(bookies: Bookies) -> bool:
    opened = open_store(bookies.metadata).store
    try:
        return not (bookies.place / "data").exists() and opened.get("/ledgers/cookies") is None
    finally:
        opened.close()


def test_an_address_in_use_is_no_identity(bookies: Bookies) -> None:
    with taken_port() as port:
        bookie = bookies.start("--init", port=port)
        assert bookie.ended() == 7
        assert f"listen 127.0.0.1:{port}" in bookie.said()
        assert nothing_was_made(bookies)
        bookies.start("--init").ready()


def test_nor_is_one_whose_http_address_is_in_use(bookies: Bookies) -> None:
    with taken_port() as port:
        bookie = bookies.start("--init", "--http", f"127.0.0.1:{port}")
        assert bookie.ended() == 7
        assert f"http 127.0.0.1:{port}" in bookie.said()
        assert nothing_was_made(bookies)
        bookies.start("--init").ready()


def test_nor_is_one_that_wants_a_port_twice(bookies: Bookies) -> None:
    port = free_port()
    bookie = bookies.start("--init", "--http", f"127.0.0.1:{port}", port=port)
    assert bookie.ended() == 7
    assert nothing_was_made(bookies)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_host_that_is_not_this_machine_is_no_identity(bookies: Bookies, host: str) -> None:
    bookie = bookies.start("--init", "--listen", f"{host}:{free_port()}")
    assert bookie.ended() == 7
    assert host in bookie.said()
    assert "No such file" not in bookie.said()
    assert nothing_was_made(bookies)


def test_a_host_without_an_address_is_no_missing_file(bookies: Bookies) -> None:
    first = bookies.start("--init", "--bookie-id", "b1")
    first.ready()
    assert first.stop() == 0
    second = bookies.start("--bookie-id", "b1", "--listen", f"no-such-host.invalid:{free_port()}")
    assert second.ended() == 7
    assert "no address" in second.said()
    assert "No such file" not in second.said()


@pytest.mark.parametrize("metadata", ["foo:bar", "zk+flat://127.0.0.1:1/ledgers"])
def test_behind_a_wrong_metadata_uri_the_journal_is_free_to_choose(bookies: Bookies, metadata: str) -> None:
    wrong = bookies.start("--init", metadata=metadata)
    assert wrong.ended() == 2
    assert nothing_was_made(bookies)
    bookies.start("--init", "--journal", str(bookies.place / "journal")).ready()


def test_a_mistyped_path_of_metadata_is_not_made(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    mistyped = bookies.place / "metadate.db"
    second = bookies.start(port=first.port, metadata=f"sqlite:{mistyped}")
    assert second.ended() == 4
    assert "there is no cluster" in second.said()
    assert not mistyped.exists()


def test_metadata_that_did_not_answer_leave_the_journal_free_to_choose(bookies: Bookies) -> None:
    silent = bookies.start("--init", "--start-timeout", "300ms", metadata=f"zk://127.0.0.1:{free_port()}/ledgers")
    assert silent.ended() == 3
    assert nothing_was_made(bookies)
    bookies.start("--init", "--journal", str(bookies.place / "journal")).ready()


# ---- what it says, and how it ends ----

NOBODY = 65534
WITHOUT_CAPABILITIES = """
import ctypes
_LINUX_CAPABILITY_VERSION_3 = 0x20080522
assert ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()) == 0
"""
"""Root without them is a user like others: what is another's it may not enter."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="who is not root cannot give a file to another user")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/data"), ExitStatus.WRONG_USE),
        (OSError(errno.EROFS, "Read-only file system", "/data"), ExitStatus.WRONG_USE),
        (StorageError("x", system_error=errno.EACCES), ExitStatus.WRONG_USE),
        (StorageError("x", system_error=errno.EIO), ExitStatus.DISK_FAILED),
        (StorageError("x", system_error=errno.ENOSPC), ExitStatus.NO_SPACE),
        (OSError(errno.ENOSPC, "No space left on device"), ExitStatus.NO_SPACE),
        (OSError(errno.EIO, "Input/output error"), ExitStatus.DISK_FAILED),
        (NoSpaceError("x"), ExitStatus.NO_SPACE),
        (DamagedError("x"), ExitStatus.DISK_FAILED),
        (InvalidError("x"), ExitStatus.WRONG_USE),
        (UnsupportedError("x"), ExitStatus.WRONG_USE),
        (NoMemoryError("x"), ExitStatus.SHORT_OF_RESOURCES),
        (MemoryError(), ExitStatus.SHORT_OF_RESOURCES),
        (StorageError("x", system_error=errno.EMFILE), ExitStatus.SHORT_OF_RESOURCES),
        (StorageError("x", system_error=errno.EAGAIN), ExitStatus.SHORT_OF_RESOURCES),
        (OSError(errno.ENFILE, "Too many open files in system"), ExitStatus.SHORT_OF_RESOURCES),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), ExitStatus.SHORT_OF_RESOURCES),
        (JournalFailedError("x", system_error=errno.ENOMEM), ExitStatus.DISK_FAILED),
    ],
)
def test_what_may_not_be_or_has_no_room_is_no_failed_disk(error: Exception, status: ExitStatus) -> None:
    assert isinstance(error, EXPECTED)
    assert status_of(error) == status


def test_an_address_that_had_no_descriptor_is_not_in_use() -> None:
    refused = AddressError("listen")
    refused.__cause__ = StorageError("x", system_error=errno.EMFILE)
    assert status_of(refused) == ExitStatus.SHORT_OF_RESOURCES
    refused.__cause__ = StorageError("x", system_error=errno.EADDRINUSE)
    assert status_of(refused) == ExitStatus.ADDRESS_IN_USE


@pytest.mark.parametrize("descriptors", [13, 14, 15, 16, 17, 18])
def test_a_shortage_of_descriptors_is_no_failed_disk(bookies: Bookies, descriptors: int) -> None:
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))"
    bookie = bookies.start("--init", "--start-timeout", "300ms", before=limit)
    assert bookie.ended() in (3, 10), bookie.said()
    bookies.start("--init", port=bookie.port).ready()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (DirectoryLockedError("x"), "--lock-timeout"),
        (NoSpaceError("x"), "start it again"),
        (DamagedError("x"), "walkeeper verify"),
        (InvalidError("x", hint="chmod go-w"), "chmod go-w"),
    ],
)
def test_hints_are_the_bookies_own(error: Exception, says: str) -> None:
    hint = hint_of(error)
    assert hint is not None
    assert says in hint
    for word in ("read_only=", "on_damage=", "lock_timeout=", "truncate"):
        assert word not in hint


@as_root
def test_a_data_directory_that_it_may_not_enter_is_wrong_use(bookies: Bookies) -> None:
    (bookies.place / "data").mkdir(0o700)
    os.chown(bookies.place / "data", NOBODY, NOBODY)
    bookie = bookies.start("--init", before=WITHOUT_CAPABILITIES)
    assert bookie.ended() == 2
    assert "Permission denied" in bookie.said()


@as_root
def test_metadata_that_it_may_not_read_are_not_waited_for(bookies: Bookies) -> None:
    (bookies.place / "metadata.db").touch(0o600)
    os.chown(bookies.place / "metadata.db", NOBODY, NOBODY)
    bookie = bookies.start("--init", before=WITHOUT_CAPABILITIES)
    assert bookie.ended() == 2
    assert "permissions" in bookie.said()
    assert "does not answer" not in bookie.said()


COMMAS = "the path of the {} directory", "without commas, tabs and newlines"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a,b", COMMAS),
        ("a\tb", COMMAS),
        ("a\nb", COMMAS),
        ("a\udcffb", ("walkeeper-bookie: --{} '", "all of it UTF-8")),
    ],
)
@pytest.mark.parametrize("what", ["data", "journal"])
def test_a_directory_that_no_cookie_can_name_is_wrong_use(
    bookies: Bookies, name: str, said: tuple[str, str], what: str
) -> None:
    places = {each: bookies.place / each for each in ("data", "journal")}
    places[what] = bookies.place / name
    bookie = bookies.start("--init", "--journal", str(places["journal"]), data=places["data"])
    assert bookie.ended() == ExitStatus.WRONG_USE
    for words in said:
        assert words.format(what) in bookie.said()
    assert "Traceback" not in bookie.said()
    assert sorted(path.suffix for path in bookies.place.iterdir()) == [".log"]


def test_a_file_is_no_data_directory(bookies: Bookies) -> None:
    (bookies.place / "data").touch()
    for options in ([], ["--init"]):
        bookie = bookies.start(*options)
        assert bookie.ended() == 2
        assert "is no directory" in bookie.said()


# ---- signals that come early ----

SENT_EARLY = """
import importlib, os, signal
import_module = importlib.import_module

def signalled(name, *rest):
    if name == "walkeeper_bookie._process":
        os.kill(os.getpid(), signal.{})
    return import_module(name, *rest)

importlib.import_module = signalled
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_told_to_stop_before_it_began_it_just_ends(bookies: Bookies, number: str) -> None:
    bookie = bookies.start("--init", before=SENT_EARLY.format(number))
    assert bookie.ended() == 0
    assert bookie.said() == ""
    assert nothing_was_made(bookies)


def test_to_read_the_settings_again_is_no_reason_to_end_before_it_began(bookies: Bookies) -> None:
    bookies.start("--init", before=SENT_EARLY.format("SIGHUP")).ready()
