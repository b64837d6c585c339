"""The addresses of a bookie: bound before anything is made or read, listened at when it can serve.

Nobody can connect to a socket that is bound and does not listen: clients are refused, and go on with other bookies. A
bookie that listened while it starts would reset them, or refuse their adds.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import Any

from walkeeper_bookie._kinds import Address

__all__ = ["AddressError", "is_in_use", "is_locked", "reserved"]


class AddressError(Exception):
    """It could not listen."""


def reserved(name: str, address: Address) -> socket.socket:
    """A socket that is bound there: the first of the host's addresses that can be had.

    Raises AddressError, with the setting's name: in use, not this machine's, not known, not permitted.
    """
    last: OSError | None = None
    try:
        for family, kind, protocol, _, where in socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            try:
                return _bound(family, kind, protocol, where)
            except OSError as wrong:  # noqa: PERF203 - there are few
                last = wrong
    except socket.gaierror as wrong:
        raise AddressError(f"{name} {address}: this host has no address: {wrong.strerror}") from wrong
    last = last or OSError(f"{address.host} has no address")
    hint = "; another process serves there, or served there a moment ago" if last.errno == errno.EADDRINUSE else ""
    raise AddressError(f"{name} {address}: {last.strerror or last}{hint}") from last


def is_in_use(wrong: AddressError) -> bool:
    """Whether it is another socket that keeps the address."""
    return isinstance(wrong.__cause__, OSError) and wrong.__cause__.errno == errno.EADDRINUSE


def is_locked(store: Path) -> bool:
    """Whether another process has the ledger store open. A writer locks the superblock and the file `lock`, which
    somebody may have removed. This looks as the engine's readers do: a writer that meets the look tries again."""
    return any(_is_locked(store / name) for name in ("superblock", "lock"))


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _bound(family: int, kind: int, protocol: int, where: Any) -> socket.socket:
    """Without SO_REUSEADDR where that can be: two sockets that both have it may be bound to one address, and the second
    would hear that it is in use only when it listens. With it where connections of the last process linger there."""
    try:
        return _bound_with(family, kind, protocol, where, reuse=False)
    except OSError as wrong:
        if wrong.errno != errno.EADDRINUSE:
            raise
    return _bound_with(family, kind, protocol, where, reuse=True)


def _bound_with(family: int, kind: int, protocol: int, where: Any, reuse: bool) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, where[0] != "::")
        made.bind(where)
    except OSError:
        made.close()
        raise
    return made
