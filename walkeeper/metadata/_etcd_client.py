"""The client of etcd that is installed: its generated stubs and messages, and how messages are made of our words.

Two packages have them: `etcd-sdk-python` (pyetcd) is kept up, `etcd3` is its ancestor of 2020. Of neither is more used
than what was generated from etcd's own files: their clients know one endpoint, and no limit of a range.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

PACKAGES = ("pyetcd", "etcd3")

Call = Any  # a request or an answer of etcd: the packages have no types
Compare = Any
RequestOp = Any


def _quiet_grpc() -> Any:
    """gRPC's core writes lines of its own to stderr, unless it is told so before it is loaded."""
    before = os.environ.get("GRPC_VERBOSITY")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        return import_module("grpc")
    finally:
        if before is None:
            del os.environ["GRPC_VERBOSITY"]


def _installed() -> tuple[str, Any]:
    """The name of the package, and what was generated. ImportError where none can be used, and why."""
    reasons = []
    for name in PACKAGES:
        try:
            return name, import_module(f"{name}.etcdrpc")
        except (ImportError, TypeError, RuntimeError) as error:  # noqa: PERF203 - there are two
            # protobuf refuses what old compilers made by a TypeError, gRPC what newer ones made by a RuntimeError.
            reasons.append(f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    raise ImportError("; ".join(reasons))


grpc = _quiet_grpc()
package, _etcd = _installed()


class Stubs:
    """The services of etcd on one channel."""

    def __init__(self, channel: Any) -> None:
        self.kv: Any = _etcd.KVStub(channel)
        self.lease: Any = _etcd.LeaseStub(channel)
        self.watch: Any = _etcd.WatchStub(channel)


# ---- ranges ----


def range_of(
    key: bytes,
    end: bytes = b"",
    *,
    limit: int = 0,
    keys_only: bool = False,
    revision: int = 0,
    newest: bool = False,
    serializable: bool = False,
) -> Call:
    """Asks for a key, or for those from it to before `end`, in byte order. `newest`: the last created is the first.
    `serializable`: what this server knows, whether it is behind or not."""
    request = _etcd.RangeRequest(
        key=key, range_end=end, limit=limit, keys_only=keys_only, revision=revision, serializable=serializable
    )
    if newest:
        request.sort_target = _etcd.RangeRequest.CREATE
        request.sort_order = _etcd.RangeRequest.DESCEND
    return request


# ---- transactions ----


def read(request: Call) -> RequestOp:
    """A range inside a transaction."""
    return _etcd.RequestOp(request_range=request)


def put(key: bytes, value: bytes, *, lease: int = 0, keep_lease: bool = False) -> RequestOp:
    """A put inside a transaction. `keep_lease`: the key is there, and its lease stays."""
    return _etcd.RequestOp(request_put=_etcd.PutRequest(key=key, value=value, lease=lease, ignore_lease=keep_lease))


def delete(key: bytes, end: bytes = b"") -> RequestOp:
    """A delete inside a transaction."""
    return _etcd.RequestOp(request_delete_range=_etcd.DeleteRangeRequest(key=key, range_end=end))


def compare(
    key: bytes,
    what: Literal["CREATE", "MOD", "LEASE"],
    how: Literal["EQUAL", "GREATER"],
    number: int,
    end: bytes = b"",
) -> Compare:
    """A condition. Of a range it must hold for each key; for a key that is not there all numbers are 0."""
    made = _etcd.Compare(
        key=key,
        range_end=end,
        target=getattr(_etcd.Compare, what),
        result=getattr(_etcd.Compare, how),
    )
    setattr(made, {"CREATE": "create_revision", "MOD": "mod_revision", "LEASE": "lease"}[what], number)
    return made


def transaction(compares: Sequence[Compare], success: Sequence[RequestOp], failure: Sequence[RequestOp] = ()) -> Call:
    """What is done where all conditions hold, and what where one does not."""
    return _etcd.TxnRequest(compare=compares, success=success, failure=failure)


# ---- leases and watches ----


def grant(ttl: int) -> Call:
    return _etcd.LeaseGrantRequest(TTL=ttl)


def keep_alive(lease: int) -> Call:
    return _etcd.LeaseKeepAliveRequest(ID=lease)


def revoke(lease: int) -> Call:
    return _etcd.LeaseRevokeRequest(ID=lease)


def watch_of(key: bytes, end: bytes, revision: int) -> Call:
    """Asks for what happens to the keys from `revision` on."""
    request = _etcd.WatchCreateRequest(key=key, range_end=end, start_revision=revision)
    return _etcd.WatchRequest(create_request=request)


def unwatch(number: int) -> Call:
    return _etcd.WatchRequest(cancel_request=_etcd.WatchCancelRequest(watch_id=number))
