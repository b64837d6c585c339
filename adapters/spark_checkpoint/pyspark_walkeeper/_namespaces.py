"""Namespaces that this process has open: Spark uses a Python worker for many tasks."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any

import walkeeper
from walkeeper.errors import InvalidError

if TYPE_CHECKING:
    from pyspark_walkeeper._options import Place

__all__ = ["opened", "to_read"]

_lock = threading.Lock()
_open: dict[tuple[Any, ...], walkeeper.Namespace] = {}


def to_read(place: Place) -> walkeeper.Namespace:
    """Whoever changes the logs meanwhile: a directory may be another process's."""
    return opened(place, read_only=True)


def opened(place: Place, *, read_only: bool) -> walkeeper.Namespace:
    """The namespace, opened once for this process. Raises what walkeeper.open raises."""
    if place.root is None:
        raise InvalidError("logs are read where they are: set walkeeper.root to the directory, or the cluster's URI")
    key = (os.getpid(), place.root, place.namespace, read_only)
    with _lock:
        found = _open.get(key)
        if found is None or found.closed:
            options: dict[str, Any] = {} if place.namespace is None else {"namespace": place.namespace}
            found = _open[key] = walkeeper.open(place.root, create=not read_only, read_only=read_only, **options)
        return found


def _close_all() -> None:
    with _lock:
        for key, namespace in _open.items():
            if key[0] == os.getpid():
                namespace.close()
        _open.clear()


atexit.register(_close_all)
