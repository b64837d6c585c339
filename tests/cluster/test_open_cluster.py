"""Opening a namespace of a cluster: what its options are, what it refuses, what belongs to a directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
