"""Whether addresses can be listened on, asked before anything is made that would name them for ever."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from walkeeper_bookie._kinds import Address

__all__ = ["AddressError", "refuse_unusable"]


class AddressError(Exception):
    """It could not listen."""


def refuse_unusable(addresses: Iterable[tuple[str, Address]]) -> None:
    """Listens on all of them for a moment. Raises AddressError, with the setting's name, for the first that it cannot
    have: in use, not this machine's, not known, not permitted."""
    with ExitStack() as held:
        for name, address in addresses:
            try:
                held.enter_context(_listening(address))
            except OSError as wrong:  # noqa: PERF203 - it ends the loop
                raise AddressError(f"{name} {address}: {wrong.strerror or wrong}") from wrong


def _listening(address: Address) -> socket.socket:
    """As the server will: the first of the host's addresses that can be had."""
    last: OSError | None = None
    for family, kind, protocol, _, where in socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        try:
            return _listening_at(family, kind, protocol, where)
        except OSError as wrong:  # noqa: PERF203 - there are few
            last = wrong
    raise last or OSError(f"{address.host} has no address")


def _listening_at(family: int, kind: int, protocol: int, where: Any) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, where[0] != "::")
        made.bind(where)
        made.listen(1)
    except OSError:
        made.close()
        raise
    return made
