"""Staging logs: records that tasks write before it is known whether they count."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from walkeeper.errors import LogDeletedError, LogNotFoundError

if TYPE_CHECKING:
    from walkeeper import Namespace

__all__ = ["collect_all_staging_logs", "collect_staging_logs", "staging_log"]

PREFIX = "staging/"


class Logs(Protocol):
    """What has logs: a Namespace, or a GatewayClient."""

    def logs(self, prefix: str = "") -> list[str]: ...
    def delete_log(self, name: str, /) -> None: ...


def staging_log(log_id: int, app_id: str, version: int) -> str:
    """A name that nobody has, of a log whose records may become those of the log `log_id` by that version."""
    return f"{_prefix(log_id, app_id)}{version:020}/{uuid.uuid4().hex}"


def collect_staging_logs(namespace: Logs, log_id: int, app_id: str, version: int) -> int:
    """Deletes those of this version and of earlier ones, which are made or never will be; says how many they were."""
    prefix = _prefix(log_id, app_id)
    deleted = 0
    for name in namespace.logs(prefix):
        of, _, _ = name[len(prefix) :].partition("/")
        if of.isdigit() and int(of) <= version:
            try:
                namespace.delete_log(name)
            except LogNotFoundError:  # another one collects, too
                continue
            deleted += 1
    return deleted


def collect_all_staging_logs(namespace: Namespace, log_id: int, versions: Mapping[str, int], older_than_ms: int) -> int:
    """Deletes those of versions that are made, and those that were last appended to before this time."""
    made = {_prefix(log_id, app_id): version for app_id, version in versions.items()}
    deleted = 0
    for name in namespace.logs(f"{PREFIX}{log_id}/"):
        folder, _, _ = name.rpartition("/")
        prefix, _, of = folder.rpartition("/")
        with suppress(LogNotFoundError, LogDeletedError):  # another one collects, too
            last = namespace.log(name, create=False).last()
            if int(of) <= made.get(f"{prefix}/", -1) or (last is not None and last.txid < older_than_ms):
                namespace.delete_log(name)
                deleted += 1
    return deleted


def _prefix(log_id: int, app_id: str) -> str:
    return f"{PREFIX}{log_id}/{hashlib.sha256(app_id.encode()).hexdigest()[:32]}/"
