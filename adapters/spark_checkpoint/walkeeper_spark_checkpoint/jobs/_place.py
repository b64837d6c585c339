"""Where the logs of a job are, and by whom they are changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import walkeeper
from walkeeper.errors import InvalidError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Place", "place_of"]


@dataclass(frozen=True)
class Place:
    """A namespace of logs, as all processes of a job reach it."""

    root: str
    """What walkeeper.open takes."""
    namespace: str | None
    gateways: tuple[str, ...]
    """Those that change the logs; empty: the process that wants a change opens the root for writing."""
    token: str = field(repr=False, default="")

    def open(self, *, read_only: bool) -> walkeeper.Namespace:
        """The namespace in this process. Raises what walkeeper.open raises."""
        options: dict[str, Any] = {} if self.namespace is None else {"namespace": self.namespace}
        return walkeeper.open(self.root, create=not read_only, read_only=read_only, **options)

    def options(self) -> dict[str, str]:
        """The same, as format("walkeeper") takes it."""
        found = {"walkeeper.root": self.root}
        if self.namespace is not None:
            found["walkeeper.namespace"] = self.namespace
        if self.gateways:
            found["walkeeper.gateways"] = ",".join(self.gateways)
        if self.token:
            found["walkeeper.token"] = self.token
        return found

    def records(
        self, spark: SparkSession, log: str, first: int, end: int, more: Mapping[str, str] | None = None
    ) -> DataFrame:
        """The records of a log from a sequence id up to, and without, another one, as format("walkeeper") has them."""
        return (
            spark.read.format("walkeeper")
            .options(**self.options(), **(more or {}))
            .option("startingOffsets", json.dumps({log: {"0": first}}))
            .option("endingOffsets", json.dumps({log: {"0": end}}))
            .load(log)
        )


def place_of(
    root: str | os.PathLike[str] | None, namespace: str | None, gateways: str | Sequence[str] | None, token: str | None
) -> Place:
    """What a caller gave; what is left out, the environment has (walkeeper_spark_checkpoint.configure sets it).

    InvalidError where no root is known.
    """
    place = os.fspath(root) if root is not None else os.environ.get("WALKEEPER_ROOT", "")
    if not place:
        raise InvalidError("where are the logs? Give root=, a directory or the URI of a cluster (or WALKEEPER_ROOT)")
    if os.path.isdir(place):
        place = os.path.abspath(place)  # executors have another working directory
    same = root is None or place == os.environ.get("WALKEEPER_ROOT")  # else the environment speaks of other logs
    known = dict(os.environ) if same else {}
    given = known.get("WALKEEPER_GATEWAYS", "") if gateways is None else gateways
    names = given.split(",") if isinstance(given, str) else given
    return Place(
        place,
        namespace or known.get("WALKEEPER_NAMESPACE") or None,
        tuple(name.strip() for name in names if name.strip()),
        token if token is not None else known.get("WALKEEPER_TOKEN", "") if gateways is None else "",
    )
