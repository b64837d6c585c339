"""Asks a running bookie by HTTP, on its own machine."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from walkeeper_bookie._kinds import HostPort, WrongValue
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["ask"]

TIMEOUT_S = 10.0
ANSWER_MAX = 2**30


def ask(http: str, path: str, change: object = None, *, instead: str) -> Mapping[str, Any]:
    """The object that the bookie at `http` answers: to GET, or to PUT where there is a `change`. Refusal: what it said,
    or that nobody answers; then also what may be given `instead` of an address."""
    try:
        address = HostPort().parse(http)
    except WrongValue as wrong:
        raise Refusal(f"--http {http!r}: {wrong}") from None
    body = None if change is None else json.dumps(change).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{address}{path}", body, headers, method="GET" if body is None else "PUT")
    # A proxy of the environment is not asked: it would not be on the bookie's machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            found: Any = json.loads(answer.read(ANSWER_MAX))
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(500).decode("utf-8", "replace").strip()
        raise Refusal(f"the bookie at {http} answers {error.code}: {said}") from None
    except OSError as error:
        why = getattr(error, "reason", error)
        raise Refusal(
            f"no bookie answers at {http}: {getattr(why, 'strerror', None) or why}",
            f"is it started with --http? {instead}",
        ) from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refusal(f"what answers at {http} is no bookie")
    return found
