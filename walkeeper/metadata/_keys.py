"""Keys: what one may look like, and what every store refuses before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence

from walkeeper.metadata._store import (
    KEY_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    InvalidKeyError,
    LimitError,
    MetadataError,
    Operation,
)

SEQUENCE_DIGITS = 10
SEQUENCE_MAX = 2**31 - 1  # ZooKeeper counts in a signed 32-bit integer

# ZooKeeper refuses them, so no store has them: control characters, surrogates and private use, the end of the plane.
_REFUSED = ((0x00, 0x1F), (0x7F, 0x9F), (0xD800, 0xF8FF), (0xFFF0, 0x10FFFF))


def check_key(key: str) -> str:
    """The key. InvalidKeyError where no store has such keys, LimitError where it is longer than KEY_BYTES_MAX."""
    if not isinstance(key, str):
        raise TypeError(f"a key is a string, not {key!r}")
    if key == "/":
        return key
    if not key.startswith("/"):
        raise InvalidKeyError(f"{key!r} is no key: it does not begin with /", key)
    for part in key[1:].split("/"):
        if part in ("", ".", ".."):
            raise InvalidKeyError(f"{key!r} is no key: it has a part {part!r}", key)
    if not key.isascii() or not key.isprintable():
        _check_characters(key)
    if len(key) > KEY_BYTES_MAX or len(key.encode()) > KEY_BYTES_MAX:
        raise LimitError(f"a key of {len(key.encode())} bytes: KEY_BYTES_MAX is {KEY_BYTES_MAX}", key)
    return key


def _check_characters(key: str) -> None:
    for character in key:
        if any(first <= ord(character) <= last for first, last in _REFUSED):
            raise InvalidKeyError(f"{key!r} is no key: it has the character U+{ord(character):04X}", key)


def check_new(key: str) -> str:
    """A key that may be written or deleted: not the root, which is always there."""
    if check_key(key) == "/":
        raise InvalidKeyError("the root is always there: it can be listed and watched, nothing else", key)
    return key


def check_prefix(prefix: str) -> str:
    """What may stand before the digits of a sequential key: "/a/b-", and also "/a/", with digits alone as names."""
    check_key(f"{prefix}{'0' * SEQUENCE_DIGITS}")
    return prefix


def check_page(key: str, page: int) -> int:
    """How many names a request may ask for."""
    if page < 1:
        raise ValueError(f"a scan of {key} by pages of {page} names would never end")
    return page


def check_value(key: str, data: bytes) -> bytes:
    """The value as bytes. LimitError where it is larger than VALUE_BYTES_MAX."""
    if isinstance(data, (str, int)):
        raise TypeError(f"a value is bytes, not {type(data).__name__}")
    data = bytes(data)
    if len(data) > VALUE_BYTES_MAX:
        raise LimitError(f"{key}: a value of {len(data)} bytes: VALUE_BYTES_MAX is {VALUE_BYTES_MAX}", key)
    return data


def check_transaction(operations: Sequence[Operation]) -> None:
    """Refuses what is larger than the limits, and what writes a key twice, which etcd does not take."""
    if len(operations) > TRANSACTION_OPERATIONS_MAX:
        raise LimitError(
            f"a transaction of {len(operations)} operations: TRANSACTION_OPERATIONS_MAX is {TRANSACTION_OPERATIONS_MAX}"
        )
    written: set[str] = set()
    size = 0
    for operation in operations:
        if operation.kind not in ("create", "put", "delete", "check"):
            raise MetadataError(f"there is no operation {operation.kind!r}", operation.key)
        check_new(operation.key)
        size += len(operation.key.encode()) + len(check_value(operation.key, operation.data))
        if operation.kind != "check" and operation.key in written:
            raise MetadataError(f"{operation.key} is written twice in one transaction", operation.key)
        if operation.kind != "check":
            written.add(operation.key)
    if size > TRANSACTION_BYTES_MAX:
        raise LimitError(f"a transaction of {size} bytes: TRANSACTION_BYTES_MAX is {TRANSACTION_BYTES_MAX}")


def place_of(key: str) -> tuple[str, str]:
    """The key above, and the name: ("/a", "b") of "/a/b"; ("", "") of the root."""
    if key == "/":
        return "", ""
    parent, _, name = key.rpartition("/")
    return parent or "/", name


def parent_of(key: str) -> str:
    """The key above: "/" of "/a", and "" of the root."""
    return place_of(key)[0]


def join(parent: str, name: str) -> str:
    """The key of a child."""
    return f"/{name}" if parent == "/" else f"{parent}/{name}"
