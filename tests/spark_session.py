"""Sessions of Spark for tests: their settings, and one in the process of the tests, which leaves nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

import walkeeper_spark_checkpoint as wks

__all__ = ["LIGHT", "spark_session"]

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Of JVMs: they start sooner, and end before more would pay."""
LIGHT = {
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # most of what runs, runs once
    "spark.sql.shuffle.partitions": "2",
}
"""Settings that change nothing but how long it takes: with these a small query takes half of the processor time."""


@contextmanager
def spark_session(root: Path, environment: Mapping[str, str], settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """With an embedded gateway over `root`, and a JVM of its own.

    A JVM keeps the environment that it was started with, and a SparkContext handles SIGINT for ever.
    """
    before = dict(os.environ)
    handler = signal.getsignal(signal.SIGINT)
    os.environ.update(environment)
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**LIGHT, **settings}.items():
        builder.config(name, value)
    session = wks.configure(builder, root=root).getOrCreate()
    signal.signal(signal.SIGINT, handler)
    try:
        yield session
    finally:
        session.stop()
        SparkSession.builder._options.clear()
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None
        os.environ.clear()
        os.environ.update(before)
