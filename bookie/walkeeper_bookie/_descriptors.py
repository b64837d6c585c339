"""Descriptors: as many as the process may have, and not all of them for connections.

A journal that needs a new file and is given no descriptor waits for one: whoever opens connections could make every add
of everybody wait.
"""

from __future__ import annotations

import resource

__all__ = ["connections_permitted", "limit_for", "raise_limit"]

KEPT_MIN = 64
KEPT_PART = 8
"""One in so many is not for connections."""


def raise_limit() -> int:
    """How many descriptors this process may have, once it asked for all that it may ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def connections_permitted(wanted: int, limit: int) -> int:
    """So many of the wanted connections leave enough descriptors for files; one at the least."""
    if limit == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, limit - max(KEPT_MIN, limit // KEPT_PART)))


def limit_for(connections: int) -> int:
    """The lowest limit that permits so many connections."""
    low, high = connections + KEPT_MIN, 2 * connections + 2 * KEPT_MIN
    while low < high:
        middle = (low + high) // 2
        if connections_permitted(connections, middle) < connections:
            low = middle + 1
        else:
            high = middle
    return low
