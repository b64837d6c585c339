"""Options of the source and the sink. Pure: they are checked here, and nothing is opened."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_walkeeper._offsets import offsets_of
from walkeeper.errors import InvalidError

__all__ = ["Place", "ReadOptions", "WriteOptions", "read_options", "write_options"]

EARLIEST, LATEST = -2, -1
"""As Kafka's source writes them in JSON."""

OWN_LOGS = ("files/", "files-data/", "staging/", "transactions/")
"""Of the gateway, and of idempotent appends: a pattern does not match them, and nobody else appends to them."""
_PLACE = "walkeeper."
_READ = {
    "path", "subscribe", "subscribepattern", "assign", "startingoffsets", "startingtimestamp", "endingoffsets",
    "endingtimestamp", "maxoffsetspertrigger", "maxbytespertrigger", "minoffsetspertrigger", "maxtriggerdelay",
    "minpartitions", "maxrecordsperpartition", "cursorname", "failondataloss",
}  # fmt: skip
_WRITE = {"path", "topic", "txnappid", "txnversion", "delivery", "checkpointlocation", "queryname"}
_NOT_BUILT = {
    "includeheaders": "records have no headers",
    "startingoffsetsbytimestamp": "startingTimestamp counts for all logs",
    "endingoffsetsbytimestamp": "endingTimestamp counts for all logs",
    "startingoffsetsbytimestampstrategy": "a timestamp behind the last record means the end",
    "groupidprefix": "there are no consumer groups; cursorName holds back truncation",
    "kafka.group.id": "there are no consumer groups; cursorName holds back truncation",
}
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}


@dataclass(frozen=True)
class Place:
    """Where the logs are, and by whom they are changed."""

    root: str | None
    """What walkeeper.open takes. None: only gateways are known."""
    namespace: str | None
    gateways: tuple[str, ...]
    token: str = field(repr=False, default="")


@dataclass(frozen=True)
class ReadOptions:
    place: Place
    logs: tuple[str, ...] | None
    """None: those that match the pattern."""
    pattern: re.Pattern[str] | None
    start: int | dict[str, int] = EARLIEST
    start_time: float | None = None
    """Seconds since 1970; it comes before `start`."""
    end: int | dict[str, int] = LATEST
    end_time: float | None = None
    records_max: int | None = None
    bytes_max: int | None = None
    records_min: int | None = None
    delay_max: float = 15 * 60
    """Seconds, by which a batch of fewer than `records_min` is read all the same."""
    partitions_min: int | None = None
    partition_records_max: int | None = None
    cursor: str | None = None
    fail_on_data_loss: bool = True


@dataclass(frozen=True)
class WriteOptions:
    place: Place
    log: str
    app_id: str | None
    version: int | None
    exactly_once: bool


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """InvalidError says which option is wrong, and what it may be."""
    given = _given(options, _READ, "read")
    logs, pattern = _logs(given)
    start, end = given.get("startingoffsets"), given.get("endingoffsets")
    if streaming and (end is not None or "endingtimestamp" in given):
        raise InvalidError("endingOffsets and endingTimestamp are for spark.read: a stream has no end")
    made = ReadOptions(
        place=_place(given),
        logs=logs,
        pattern=pattern,
        start=EARLIEST if start is None else _boundary(start, "startingOffsets"),
        start_time=_time(given, "startingTimestamp"),
        end=LATEST if end is None else _boundary(end, "endingOffsets"),
        end_time=_time(given, "endingTimestamp"),
        records_max=_number(given, "maxOffsetsPerTrigger"),
        bytes_max=_number(given, "maxBytesPerTrigger"),
        records_min=_number(given, "minOffsetsPerTrigger"),
        delay_max=_duration(given, "maxTriggerDelay", 15 * 60),
        partitions_min=_number(given, "minPartitions"),
        partition_records_max=_number(given, "maxRecordsPerPartition"),
        cursor=given.get("cursorname"),
        fail_on_data_loss=_flag(given, "failOnDataLoss", True),
    )
    if made.records_max is not None and made.records_min is not None and made.records_min > made.records_max:
        raise InvalidError("minOffsetsPerTrigger is greater than maxOffsetsPerTrigger")
    if made.end == EARLIEST or (isinstance(made.end, dict) and EARLIEST in made.end.values()):
        raise InvalidError("endingOffsets is not earliest: there would be nothing to read")
    if made.cursor is not None and not streaming:
        raise InvalidError("cursorName is for spark.readStream")
    latest = made.start == LATEST or (isinstance(made.start, dict) and LATEST in made.start.values())
    if not streaming and latest and made.start_time is None:
        raise InvalidError("startingOffsets of spark.read is not latest: there would be nothing to read")
    if streaming and latest and made.start_time is None and made.cursor is None:
        raise InvalidError(
            "startingOffsets=latest of a stream wants cursorName: Spark does not keep where a query began, so a query "
            "that is started again behind a failed first batch would skip records; the cursor keeps it"
        )
    return made


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """InvalidError says which option is wrong, and what it may be."""
    given = _given(options, _WRITE, "write")
    logs = {given[name] for name in ("path", "topic") if given.get(name)}
    if len(logs) != 1:
        raise InvalidError("the log to append to is given once: by save(LOG), start(LOG), or the option topic")
    delivery = given.get("delivery", "exactly-once")
    if delivery not in ("exactly-once", "at-least-once"):
        raise InvalidError(f"delivery is exactly-once or at-least-once, not {delivery!r}")
    log = logs.pop()
    if log.startswith(OWN_LOGS):
        raise InvalidError(f"{log!r} is a log of walkeeper's own")
    app_id, version = given.get("txnappid"), _number(given, "txnVersion", 0)
    if app_id is not None and (not app_id or delivery != "exactly-once"):
        raise InvalidError("txnAppId is a text that is not empty, for delivery=exactly-once")
    if (app_id is None) != (version is None):
        raise InvalidError("txnAppId and txnVersion are given together")
    if streaming and version is not None:
        raise InvalidError("txnAppId and txnVersion are for df.write: a stream has its query id and its batches")
    return WriteOptions(_place(given), log, app_id, version, delivery == "exactly-once")


def _given(options: Mapping[str, str], known: set[str], verb: str) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    for name, why in _NOT_BUILT.items():
        if given.get(name, "false").lower() != "false":
            raise InvalidError(f"{name} is no option here: {why}")
    for name in given:
        if name not in known and not name.startswith((_PLACE, "kafka.")):
            raise InvalidError(f"there is no option {name!r} to {verb} logs")
        if name.startswith("kafka."):
            raise InvalidError(f"{name} is for Kafka; where the logs are is said by walkeeper.root")
    return given


def _place(given: Mapping[str, str]) -> Place:
    known = {"root": "WALKEEPER_ROOT", "namespace": "WALKEEPER_NAMESPACE", "gateways": "WALKEEPER_GATEWAYS"}
    for name in given:
        if name.startswith(_PLACE) and name.removeprefix(_PLACE) not in {*known, "token", "tokenfile"}:
            raise InvalidError(f"there is no option {name!r}")
    found = {name: given.get(_PLACE + name) for name in known}
    environment = {name: os.environ.get(variable) for name, variable in known.items()}
    own = found["gateways"] or found["root"] not in (None, environment["root"])
    if not own:  # else the environment speaks of other logs
        found |= {name: value for name, value in environment.items() if not found[name]}
    if not found["root"] and not found["gateways"]:
        raise InvalidError(
            "where are the logs? Set walkeeper.root to a directory or the URI of a cluster (or WALKEEPER_ROOT)"
        )
    token, token_file = given.get(_PLACE + "token") or "", given.get(_PLACE + "tokenfile")
    if not own and not token and not token_file:
        token, token_file = os.environ.get("WALKEEPER_TOKEN", ""), os.environ.get("WALKEEPER_TOKEN_FILE")
    if not token and token_file:
        with open(token_file, encoding="utf-8") as file:
            token = file.read().strip()
    gateways = tuple(part.strip() for part in (found["gateways"] or "").split(",") if part.strip())
    return Place(found["root"] or None, found["namespace"] or None, gateways, token)


def _logs(given: Mapping[str, str]) -> tuple[tuple[str, ...] | None, re.Pattern[str] | None]:
    ways = [name for name in ("path", "subscribe", "subscribepattern", "assign") if given.get(name)]
    if len(ways) != 1:
        raise InvalidError("what is to be read is said once: by load(LOG), subscribe, subscribePattern or assign")
    (way,) = ways
    value = given[way]
    if way == "subscribepattern":
        try:
            return None, re.compile(value)
        except re.error as wrong:
            raise InvalidError(f"subscribePattern {value!r} is no regular expression: {wrong}") from None
    if way == "path":
        return (value,), None
    if way == "subscribe":
        names = tuple(sorted({part.strip() for part in value.split(",") if part.strip()}))
    else:
        try:
            assigned = json.loads(value)
            names = tuple(sorted(log for log, partitions in assigned.items() if partitions == [0]))
            if len(names) != len(assigned):
                names = ()
        except (ValueError, AttributeError):
            names = ()
    if not names:
        raise InvalidError('subscribe is "a,b"; assign is {"a": [0], "b": [0]}: a log has the partition 0')
    return names, None


def _boundary(value: str, option: str) -> int | dict[str, int]:
    words = {"earliest": EARLIEST, "latest": LATEST}
    if value.lower() in words:
        return words[value.lower()]
    return offsets_of(value, option)


def _time(given: Mapping[str, str], option: str) -> float | None:
    value = _number(given, option, 0)
    return None if value is None else value / 1000


def _number(given: Mapping[str, str], option: str, least: int = 1) -> int | None:
    value = given.get(option.lower())
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and least <= int(value) < 2**63):
        raise InvalidError(f"{option} is a whole number from {least} on, not {value!r}")
    return int(value)


def _flag(given: Mapping[str, str], option: str, default: bool) -> bool:
    value = given.get(option.lower())
    if value is None:
        return default
    if value.lower() not in ("true", "false"):
        raise InvalidError(f"{option} is true or false, not {value!r}")
    return value.lower() == "true"


def _duration(given: Mapping[str, str], option: str, default: float) -> float:
    value = given.get(option.lower())
    if value is None:
        return default
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h)", value.strip())
    if found is None:
        raise InvalidError(f"{option} is a number with ms, s, m or h, not {value!r}")
    return int(found[1]) * _UNITS[found[2]]
