"""How far a query is behind the logs that it reads."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["backlog"]


def backlog(progress: Any) -> dict[str, int]:
    """The records of each log that a query has not read, by its StreamingQueryProgress (query.lastProgress).

    `progress` is a StreamingQueryProgress, or the dict of its JSON. Logs are those of its walkeeper sources; where two
    of them read a log, the one further behind counts.
    """
    described = progress if isinstance(progress, dict) else json.loads(progress.json)
    behind: dict[str, int] = {}
    for source in described["sources"]:
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        for log, offset in latest.items():
            behind[log] = max(behind.get(log, 0), offset - end.get(log, 0))
    return behind


def _offsets(found: Any) -> dict[str, int]:
    if isinstance(found, str):
        found = json.loads(found)
    if not isinstance(found, dict) or not all(isinstance(of, dict) and set(of) == {"0", "id"} for of in found.values()):
        return {}
    return {log: int(of["0"]) for log, of in found.items()}
