"""Appends that are made once, whoever repeats them: what Spark's sink and the gateway's append_once stand on."""

from __future__ import annotations

from walkeeper.idempotent._intent import Staged
from walkeeper.idempotent._staging import collect_staging_logs, staging_log
from walkeeper.idempotent._writer import IdempotentWriter

__all__ = ["IdempotentWriter", "Staged", "collect_staging_logs", "staging_log"]
