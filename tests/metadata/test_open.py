"""open_store: what a URI names."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from walkeeper.metadata import MemoryStore, MetadataError, SqliteStore, open_store


def test_a_memory_store_is_shared_by_its_name() -> None:
    first, second, other = open_store("memory:one"), open_store("memory:one"), open_store("memory:two")
    try:
        assert first.root == "/ledgers"
        assert first.layout is None
        assert isinstance(first.store, MemoryStore)
        first.store.create("/a", b"x", ephemeral=True)
        assert second.store.children("/") == ["a"]
        assert other.store.children("/") == []
        assert first.store.uri == "memory:one"
    finally:
        for opened in (first, second, other):
            opened.store.close()


def test_a_sqlite_store_has_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a b.db"
    uris = ["sqlite:a b.db", "sqlite:a%20b.db", "sqlite:./a b.db", f"sqlite:{path}", f"sqlite://{path}"]
    uris += [f"sqlite://localhost{path}", f"SQLite:{path}"]
    for number, uri in enumerate(uris):
        store, root, layout = open_store(uri)
        assert isinstance(store, SqliteStore)
        assert (store.path, root, layout) == (path, "/ledgers", None)
        assert len(store.children("/")) == number
        store.create(f"/{number}")
        store.close()
        again = open_store(store.uri).store
        assert len(again.children("/")) == number + 1
        again.close()


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the ZooKeeper client: what it would be told."""
    module: Any = types.ModuleType("walkeeper.metadata._zookeeper")
    module.ZooKeeperStore = lambda hosts, *, session_timeout, uri: (hosts, session_timeout, uri)
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    ("uri", "hosts", "root", "layout"),
    [
        ("zk://h1:2181/ledgers", "h1:2181", "/ledgers", None),
        ("zk+null://h1:2181/ledgers", "h1:2181", "/ledgers", None),
        ("zk+hierarchical://h1:2181;h2:2182/ledgers", "h1:2181,h2:2182", "/ledgers", "hierarchical"),
        ("zk+longhierarchical://h1,h2:2182/a/b/", "h1:2181,h2:2182", "/a/b", "longhierarchical"),
        ("ZK+Hierarchical://[::1]:2181/ledgers", "[::1]:2181", "/ledgers", "hierarchical"),
    ],
)
def test_a_zookeeper_store_has_hosts_and_a_root(
    zookeeper: None, uri: str, hosts: str, root: str, layout: str | None
) -> None:
    opened = open_store(uri, session_timeout=3.0)
    assert opened == ((hosts, 3.0, uri), root, layout)
    assert (opened.manager.name.replace("_", "").lower() if opened.manager else None) == layout


@pytest.mark.parametrize(
    ("uri", "hosts", "root"),
    [
        ("etcd://h1:2379/bookkeeper", "h1:2379", "/bookkeeper"),
        ("etcd://h1;h2:1,[::1]:2379/a/b/", "h1:2379,h2:1,[::1]:2379", "/a/b"),
    ],
)
def test_an_etcd_store_has_endpoints_and_a_scope(
    monkeypatch: pytest.MonkeyPatch, uri: str, hosts: str, root: str
) -> None:
    module: Any = types.ModuleType("walkeeper.metadata._etcd")
    module.EtcdStore = lambda hosts, *, session_timeout, uri: (hosts, session_timeout, uri)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    opened = open_store(uri, session_timeout=3.0)
    assert opened == ((hosts, 3.0, uri), root, None)
    assert opened.manager is None


def test_without_the_client_of_etcd_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("walkeeper.metadata._etcd")]:
        monkeypatch.delitem(sys.modules, module)
    for package in ("pyetcd", "pyetcd.etcdrpc", "etcd3", "etcd3.etcdrpc"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MetadataError, match=r"walkeeper\[etcd\]"):
        open_store("etcd://h1:2379/bookkeeper")


NO_STORES = """
ledgers /var/lib/meta.db mysql://h/x sqlite: sqlite://host/x sqlite:a?mode=ro sqlite:a#b sqlite:a%00b sqlite+x:a
memory+x:a zk:h1:2181/ledgers zk:// zk://h1:2181 zk://h1:2181/ zk:///ledgers zk+ms://h/ledgers zk+flat://h/ledgers
zk://h/a//b zk://h/a/../b etcd:h1:2379/a etcd://h1:2379 etcd://h1:2379/ etcd:///a etcd+hierarchical://h/a
"""


@pytest.mark.parametrize("uri", NO_STORES.split())
def test_what_names_no_store_is_refused(uri: str) -> None:
    with pytest.raises(MetadataError):
        open_store(uri)


def test_who_asks_for_something_else_is_told_what_there_is() -> None:
    for uri in ("mysql://h/x", "meta.db"):
        with pytest.raises(MetadataError, match=r"sqlite:PATH.*zk://.*etcd://.*memory:NAME"):
            open_store(uri)


def test_the_import_brings_in_no_stores_client() -> None:
    clients = {"sqlite3", "sortedcontainers", "kazoo", "grpc", "pyetcd", "etcd3"}
    script = f"import sys, walkeeper.metadata; print({clients} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
