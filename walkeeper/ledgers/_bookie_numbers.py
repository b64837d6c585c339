"""Bookies as the engine knows them: by number, each with a numeric address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable

from walkeeper._native import ffi, lib
from walkeeper.errors import InvalidError, check, new_error
from walkeeper.ledgers._native_handles import NativeClient
from walkeeper.metadata import Bookies, bookie_address

__all__ = ["BookieNumbers", "address_of"]

NOWHERE = ("127.0.0.1", 0)
"""Where a bookie is whose address nobody knows: no socket listens on port 0, so that connections are refused at once,
and the bookie counts as one that fails."""


def address_of(bookies: Bookies, bookie_id: str) -> tuple[str, int] | None:
    """Host and port at which a bookie answers: what it publishes, else what its id says; None: neither says it."""
    info = bookies.service_info(bookie_id)
    endpoint = None if info is None else info.bookie
    if endpoint is not None:
        return endpoint.host, endpoint.port
    return bookie_address(bookie_id)


def _numeric(address: tuple[str, int] | None) -> tuple[str, int] | None:
    """The address with a host that needs no name service; None: the name has none."""
    if address is None:
        return None
    try:
        found = socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0]), address[1]


class BookieNumbers:
    """The bookies that one client has met."""

    def __init__(self, client: NativeClient, bookies: Bookies) -> None:
        self._client = client
        self._bookies = bookies
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, tuple[str, int]]] = {}

    def of(self, bookie_ids: Iterable[str]) -> dict[str, int]:
        """The number of each, with the address that it has now. One that is down keeps the last one that was known.

        Asks the metadata store and the name service.
        """
        return {bookie_id: self._number(bookie_id) for bookie_id in dict.fromkeys(bookie_ids)}

    def _number(self, bookie_id: str) -> int:
        address = _numeric(address_of(self._bookies, bookie_id))
        with self._lock:
            known = self._known.get(bookie_id)
            if known is not None and address in (None, known[1]):
                return known[0]
            number = self._register(bookie_id, *(address or NOWHERE))
            self._known[bookie_id] = number, address or NOWHERE
            return number

    def _register(self, bookie_id: str, host: str, port: int) -> int:
        number, error = ffi.new("uint32_t *"), new_error()
        try:
            encoded = bookie_id.encode("ascii")
        except UnicodeEncodeError:
            raise InvalidError(f"{bookie_id!r} is no bookie id") from None
        with self._client as native:
            check(lib.wk_client_bookie(native, encoded, host.encode(), port, number, error), error)
        return int(number[0])
