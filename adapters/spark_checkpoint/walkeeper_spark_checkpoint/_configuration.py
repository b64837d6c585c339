"""What Spark must be told, so that it keeps checkpoints behind a gateway."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from walkeeper import is_cluster
from walkeeper.errors import InvalidError, NotFoundError
from walkeeper.gateway import Gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Builder = TypeVar("Builder", bound=SparkSession.Builder)

__all__ = ["configure", "jar", "settings"]

JARS = "spark.jars"
_PACKAGE = "dev.walkeeper.spark"

_embedded: dict[tuple[str, str], Gateway] = {}
"""Gateways in this process, by root and options: a session that is made again has the same. Nobody closes them at the
exit, where threads cannot be had any more: what was answered is durable."""

_told: dict[str, str] = {}
"""What configure() has put into the environment."""


def jar() -> str:
    """The path of the jar that Spark loads. NotFoundError: this walkeeper was installed without it."""
    found = Path(__file__).with_name("walkeeper-spark.jar")
    if not found.is_file():
        raise NotFoundError(
            f"{found} is not there: this walkeeper was built without Java",
            hint="install a wheel, or call `make spark-jar` where Java and Maven are",
        )
    return str(found)


def settings(gateways: str | Sequence[str], token: str, *, tls: bool = False) -> dict[str, str]:
    """Spark's settings for checkpoints behind these gateways, without the jar: for spark-defaults.conf, or a server of
    Spark Connect. `gateways` are addresses, "HOST:PORT" or "unix:PATH"; each of them can take over. With `tls` the
    certificate of a gateway must name the HOST of its address, and the JVM must trust it."""
    addresses = [gateways] if isinstance(gateways, str) else list(gateways)
    if not addresses:
        raise InvalidError("checkpoints want one gateway at least")
    return {
        "spark.hadoop.fs.walkeeper.impl": f"{_PACKAGE}.WalkeeperFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.walkeeper.impl": f"{_PACKAGE}.WalkeeperFs",
        "spark.sql.streaming.checkpointFileManagerClass": f"{_PACKAGE}.WalkeeperCheckpointFileManager",
        "spark.hadoop.walkeeper.gateways": ",".join(addresses),
        "spark.hadoop.walkeeper.gateway.token": token,
        **({"spark.hadoop.walkeeper.gateway.tls": "true"} if tls else {}),
    }


def configure(
    builder: Builder,
    *,
    root: str | os.PathLike[str] | None = None,
    gateways: str | Sequence[str] | None = None,
    token: str | None = None,
    tls: bool = False,
    **options: Any,
) -> Builder:
    """Tells a SparkSession.builder what checkpoints in walkeeper need, and returns it. What was set before stays.

    With `root`, which is what walkeeper.open takes (a directory, or the URI of a cluster) with `options`, a gateway
    runs in this process, and ends with it: it serves this driver and executors of this machine. Or with `gateways`,
    addresses of gateways that run already, their `token`, and whether they speak `tls`.

    format("walkeeper") finds the same logs: what its options would say, Python processes of Spark are told by the
    environment (WALKEEPER_ROOT, WALKEEPER_GATEWAYS, WALKEEPER_TOKEN). Where Spark runs in this machine alone, they run
    by this Python, unless PYSPARK_PYTHON says another.

    The jar is loaded by spark.jars, which counts before the first session of a process is made. Raises what
    walkeeper.open raises, NotFoundError without the jar, InvalidError.
    """
    if (root is None) == (gateways is None):
        raise InvalidError("configure wants either root= or gateways=")
    if root is not None and tls:
        raise InvalidError("the gateway of root= serves this machine, without tls")
    if gateways is not None and (token is None or options):
        raise InvalidError("with gateways=, configure wants token=, and no options of a root")
    environment: dict[str, str] = {}
    if root is not None:
        gateway = _gateway(os.fspath(root), token, options)
        gateways, token = gateway.addresses, gateway.token
        environment["WALKEEPER_ROOT"] = _place(os.fspath(root))
        if "namespace" in options:
            environment["WALKEEPER_NAMESPACE"] = str(options["namespace"])
    assert gateways is not None
    assert token is not None
    environment["WALKEEPER_GATEWAYS"] = gateways if isinstance(gateways, str) else ",".join(gateways)
    environment["WALKEEPER_TOKEN"] = token
    given: dict[str, Any] = dict(getattr(builder, "_options", {}))
    jars = [name for name in str(given.get(JARS, "")).split(",") if name]
    if jar() not in jars:
        builder.config(JARS, ",".join([*jars, jar()]))
    for name, value in settings(gateways, token, tls=tls).items():
        if name not in given or name.startswith("spark.hadoop.walkeeper."):
            builder.config(name, value)
    _tell(environment)
    for name, value in environment.items():
        builder.config(f"spark.executorEnv.{name}", value)
    if str(given.get("spark.master", "local")).startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def _tell(environment: dict[str, str]) -> None:
    """What Spark starts on this machine has its environment from here. What an earlier call said is forgotten."""
    if environment != _told and _jvm_runs():
        warnings.warn(
            "the JVM of this process runs already (spark-submit starts it before Python): it loads no further jar, and "
            "its Python processes are told nothing new. Start it with settings() and jar(), and give "
            'format("walkeeper") the options walkeeper.root, walkeeper.gateways and walkeeper.token',
            stacklevel=3,
        )
    for name, value in _told.items():
        if os.environ.get(name) == value:
            del os.environ[name]
    _told.clear()
    _told.update(environment)
    os.environ.update(environment)


def _jvm_runs() -> bool:
    """A JVM keeps the environment that it was started with. spark-submit has started it before Python."""
    pyspark = sys.modules.get("pyspark")
    return "PYSPARK_GATEWAY_PORT" in os.environ or (pyspark is not None and pyspark.SparkContext._gateway is not None)


def _place(root: str) -> str:
    """The root, for processes with another working directory."""
    return root if is_cluster(root) else os.path.abspath(root)


def _gateway(root: str, token: str | None, options: dict[str, Any]) -> Gateway:
    key = root, repr(sorted(options.items()))
    gateway = _embedded.get(key)
    if gateway is None or gateway.closed:
        gateway = _embedded[key] = Gateway(root, token=token, **options)
    return gateway
