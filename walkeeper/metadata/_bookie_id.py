"""The id of a bookie: what may be one, and the address that it usually is."""

from __future__ import annotations

import re

from walkeeper.metadata._store import MetadataError

BOOKIE_ID_SIZE_MAX = 512

# BookKeeper's own rule. `:-_` is a range there, from the colon to the underscore, so that `;<=>?@[\]^` are taken too.
_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")
_RESERVED = ("readonly", ".", "..")


class InvalidBookieIdError(MetadataError, ValueError):
    """This cannot be the id of a bookie."""


def check_bookie_id(bookie_id: str) -> str:
    """The id. InvalidBookieIdError where BookKeeper refuses it, or no key of a store can be made from it."""
    if len(bookie_id) > BOOKIE_ID_SIZE_MAX:
        raise InvalidBookieIdError(f"a bookie id of {len(bookie_id)} characters: at most {BOOKIE_ID_SIZE_MAX}")
    if not _BOOKIE_ID.fullmatch(bookie_id):
        raise InvalidBookieIdError(f"{bookie_id!r} is no bookie id: letters, digits, and :;<=>?@[\\]^_.- make one")
    if bookie_id.lower() in _RESERVED:
        raise InvalidBookieIdError(f"{bookie_id!r} is no bookie id: that name has another meaning")
    return bookie_id


def bookie_address(bookie_id: str) -> tuple[str, int] | None:
    """Host and port, where the id is an address; what a client uses of a bookie that publishes no endpoints."""
    host, colon, port = bookie_id.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        return None
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), int(port)
