"""The session of Spark that tests share: one for each process of pytest that runs any of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_session import spark_session

PATHS = os.pathsep.join(str(Path(__file__).parents[2] / part) for part in ("adapters/spark_checkpoint", "bookie"))


@pytest.fixture(scope="package")
def wal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose gateway is the session's."""
    return tmp_path_factory.mktemp("spark") / "wal"


@pytest.fixture(scope="package")
def spark(wal: Path) -> Iterator[SparkSession]:
    """As a user makes it: a gateway is embedded, and format("walkeeper") is told nothing."""
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": PATHS}
    settings = {"spark.default.parallelism": "2", "spark.sql.session.timeZone": "Asia/Tokyo"}
    with spark_session(wal, environment, settings) as made:
        made.sparkContext.setLogLevel("OFF")
        yield made
