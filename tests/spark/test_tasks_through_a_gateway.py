"""What tasks write through a gateway, with several requests on their way, where connections break. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from tcp_proxy import TcpProxy, proxy_to

import walkeeper
from pyspark_walkeeper import _gateway_changes
from pyspark_walkeeper._gateway_changes import GatewayChanges, _append_at
from pyspark_walkeeper._options import Place, write_options
from pyspark_walkeeper._sink import BatchWriter
from walkeeper.gateway import Gateway

BATCHES = [[b"%d.%d" % (batch, number) for number in range(100)] for batch in range(20)]
PAYLOADS = [payload for batch in BATCHES for payload in batch]
SCHEMA = StructType([StructField("value", BinaryType())])


@pytest.fixture(autouse=True)
def no_client_is_left() -> Iterator[None]:
    yield
    for client in _gateway_changes._clients.values():
        client.close()
    _gateway_changes._clients.clear()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(tmp_path / "wal") as made:
        yield made


@pytest.fixture
def proxy(gateway: Gateway) -> Iterator[TcpProxy]:
    with proxy_to(int(gateway.addresses[0].rpartition(":")[2])) as made:
        yield made


@pytest.fixture
def changes(gateway: Gateway, proxy: TcpProxy) -> GatewayChanges:
    return GatewayChanges(Place(None, None, (proxy.hosts,), gateway.token))


def contents(gateway: Gateway, log: str) -> list[bytes]:
    with walkeeper.open(gateway.root, read_only=True) as namespace, namespace.log(log, create=False).reader() as reader:
        return [bytes(record.payload) for record in reader]


def batches(*, at: int = 10, trouble: Callable[[], object] = lambda: None) -> Iterator[pyarrow.Array]:
    """All of them; before number `at` there is trouble."""
    for number, batch in enumerate(BATCHES):
        if number == at:
            trouble()
        yield pyarrow.array(batch, pyarrow.binary())


def cut(proxy: TcpProxy) -> None:
    proxy.cut()


def lose_answers(proxy: TcpProxy) -> None:
    """What is sent lands, and nobody is told; then the connections break."""
    proxy.swallow_answers()
    threading.Timer(0.3, proxy.heal).start()


def lose_requests(proxy: TcpProxy) -> None:
    proxy.swallow_requests()
    threading.Timer(0.3, proxy.heal).start()


TROUBLES = [cut, lose_answers, lose_requests]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_is_staged_is_there_once_and_in_order(
    gateway: Gateway, proxy: TcpProxy, changes: GatewayChanges, trouble: Callable[[TcpProxy], None]
) -> None:
    staged = changes.stage("t", "app", 0, batches(trouble=lambda: trouble(proxy)))
    assert (staged.first_sequence_id, staged.count) == (0, len(PAYLOADS))
    assert contents(gateway, staged.log) == PAYLOADS
    assert changes.append_once("t", "app", 0, [], [staged])
    assert contents(gateway, "t") == PAYLOADS


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_is_appended_at_least_once_is_there_in_order(
    gateway: Gateway, proxy: TcpProxy, changes: GatewayChanges, trouble: Callable[[TcpProxy], None]
) -> None:
    changes.append_all("t", batches(trouble=lambda: trouble(proxy)))
    found = contents(gateway, "t")
    assert [*reversed(dict.fromkeys(reversed(found)))] == PAYLOADS


def test_what_is_appended_at_least_once_is_there_once_without_trouble(
    gateway: Gateway, changes: GatewayChanges
) -> None:
    changes.append_all("t", batches())
    assert contents(gateway, "t") == PAYLOADS


def test_staging_goes_on_where_a_gateway_is_started_again(tmp_path: Path) -> None:
    with Gateway(tmp_path / "wal") as first:
        (address,), token = first.addresses, first.token
        changes = GatewayChanges(Place(None, None, (address,), token))
        started: list[Gateway] = []

        def start_again() -> None:
            first.close()
            started.append(Gateway(tmp_path / "wal", listen=address, token=token))

        staged = changes.stage("t", "app", 0, batches(trouble=start_again))
        with started[0] as second:
            assert contents(second, staged.log) == PAYLOADS


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_null_behind_many_batches_is_told(gateway: Gateway, delivery: str) -> None:
    """It comes out of the iterator of batches, while appends are on their way: no error of theirs."""
    where = {"walkeeper.gateways": gateway.addresses[0], "walkeeper.token": gateway.token}
    writer = BatchWriter(write_options({"path": "t", "delivery": delivery, **where}, streaming=False), SCHEMA)

    def rows() -> Iterator[pyarrow.RecordBatch]:
        for _ in range(5):
            yield pyarrow.RecordBatch.from_pydict({"value": pyarrow.array([bytes(50_000)] * 3, pyarrow.binary())})
        yield pyarrow.RecordBatch.from_pydict({"value": pyarrow.array([None], pyarrow.binary())})

    with pytest.raises(walkeeper.InvalidError, match="null"):
        writer.write_as("write w", 0, 0, rows())


def test_a_refusal_is_told_as_it_is(gateway: Gateway, changes: GatewayChanges) -> None:
    client = changes._client()
    client.open_log("t")
    client.mark_end_of_stream("t")
    with pytest.raises(walkeeper.EndOfStreamError) as caught:
        changes.append_all("t", batches())
    assert caught.value.outcome == "not_written"


class Landing:
    """A client of a gateway where some of each request lands, and then something happens."""

    def __init__(self, *steps: tuple[int, walkeeper.Error | None]) -> None:
        self._steps = iter(steps)
        self.log: list[bytes] = []

    def log_info(self, log: str) -> Any:
        return SimpleNamespace(next=SimpleNamespace(sequence_id=len(self.log)))

    def append_many(self, log: str, payloads: pyarrow.Array, *, expected: int) -> None:
        count, error = next(self._steps)
        if isinstance(error, walkeeper.SequenceMismatchError):
            self.log += PAYLOADS[len(self.log) : len(self.log) + count]  # what was sent before lands only now
            raise error
        assert expected == len(self.log)
        self.log += payloads[:count].to_pylist()
        if error is not None:
            raise error


def unknown() -> walkeeper.Error:
    return walkeeper.UnavailableError("the connection broke", outcome="unknown")


def mismatch() -> walkeeper.Error:
    return walkeeper.SequenceMismatchError("another record sits there", outcome="not_written")


@pytest.mark.parametrize(
    "steps",
    [
        [(100, None)],
        [(0, unknown()), (100, None)],
        [(100, unknown())],
        [(40, unknown()), (20, unknown()), (100, None)],
        [(30, mismatch()), (100, None)],
        [(100, mismatch())],
        [(0, unknown()), (70, mismatch()), (0, unknown()), (0, unknown()), (100, None)],
    ],
)
def test_the_rest_of_what_has_landed_is_appended(steps: list[tuple[int, walkeeper.Error | None]]) -> None:
    client = Landing(*steps)
    _append_at(client, "staging", pyarrow.array(PAYLOADS[:100]), 0)  # type: ignore[arg-type]
    assert client.log == PAYLOADS[:100]


@pytest.mark.parametrize("error", [unknown(), mismatch(), walkeeper.NoSpaceError("full", outcome="not_written")])
def test_what_stays_wrong_is_raised(error: walkeeper.Error) -> None:
    client = Landing(*[(0, error)] * _gateway_changes.TRIES)
    with pytest.raises(type(error)):
        _append_at(client, "staging", pyarrow.array(PAYLOADS[:100]), 0)  # type: ignore[arg-type]
