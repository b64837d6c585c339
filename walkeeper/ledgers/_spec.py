"""A ledger's metadata as C takes them, and the keys that follow from a password."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from walkeeper._native import ffi, lib
from walkeeper._options import choice
from walkeeper.errors import InvalidError, UnauthorizedError, shown
from walkeeper.metadata import DigestType, LedgerMetadata

__all__ = ["Digest", "Secret", "check_password", "digest_type", "new_spec", "secret_of"]

Digest = Literal["crc32c", "crc32", "hmac", "none"]
"""What stands in each entry to show that it is whole. "hmac" also shows that its writer knew the password."""

DIGESTS: dict[str, int] = {
    "crc32c": lib.WK_DIGEST_TYPE_CRC32C,
    "crc32": lib.WK_DIGEST_TYPE_CRC32,
    "hmac": lib.WK_DIGEST_TYPE_MAC,
    "none": lib.WK_DIGEST_TYPE_DUMMY,
}
"""The numbers are those of the metadata."""


class Secret(NamedTuple):
    """What a password gives."""

    master_key: bytes
    """What bookies ask of whoever adds to a ledger, or fences it."""
    mac_key: bytes
    """The key of the digest "hmac"."""
    digest: DigestType
    """Of a ledger whose metadata name none."""


def digest_type(digest: Digest) -> DigestType:
    """InvalidError for what is none."""
    return DigestType(choice("digest", digest, DIGESTS))


def secret_of(password: bytes, digest: Digest) -> Secret:
    """The keys of a password. InvalidError where it is not bytes."""
    if not isinstance(password, (bytes, bytearray, memoryview)):
        raise InvalidError(f"password={shown(password)}: bytes are wanted")
    master, mac = (hashlib.sha1(word + bytes(password), usedforsecurity=False) for word in (b"ledger", b"mac"))
    return Secret(master.digest(), mac.digest(), digest_type(digest))


def check_password(ledger_id: int, metadata: LedgerMetadata, password: bytes) -> None:
    """UnauthorizedError where the metadata have another one. Where they have none, only bookies can tell."""
    if metadata.password is not None and not hmac.compare_digest(metadata.password, bytes(password)):
        raise UnauthorizedError(
            f"this is not the password of ledger {ledger_id}",
            ledger_id=ledger_id,
            hint="give the password that the ledger was created with",
        )


def new_spec(ledger_id: int, metadata: LedgerMetadata, numbers: Mapping[str, int], secret: Secret) -> tuple[Any, Any]:
    """A wk_ledger_spec, and what it points to, which must be kept for as long. `numbers` has those of the bookies."""
    ensembles = [ffi.new("uint32_t[]", [numbers[name] for name in names]) for names in metadata.segments.values()]
    segments = ffi.new("wk_ledger_segment[]", len(ensembles))
    for segment, first, ensemble in zip(segments, metadata.segments, ensembles, strict=True):
        segment.first_entry = first
        segment.bookies = ensemble
    spec = ffi.new("wk_ledger_spec *")
    spec.ledger_id = ledger_id
    spec.ensemble_size = metadata.ensemble_size
    spec.write_quorum = metadata.write_quorum
    spec.ack_quorum = metadata.ack_quorum
    spec.digest_type = (metadata.digest_type or secret.digest).value
    spec.master_key = list(secret.master_key)
    spec.mac_key = list(secret.mac_key)
    spec.segments = segments
    spec.segments_count = len(ensembles)
    spec.closed = metadata.is_closed
    spec.last_entry = metadata.last_entry_id
    return spec, (segments, ensembles)
