"""Opening a namespace of a cluster: what its options are, what it refuses, what belongs to a directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import run

import walkeeper
from walkeeper.metadata import open_store
from walkeeper_bookie.cluster import LocalCluster

Open = Callable[..., walkeeper.Namespace]


@pytest.mark.parametrize("option", ["lock_timeout", "journal", "block_size_max", "unsafe_fs"])
def test_an_option_of_a_directory_is_refused_by_name(shared_bookies: LocalCluster, option: str) -> None:
    with pytest.raises(walkeeper.InvalidError, match=f"^{option}= is no option here"):
        walkeeper.open(shared_bookies.metadata, **{option: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["namespace", "ensemble_size", "password", "strict"])
def test_an_option_of_a_cluster_is_refused_by_name(tmp_path: Path, option: str) -> None:
    with pytest.raises(walkeeper.InvalidError, match=f"^{option}= is no option here"):
        walkeeper.open(tmp_path / "wal", **{option: 1})  # type: ignore[arg-type]
    assert not (tmp_path / "wal").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"ensemble_size": 2},
        {"ack_quorum": 0},
        {"ack_quorum": 4},
        {"ensemble_size": 65, "write_quorum": 3},
        {"ensemble_size": "3"},
        {"strict": "no"},
        {"password": "text"},
        {"namespace": ""},
        {"add_timeout": -1},
        {"read_bytes": 1},
        {"backend": "fast"},
        {"read_only": "yes"},
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_refused(shared_bookies: LocalCluster, wrong: dict[str, Any]) -> None:
    with pytest.raises(walkeeper.InvalidError):
        walkeeper.open(shared_bookies.metadata, **wrong)


def test_what_is_no_option_is_a_type_error(shared_bookies: LocalCluster) -> None:
    with pytest.raises(TypeError, match="ensemble"):
        walkeeper.open(shared_bookies.metadata, ensemble=3)  # type: ignore[call-arg]


def test_where_there_is_no_cluster_the_error_says_how_to_start_one(tmp_path: Path) -> None:
    uri = f"sqlite:{tmp_path}/nothing.db"
    with pytest.raises(walkeeper.NotFoundError):
        walkeeper.open(uri)
    assert list(tmp_path.iterdir()) == []
    open_store(uri).store.close()
    with pytest.raises(walkeeper.NotFoundError, match="no cluster") as caught:
        walkeeper.open(uri)
    assert "walkeeper-bookie" in (caught.value.hint or "")


def test_namespaces_of_a_cluster_are_apart(shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str) -> None:
    with ns.log("orders").writer() as writer:
        writer.append(b"x")
    with walkeeper.open(shared_bookies.metadata, namespace=f"{name}/other") as other:
        assert other.logs() == []
    with pytest.raises(walkeeper.NotFoundError, match="nobody"):
        walkeeper.open(shared_bookies.metadata, namespace="nobody", create=False)
    with pytest.raises(walkeeper.NotFoundError, match="nobody"):
        walkeeper.open(shared_bookies.metadata, namespace="nobody", read_only=True)


def test_a_namespace_that_is_read_only_changes_nothing(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    log = ns.log("orders")
    with log.writer() as writer:
        at = writer.append(b"x")
    log.cursor("billing")
    with walkeeper.open(shared_bookies.metadata, namespace=name, read_only=True) as reading:
        own = reading.log("orders")
        assert own.cursors() == ["billing"]
        calls: tuple[Callable[[], object], ...] = (
            own.writer,
            lambda: own.truncate(at),
            lambda: own.cursor("mail"),
            lambda: own.cursor("billing").advance(own.info().next),
            own.cursor("billing").delete,
            lambda: reading.delete_log("orders"),
            lambda: reading.rename_log("orders", "sales"),
        )
        for call in calls:
            with pytest.raises(walkeeper.ReadOnlyError):
                call()
        assert own.cursor("billing").position == at
        with pytest.raises(walkeeper.LogNotFoundError):
            reading.log("new")
    assert (ns.logs(), log.cursors(), log.count()) == (["orders"], ["billing"], 1)


@pytest.mark.parametrize("cursor", ["", "x" * 256, "a\0b", "ä" * 128], ids=["empty", "256 bytes", "NUL", "UTF-8"])
def test_names_of_cursors_that_are_refused(ns: walkeeper.Namespace, cursor: str) -> None:
    log = ns.log("orders")
    for create in (True, False):
        with pytest.raises(walkeeper.InvalidError):
            log.cursor(cursor, create=create)
    assert log.cursors() == []


@pytest.mark.parametrize("cursor", [".", "..", "a/b", "%2E", "\U0001f600 \t\n", "x" * 255])
def test_any_other_name_is_a_cursors(ns: walkeeper.Namespace, cursor: str) -> None:
    log = ns.log("orders")
    with log.writer() as writer:
        at = writer.append(b"x")
    assert log.cursor(cursor).position == at
    assert log.cursors() == [cursor]
    log.cursor(cursor).delete()
    assert log.cursors() == []


def test_a_command_moves_a_cursor(shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str) -> None:
    log = ns.log("orders")
    with log.writer() as writer:
        writer.append_many([b"a", b"b", b"c"])
    place = (shared_bookies.metadata, "orders", "billing", "--namespace", name)
    run("cursor", "set", *place, "--to", "1", "--create")
    assert log.cursor("billing", create=False).position.sequence_id == 1
    run("cursor", "set", *place, "--to", "end")
    assert log.cursor("billing").position.sequence_id == 3
    run("cursor", "delete", *place)
    assert log.cursors() == []
