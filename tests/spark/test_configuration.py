"""configure(): what a builder of sessions is told. No Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

import walkeeper_spark_checkpoint as wks
from walkeeper.errors import InvalidError
from walkeeper_spark_checkpoint import _configuration

NAMES = ("WALKEEPER_ROOT", "WALKEEPER_NAMESPACE", "WALKEEPER_GATEWAYS", "WALKEEPER_TOKEN", "PYSPARK_PYTHON")


class Builder:
    """As SparkSession.builder, which keeps options."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    def config(self, name: str, value: Any) -> Builder:
        self._options[name] = value
        return self


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of other tests may run in this process."""
    monkeypatch.setattr(_configuration, "_embedded", {})
    monkeypatch.setattr(SparkContext, "_gateway", None)
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(_configuration, "jar", lambda: "/lib/walkeeper-spark.jar")


def configured(builder: Builder, **arguments: Any) -> dict[str, Any]:
    wks.configure(builder, **arguments)  # type: ignore[type-var]
    return builder._options


def test_a_root_has_a_gateway_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = configured(Builder(), root="wal"), configured(Builder(), root="wal")
    try:
        assert first == second
        assert first["spark.jars"] == "/lib/walkeeper-spark.jar"
        (gateway,) = _configuration._embedded.values()
        assert first["spark.hadoop.walkeeper.gateways"] == ",".join(gateway.addresses)
        assert first["spark.hadoop.walkeeper.gateway.token"] == gateway.token
        assert os.environ["WALKEEPER_ROOT"] == first["spark.executorEnv.WALKEEPER_ROOT"] == str(tmp_path / "wal")
        assert os.environ["WALKEEPER_GATEWAYS"] == ",".join(gateway.addresses)
        assert os.environ["WALKEEPER_TOKEN"] == gateway.token
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    finally:
        for made in _configuration._embedded.values():
            made.close()
        _configuration._embedded.clear()


def test_what_was_set_before_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    given = Builder(**{manager: "mine", "spark.jars": "a.jar,b.jar", "spark.master": "local[2]"})
    found = configured(given, gateways=["a:1", "b:2"], token="secret", tls=True)
    assert found[manager] == "mine"
    assert found["spark.jars"] == "a.jar,b.jar,/lib/walkeeper-spark.jar"
    assert found["spark.hadoop.walkeeper.gateways"] == os.environ["WALKEEPER_GATEWAYS"] == "a:1,b:2"
    assert found["spark.hadoop.walkeeper.gateway.tls"] == "true"
    assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/python3"
    assert "WALKEEPER_ROOT" not in os.environ


def test_the_last_call_alone_says_where_logs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(Builder(), root=tmp_path / "wal")
    for made in _configuration._embedded.values():
        made.close()
    _configuration._embedded.clear()
    configured(Builder(), gateways="a:1", token="secret")
    assert "WALKEEPER_ROOT" not in os.environ
    monkeypatch.setenv("WALKEEPER_ROOT", "/mine")
    configured(Builder(), gateways="b:1", token="secret")
    assert (os.environ["WALKEEPER_ROOT"], os.environ["WALKEEPER_GATEWAYS"]) == ("/mine", "b:1")


def test_what_a_running_jvm_does_not_learn_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    configured(Builder(), gateways="a:1", token="secret")
    monkeypatch.setattr(SparkContext, "_gateway", object())
    configured(Builder(), gateways="a:1", token="secret")
    with pytest.warns(UserWarning, match=r"options walkeeper\.root"):
        configured(Builder(), gateways="b:1", token="secret")
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.warns(UserWarning, match="spark-submit"):
        configured(Builder(), gateways="c:1", token="secret")


def test_executors_elsewhere_have_a_python_of_their_own() -> None:
    configured(Builder(**{"spark.master": "spark://a:7077"}), gateways="a:1", token="secret")
    assert "PYSPARK_PYTHON" not in os.environ


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    for wrong in (
        {},
        {"root": tmp_path, "gateways": "a:1"},
        {"gateways": "a:1"},
        {"gateways": [], "token": "x"},
        {"gateways": "a:1", "token": "x", "namespace": "n"},
        {"root": tmp_path, "tls": True},
    ):
        with pytest.raises(InvalidError):
            configured(Builder(), **wrong)
