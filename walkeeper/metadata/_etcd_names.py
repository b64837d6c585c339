"""Names: what our keys, which make a tree, are called on etcd, which has none.

A key is its own name there, as in BookKeeper's layout. The children of `/a` are the keys that begin with `/a/`. What
belongs to a key and is no child begins with the key and a control character, which no key of ours has.
"""

from __future__ import annotations

from walkeeper.metadata._keys import join

SLASH, BEHIND_SLASH = b"/", b"0"  # the byte behind "/", as upstream ends its ranges
FIRST_PRINTABLE = b" "
_COUNTER = b"\tsequence"


def name_of(key: str) -> bytes:
    """What the key is called on etcd."""
    return key.encode()


def own_end(name: bytes) -> bytes:
    """The end of a key's own range: the key, and what belongs to it."""
    return name + FIRST_PRINTABLE


def counter_of(key: str) -> bytes:
    """Where the next number of the key's sequential children stands. It is in the key's own range."""
    return name_of(key) + _COUNTER


def below(key: str) -> tuple[bytes, bytes]:
    """The range of all keys below."""
    name = b"" if key == "/" else name_of(key)
    return name + SLASH, name + BEHIND_SLASH


def below_child(key: str, child: str) -> bytes:
    """The end of the range of all keys below a child."""
    return below(join(key, child))[1]


def is_name(name: str) -> bool:
    """Whether it is a child's: nothing deeper, and nothing that belongs to another key."""
    return name.isprintable() if name.isascii() else all(character >= " " for character in name)
