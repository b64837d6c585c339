"""open_store: the store that a URI names, and where in it the metadata is."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from walkeeper._low_descriptors import occupy_low_descriptors
from walkeeper.metadata._keys import check_key
from walkeeper.metadata._layout import LedgerManager
from walkeeper.metadata._store import MetadataError, MetadataStore, MissingError

if TYPE_CHECKING:
    from walkeeper.metadata._memory import MemoryTree

ROOT = "/ledgers"  # BookKeeper's, where a URI has no room for another
ZOOKEEPER_PORT = 2181
ETCD_PORT = 2379

_URIS = (
    "a metadata store is sqlite:PATH, zk://HOST:PORT;HOST:PORT/ledgers (or zk+hierarchical://, zk+longhierarchical://),"
    " etcd://HOST:PORT;HOST:PORT/SCOPE, or memory:NAME within one process"
)
# What BookKeeper calls its layouts. "null", as nothing: whatever the cluster's LAYOUT says.
_LAYOUTS = {"": None, "null": None, "hierarchical": "hierarchical", "longhierarchical": "longhierarchical"}
_MANAGERS = {"hierarchical": LedgerManager.HIERARCHICAL, "longhierarchical": LedgerManager.LONG_HIERARCHICAL}
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9]*)(?:\+(?P<layout>[A-Za-z0-9]*))?:(?P<rest>.*)", re.DOTALL)

_trees: dict[str, MemoryTree] = {}
_trees_lock = threading.Lock()


class OpenedStore(NamedTuple):
    """A store, the key below which the metadata is, and BookKeeper's name of the layout (None: LAYOUT says it)."""

    store: MetadataStore
    root: str
    layout: str | None

    @property
    def manager(self) -> LedgerManager | None:
        """What that layout is called in LAYOUT."""
        return None if self.layout is None else _MANAGERS[self.layout]


def open_store(uri: str, *, session_timeout: float = 10.0, create: bool = True) -> OpenedStore:
    """Opens what a URI names. MetadataError: there is no such store, or not yet, or the URI is none.

    Without `create` the file of a `sqlite:` URI is not made where it is missing: MissingError.

    `memory:NAME` is one tree for all who open it in this process, for as long as the process lives.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise MetadataError(f"{uri!r} names no metadata store: {_URIS}")
    scheme, layout, rest = match["scheme"].lower(), match["layout"], match["rest"]
    occupy_low_descriptors()  # also for those that sqlite3 and kazoo open
    if scheme == "zk":
        if (layout or "").lower() not in _LAYOUTS:
            known = ", ".join(f"zk+{name}" if name else "zk" for name in _LAYOUTS)
            raise MetadataError(f"cannot open {uri!r}: there is no layout {layout!r} here, but {known}")
        hosts, root = _servers(uri, rest, ZOOKEEPER_PORT, f"zk://HOST:PORT;HOST:PORT{ROOT}")
        name = _LAYOUTS[(layout or "").lower()]
        return OpenedStore(_client_store("zookeeper")(hosts, session_timeout=session_timeout, uri=uri), root, name)
    if layout is None and scheme == "etcd":
        hosts, root = _servers(uri, rest, ETCD_PORT, "etcd://HOST:PORT;HOST:PORT/SCOPE")
        return OpenedStore(_client_store("etcd")(hosts, session_timeout=session_timeout, uri=uri), root, None)
    if layout is None and scheme == "memory":
        from walkeeper.metadata._memory import MemoryStore

        return OpenedStore(MemoryStore(_tree(rest), uri=uri), ROOT, None)
    if layout is None and scheme == "sqlite":
        from walkeeper.metadata._sqlite import SqliteStore  # as above: what nobody uses takes no memory

        path = _path(uri, rest)
        if not create and not os.path.lexists(path):
            raise MissingError(f"there is no {path}")
        return OpenedStore(SqliteStore(path, session_timeout=session_timeout), ROOT, None)
    raise MetadataError(f"cannot open {uri!r}: there is no store {scheme!r}; {_URIS}")


def _tree(name: str) -> MemoryTree:
    from walkeeper.metadata._memory import MemoryTree

    with _trees_lock:
        return _trees.setdefault(name, MemoryTree())


def _path(uri: str, rest: str) -> str:
    """The path behind "sqlite:": relative, absolute, or absolute behind two slashes."""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        if authority not in ("", "localhost"):
            raise MetadataError(f"cannot open {uri!r}: sqlite:PATH or sqlite:///PATH; the file is on this machine")
        rest = slash + path
    if not rest or "?" in rest or "#" in rest or "\0" in unquote(rest):
        raise MetadataError(
            f"cannot open {uri!r}: a sqlite: URI has a path and nothing else: sqlite:/var/lib/wk/meta.db"
        )
    return unquote(rest, errors="surrogateescape")


def _servers(uri: str, rest: str, port: int, form: str) -> tuple[str, str]:
    """Hosts as the client takes them, and the root."""
    servers, slash, path = rest[2:].partition("/")
    hosts = [_with_port(host.strip(), port) for host in re.split("[;,]", servers) if host.strip()]
    root = slash + path.rstrip("/")
    if not rest.startswith("//") or not hosts or root in ("", "/"):
        raise MetadataError(f"cannot open {uri!r}: hosts and a path are needed: {form}")
    return ",".join(hosts), check_key(root)


_CLIENTS = {
    "zookeeper": ("ZooKeeperStore", "zk:// needs the package kazoo"),
    "etcd": ("EtcdStore", "etcd:// needs the package etcd-sdk-python"),
}


def _client_store(name: str) -> Callable[..., MetadataStore]:
    """The class of a store whose client is not everybody's; the extra of that name installs the client."""
    store, needs = _CLIENTS[name]
    try:
        made: Callable[..., MetadataStore] = getattr(import_module(f"walkeeper.metadata._{name}"), store)
    except ImportError as error:
        raise MetadataError(f"{needs}: pip install 'walkeeper[{name}]' ({error})") from error
    return made


def _with_port(host: str, port: int) -> str:
    return host if re.search(r":\d+$", host) else f"{host}:{port}"
