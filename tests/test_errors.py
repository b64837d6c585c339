"""Exceptions: every status has one, and each says what a program needs to know."""

from __future__ import annotations

import builtins
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import walkeeper
from walkeeper import errors
from walkeeper._native import ffi, lib

STATUSES = {int(number): name for number, name in ffi.typeof("wk_status").elements.items()}
# Answers that a program asks for, not failures.
NOT_RAISED = {"WK_OK", "WK_END"}
NOT_RAISED |= {"WK_NEEDS_SEGMENT"}  # C says it to the control plane of a cluster


def raised(status: int, **facts: Any) -> walkeeper.Error:
    """The exception for a status and the fields of its wk_error."""
    error = errors.new_error()
    for name, value in facts.items():
        setattr(error, name, value)
    with pytest.raises(walkeeper.Error) as caught:
        errors.check(status, error, log="orders", write=True)
    return caught.value


def test_ok_raises_nothing() -> None:
    errors.check(lib.WK_OK, errors.new_error())


@pytest.mark.parametrize("status", [s for s, name in STATUSES.items() if name not in NOT_RAISED], ids=STATUSES.get)
def test_every_status_has_an_exception_of_its_own(status: int) -> None:
    assert type(raised(status)) is not walkeeper.Error


def test_no_two_statuses_share_an_exception() -> None:
    kinds = [type(raised(status)) for status, name in STATUSES.items() if name not in NOT_RAISED]
    assert len(kinds) == len(set(kinds))


def test_every_exception_is_a_name_of_the_package() -> None:
    for name in errors.__all__:
        if name != "Outcome":
            assert getattr(walkeeper, name) is getattr(errors, name)
            warns = name.endswith("Warning")
            assert warns or name.endswith("Error")
            assert issubclass(getattr(errors, name), RuntimeWarning if warns else walkeeper.Error)


def test_the_text_is_that_of_the_engine() -> None:
    error = raised(lib.WK_IO, text=b"writing block 3 of j-7: EIO", system_error=5)
    assert str(error) == "writing block 3 of j-7: EIO"
    assert error.system_error == 5


def test_without_a_text_the_status_explains_itself() -> None:
    assert str(raised(lib.WK_NO_SPACE)) == ffi.string(lib.wk_status_text(lib.WK_NO_SPACE)).decode()


def test_facts_that_do_not_apply_are_none() -> None:
    error = raised(lib.WK_FENCED)
    facts = (error.ledger_id, error.entry_id, error.sequence_id, error.txid, error.system_error)
    assert facts == (None, None, None, None, None)
    assert error.log == "orders"


def test_a_write_says_what_became_of_it() -> None:
    assert raised(lib.WK_TIMEOUT, outcome_unknown=True).outcome == "unknown"
    assert raised(lib.WK_TIMEOUT, outcome_unknown=False).outcome == "not_written"
    assert raised(lib.WK_FAILED, durable_count=7).durable_count == 7


def test_a_read_says_nothing_of_outcomes() -> None:
    with pytest.raises(walkeeper.TruncatedError) as caught:
        errors.check(lib.WK_TRUNCATED, errors.new_error())
    assert caught.value.outcome is None


def test_a_mismatch_carries_the_record_that_sits_there() -> None:
    error = raised(lib.WK_MISMATCH, sequence_id=17, txid=4000)
    assert isinstance(error, walkeeper.SequenceMismatchError)
    assert (error.sequence_id, error.txid) == (17, 4000)


def test_a_locked_directory_names_the_holder() -> None:
    error = raised(lib.WK_LOCKED, holder_pid=4711)
    assert isinstance(error, walkeeper.DirectoryLockedError)
    assert error.holder_pid == 4711
    assert error.hint is not None


def test_timeouts_are_those_of_python_too() -> None:
    assert isinstance(raised(lib.WK_TIMEOUT), builtins.TimeoutError)


def test_bad_arguments_are_value_errors_and_missing_things_lookup_errors() -> None:
    assert isinstance(raised(lib.WK_INVALID), ValueError)
    assert isinstance(raised(lib.WK_TOO_LARGE), ValueError)
    assert isinstance(raised(lib.WK_NOT_FOUND), LookupError)
    assert issubclass(walkeeper.LogNotFoundError, walkeeper.NotFoundError)


def test_an_unknown_status_is_still_an_error() -> None:
    assert type(raised(-9999)) is walkeeper.Error


def test_exceptions_go_through_pickle_with_their_facts() -> None:
    error = raised(lib.WK_TIMEOUT, outcome_unknown=True, sequence_id=3)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is walkeeper.TimeoutError
    assert (str(again), again.outcome, again.sequence_id, again.log) == (str(error), "unknown", 3, "orders")


# What open() refuses before it touches a disk.


@pytest.mark.parametrize("uri", ["ftp://host/wal", "postgres:wal", "s3://bucket"])
def test_a_scheme_that_does_not_exist_is_named_with_what_does(uri: str) -> None:
    with pytest.raises(walkeeper.UnsupportedError, match=re.escape(uri)) as caught:
        walkeeper.open(uri)
    assert caught.value.hint is not None
    assert "file:" in caught.value.hint


@pytest.mark.parametrize("uri", ["", "file:", "file://elsewhere/wal", "file:///wal?x=1", "a\0b"])
def test_a_uri_that_is_no_directory_is_refused(uri: str) -> None:
    with pytest.raises(walkeeper.InvalidError):
        walkeeper.open(uri)


def test_an_option_that_does_not_exist_is_a_type_error(directory: Path) -> None:
    with pytest.raises(TypeError, match="file_size"):
        walkeeper.open(directory, file_size=1)  # type: ignore[call-arg]
    assert not directory.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "magic"},
        {"on_damage": 1},
        {"lock_timeout": -1},
        {"lock_timeout": float("nan")},
        {"cache_bytes": -1},
        {"confirm_delay": -1},
        {"read_bytes": True},
        {"commit_wait": True},
        {"unsafe_fs": "no"},
        {"check_all": None},
        {"create": "no"},
        {"read_only": "no"},
    ],
    ids=str,
)
def test_an_option_with_a_bad_value_is_refused(directory: Path, options: dict[str, Any]) -> None:
    with pytest.raises(walkeeper.InvalidError, match=f"^{next(iter(options))}="):
        walkeeper.open(directory, **options)
    assert not directory.exists()


@pytest.mark.parametrize("size", [2**50, 2**63, 2**64 - 1])
def test_more_memory_than_there_is_is_refused(directory: Path, size: int) -> None:
    with pytest.raises(walkeeper.NoMemoryError):
        walkeeper.open(directory, cache_bytes=size)


def test_what_is_yes_or_no_is_asked_for_in_our_words(directory: Path) -> None:
    with walkeeper.open(directory) as namespace:
        for call in (
            lambda: namespace.log("other", create="no"),  # type: ignore[arg-type]
            lambda: namespace.log("other", segment_bytes=True),
            lambda: namespace.log("orders").cursor("c", create="no"),  # type: ignore[arg-type]
            lambda: namespace.log("orders").truncate(walkeeper.DLSN(1, 0, 0), force="no"),  # type: ignore[arg-type]
        ):
            with pytest.raises(
                walkeeper.InvalidError, match=r"^\w+=('no': True or False|True: a whole number) is wanted"
            ):
                call()
        assert namespace.logs() == ["orders"]


# What is refused says what was asked for, and what to do.


def test_what_a_read_only_open_refuses_is_to_change_something(directory: Path) -> None:
    with walkeeper.open(directory) as namespace:
        namespace.log("orders")
    with walkeeper.open(directory, read_only=True) as namespace:
        log = namespace.log("orders")
        for refused in (log.writer, lambda: log.cursor("billing"), lambda: namespace.delete_log("orders")):
            with pytest.raises(walkeeper.ReadOnlyError, match="to change it"):
                refused()
        with pytest.raises(walkeeper.LogNotFoundError, match="no log payments"):
            namespace.log("payments")


def test_a_deleted_log_is_called_by_its_name(directory: Path) -> None:
    with walkeeper.open(directory) as namespace:
        log = namespace.log("orders")
        namespace.delete_log("orders")
        with pytest.raises(walkeeper.LogDeletedError, match="log orders was deleted"):
            log.info()


def test_a_directory_that_is_not_made_says_why(tmp_path: Path) -> None:
    with pytest.raises(walkeeper.StorageError, match="the directory above it must exist"):
        walkeeper.open(tmp_path / "above" / "wal")
    with pytest.raises(walkeeper.NotFoundError, match="does not exist; open it with create"):
        walkeeper.open(tmp_path / "wal", create=False)
    with pytest.raises(walkeeper.NotFoundError, match=r"does not exist$"):
        walkeeper.open(tmp_path / "wal", read_only=True)


def test_a_reader_is_told_how_the_writer_syncs(directory: Path) -> None:
    with walkeeper.open(directory) as namespace, walkeeper.open(directory, read_only=True) as reader:
        assert reader.stats().sync_method == namespace.stats().sync_method != "probe"


@pytest.mark.parametrize(("durability", "outcomes"), [("sync", ["None"]), ("deferred", ["unknown", "None"])])
def test_a_close_without_time_never_says_that_an_append_was_not_written(
    tmp_path: Path, durability: str, outcomes: list[str]
) -> None:
    """In a process of its own, which keeps the directory until its end."""
    code = (
        "import sys, walkeeper\n"
        "namespace = walkeeper.open(sys.argv[1], deferred_max_delay=60)\n"
        "namespace.log('orders').writer().append(b'x', durability=sys.argv[2])\n"
        "try: namespace.close(timeout=0)\n"
        "except walkeeper.TimeoutError as error: print(error.outcome, error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "wal"), durability]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    outcome, _, text = said.partition(" ")
    assert outcome in outcomes  # where the disk was quick, the deferred one is durable, too
    assert text.startswith(f"closing {tmp_path / 'wal'}: ")
    assert "stays locked until this process ends" in said
    with walkeeper.open(tmp_path / "wal") as namespace:
        assert namespace.log("orders").count() in ((1,) if outcome == "None" else (0, 1))


def test_a_position_that_no_record_can_have_does_not_stop_the_process(directory: Path) -> None:
    """Position.from_bytes() takes any numbers; a cursor that is put there gets an error, and not an assertion."""
    code = """
import sys, walkeeper
with walkeeper.open(sys.argv[1]) as namespace:
    log = namespace.log("orders")
    with log.writer() as writer:
        token = bytearray(writer.append(b"x").to_bytes())
    token[-8:] = (-5).to_bytes(8, "big", signed=True)  # its txid
    try:
        log.cursor("mail").advance(walkeeper.Position.from_bytes(bytes(token)))
    except walkeeper.Error as refused:
        print(type(refused).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code, directory], cwd="/", timeout=60, check=False)
    assert done.returncode == 0
