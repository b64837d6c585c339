"""Logs and their names: made, listed, renamed, deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

import walkeeper

Contents = Callable[..., list[bytes]]
Open = Callable[..., walkeeper.Namespace]
Codec = Literal["none", "lz4", "zstd"]


def fill(log: walkeeper.Log, *payloads: bytes) -> None:
    with log.writer() as writer:
        writer.append_many(payloads)


def test_a_new_namespace_has_no_logs(ns: walkeeper.Namespace) -> None:
    assert ns.logs() == []


def test_logs_are_listed_in_byte_order(ns: walkeeper.Namespace) -> None:
    for name in ("b", "a/2", "ä", "a/1", "B"):
        ns.log(name)
    assert ns.logs() == ["B", "a/1", "a/2", "b", "ä"]
    assert ns.logs("a/") == ["a/1", "a/2"]
    assert ns.logs("nothing") == []


def test_logs_do_not_mix(ns: walkeeper.Namespace, contents: Contents) -> None:
    one, two = ns.log("one"), ns.log("two")
    with one.writer() as first, two.writer() as second:
        for number in range(10):
            first.append(b"one %d" % number)
            second.append(b"two %d" % number)
    assert contents(one) == [b"one %d" % number for number in range(10)]
    assert contents(two) == [b"two %d" % number for number in range(10)]


def test_two_handles_are_one_log(ns: walkeeper.Namespace, contents: Contents) -> None:
    fill(ns.log("orders"), b"x")
    assert contents(ns.log("orders")) == [b"x"]
    assert ns.log("orders").info().log_id == ns.log("orders").info().log_id


def test_without_create_a_log_must_be_there(ns: walkeeper.Namespace) -> None:
    with pytest.raises(walkeeper.LogNotFoundError, match="orders"):
        ns.log("orders", create=False)
    assert ns.logs() == []


@pytest.mark.parametrize(
    "name", ["", "x" * 256, "a\0b", "a b", "ä" * 128], ids=["empty", "256 bytes", "NUL", "space", "UTF-8"]
)
def test_names_that_are_refused(ns: walkeeper.Namespace, name: str) -> None:
    with pytest.raises(walkeeper.InvalidError):
        ns.log(name)
    assert ns.logs() == []


def test_the_longest_name(ns: walkeeper.Namespace) -> None:
    ns.log("x" * 255)
    assert ns.logs() == ["x" * 255]


# Options


def test_options_are_stored_with_the_log(open: Open) -> None:
    with open() as ns:
        ns.log("orders", segment_bytes=2**20, segment_seconds=60, codec="zstd")
    with open() as ns:
        assert ns.log("orders").options == walkeeper.LogOptions(2**20, 60, 0, "zstd")


def test_an_existing_log_keeps_its_options(ns: walkeeper.Namespace) -> None:
    ns.log("orders", codec="lz4")
    assert ns.log("orders", codec="zstd").options.codec == "lz4"


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_every_codec_gives_back_what_it_got(ns: walkeeper.Namespace, contents: Contents, codec: Codec) -> None:
    log = ns.log("orders", codec=codec)
    payloads = [b"easy " * 1000, bytes(range(256)) * 4, b"", b"x"]
    fill(log, *payloads)
    assert contents(log) == payloads


def test_an_option_that_does_not_exist_is_a_type_error(ns: walkeeper.Namespace) -> None:
    with pytest.raises(TypeError, match="segment_size"):
        ns.log("orders", segment_size=1)  # type: ignore[call-arg]
    with pytest.raises(walkeeper.InvalidError, match="codec"):
        ns.log("orders", codec="gzip")  # type: ignore[arg-type]
    assert ns.logs() == []


# Renaming and deleting


def test_a_renamed_log_keeps_its_records(ns: walkeeper.Namespace, contents: Contents) -> None:
    log = ns.log("orders")
    fill(log, b"x")
    ns.rename_log("orders", "sales")
    assert ns.logs() == ["sales"]
    assert contents(ns.log("sales")) == contents(log) == [b"x"]


def test_a_name_that_is_taken_is_not_given_again(ns: walkeeper.Namespace, contents: Contents) -> None:
    fill(ns.log("orders"), b"order")
    fill(ns.log("sales"), b"sale")
    with pytest.raises(walkeeper.ExistsError):
        ns.rename_log("orders", "sales")
    assert contents(ns.log("sales")) == [b"sale"]


def test_what_is_not_there_cannot_be_renamed_or_deleted(ns: walkeeper.Namespace) -> None:
    with pytest.raises(walkeeper.LogNotFoundError):
        ns.rename_log("orders", "sales")
    with pytest.raises(walkeeper.LogNotFoundError):
        ns.delete_log("orders")


def test_handles_on_a_deleted_log_say_so(ns: walkeeper.Namespace) -> None:
    """Storage rule 3: they are bound to the log's id, which nothing gets again."""
    log = ns.log("orders")
    fill(log, b"x")
    writer, reader, cursor = log.writer(), log.reader(), log.cursor("billing")
    ns.delete_log("orders")
    assert ns.logs() == []
    for call in (lambda: writer.append(b"y"), reader.read, log.info, log.writer, lambda: cursor.position):
        with pytest.raises(walkeeper.LogDeletedError, match="deleted"):
            call()
    writer.close()


def test_a_log_made_again_is_another_log(ns: walkeeper.Namespace, contents: Contents) -> None:
    old = ns.log("orders")
    fill(old, b"old")
    old.cursor("billing")
    ns.delete_log("orders")
    new = ns.log("orders")
    fill(new, b"new")
    assert contents(new) == [b"new"]
    assert new.cursors() == []
    with pytest.raises(walkeeper.LogDeletedError):
        old.count()


def test_a_log_made_again_goes_on_with_the_segment_numbers(ns: walkeeper.Namespace) -> None:
    fill(ns.log("orders"), b"old")
    before = ns.log("orders").segments()[-1].segment
    ns.delete_log("orders")
    fill(ns.log("orders"), b"new")
    assert ns.log("orders").segments()[0].segment > before


def test_a_position_under_a_name_that_was_given_away_is_not_another_records(ns: walkeeper.Namespace) -> None:
    """A name is recreated after a rename as after a delete: a DLSN that was stored for it means one record or none."""
    with ns.log("orders").writer() as writer:
        before = writer.append(b"before")
    ns.rename_log("orders", "orders.1")
    with ns.log("orders").writer() as writer:
        assert writer.append(b"after") > before


def test_a_name_that_was_given_away_is_known_in_the_next_open(open: Open) -> None:
    with open() as ns:
        with ns.log("orders").writer() as writer:
            before = writer.append(b"before")
        ns.rename_log("orders", "orders.1")
    with open() as ns, ns.log("orders").writer() as writer:
        assert writer.append(b"after") > before
    with open() as ns:
        ns.delete_log("orders.1")
        ns.rename_log("orders", "orders.1")
    ns = open()
    with ns.log("orders").writer() as writer:
        assert writer.append(b"last").dlsn.segment > ns.log("orders.1").segments()[-1].segment


def test_names_are_durable(open: Open) -> None:
    with open() as ns:
        for name in ("a", "b", "c"):
            ns.log(name)
        ns.delete_log("b")
        ns.rename_log("c", "d")
    assert open().logs() == ["a", "d"]
