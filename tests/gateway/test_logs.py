"""Logs through the gateway, by its Python client: on a directory, and on three bookies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gateway_client
import pytest
from call import Call
from gateway_client import text
from tcp_proxy import TcpProxy
from test_damage import make, payload, turn_a_bit

import walkeeper
import walkeeper.aio
from walkeeper import Gap, errors
from walkeeper.gateway import Gateway, GatewayClient, _log_errors, _log_service, _log_writers
from walkeeper.gateway._columns import packed_numbers
from walkeeper.gateway._log_errors import ErrorCode, error_of, refusal
from walkeeper.gateway._log_writers import LogWriters
from walkeeper.gateway._protocol import Body, Refused, Request, Status
from walkeeper.idempotent import Staged, staging_log
from walkeeper_bookie.cluster import LocalCluster

FORKS = """
import os, sys
from walkeeper.gateway import GatewayClient

with GatewayClient(sys.argv[1], token=sys.argv[2]) as client:
    client.logs()
    child = os.fork()
    print(client.logs(), flush=True)
    if child:
        os.waitpid(child, 0)
"""
START = bytes([0]) + bytes(32)
"""A place: the start of the log."""
ON_CHANGES = {
    "open_log": lambda client, log: client.open_log(log),
    "append_many": lambda client, log: client.append_many(log, [b"x"]),
    "append_once": lambda client, log: client.append_once(log, "app", 1, [b"x"]),
    "last_version": lambda client, log: client.last_version(log, "app"),
    "truncate": lambda client, log: client.truncate(log, walkeeper.DLSN(1, 0, 0)),
    "cursor": lambda client, log: client.cursor(log, "c"),
    "advance_cursor": lambda client, log: client.advance_cursor(log, "c", walkeeper.DLSN(1, 0, 0)),
    "delete_cursor": lambda client, log: client.delete_cursor(log, "c"),
    "mark_end_of_stream": lambda client, log: client.mark_end_of_stream(log),
    "delete_log": lambda client, log: client.delete_log(log),
}


def client_of(*gateways: Gateway, timeout: float = 60.0) -> GatewayClient:
    addresses = [address for gateway in gateways for address in gateway.addresses]
    return GatewayClient(addresses, token=gateways[0].token, timeout=timeout)


def append_body(log: str, payloads: Sequence[bytes]) -> bytes:
    """Of an `append_many`."""
    head = text(log) + struct.pack(">BqBI", 0, -1, 0, len(payloads))
    offsets = [sum(map(len, payloads[:number])) for number in range(len(payloads) + 1)]
    return head + bytes(-len(head) % 8) + packed_numbers(offsets) + b"".join(payloads)


def payloads_in(client: GatewayClient, log: str) -> list[bytes]:
    """All of them."""
    found: list[bytes] = []
    batch = client.read(log)
    while len(batch):
        found += map(bytes, batch.payloads)
        batch = client.read(log, batch.next or "start")
    return found


# ---- appending and reading ----


def test_what_is_appended_is_read_as_the_embedded_api_reads_it(root: str) -> None:
    payloads = [b"a", b"", os.urandom(100_000), *(str(number).encode() for number in range(1000))]
    with Gateway(root) as gateway, client_of(gateway) as client:
        made = client.open_log("a/b", codec="lz4", segment_seconds=60)
        assert (made.options.codec, made.options.segment_seconds, made.count) == ("lz4", 60, 0)
        appended = client.append_many("a/b", payloads[:500])
        assert (appended.first.sequence_id, appended.last.sequence_id, appended.count) == (0, 499, 500)
        client.append_many("a/b", payloads[500:], txids=None, expected=500, atomic=True)
        batch = client.read("a/b", max_records=700)
        assert len(batch) == 700
        rest = client.read("a/b", batch.next or "start")
        assert [*batch.payloads, *rest.payloads] == payloads
        assert [*batch.sequence_id, *rest.sequence_id] == list(range(len(payloads)))
        assert batch.position(0) == appended.first
        assert batch.position(499).txid == appended.last.txid
        assert not rest.end_of_log
        end = client.read("a/b", rest.next or "start")
        assert (len(end), end.payloads, end.end_of_log, end.end_of_stream) == (0, [], True, False)
        assert end.next == rest.next
        assert end.to_arrow().num_rows == 0
        with walkeeper.open(root) as namespace:
            log = namespace.log("a/b")
            assert client.log_info("a/b") == log.info()
            with log.reader() as reader:
                expected = reader.read_arrow(max_records=700)
            assert expected is not None
            assert batch.to_arrow().schema.equals(expected.schema, check_metadata=True)
            assert batch.to_arrow().equals(expected)


def test_an_arrow_array_is_appended_without_a_loop(place: str) -> None:
    import pyarrow

    with Gateway(place) as gateway, client_of(gateway) as client:
        client.open_log("a")
        client.append_many("a", pyarrow.array([b"skipped", b"a", b"", b"bc"])[1:])
        client.append_many("a", pyarrow.array(["d", "é"], pyarrow.large_string()))
        client.append_many("a", client.read("a", max_records=2).to_arrow()["payload"])
        client.append_many("a", [memoryview(b"view"), bytearray(b"array")])
        assert payloads_in(client, "a") == [b"a", b"", b"bc", b"d", "é".encode(), b"a", b"", b"view", b"array"]


def test_a_reader_starts_where_it_is_told(root: str) -> None:
    with Gateway(root) as gateway, client_of(gateway) as client:
        client.open_log("numbered")
        client.append_many("numbered", [bytes([number]) for number in range(10)], txids=range(100, 200, 10))
        third = client.find("numbered", sequence_id=3)
        assert third.txid == 130
        for start in (third, third.dlsn):
            assert client.read("numbered", start).sequence_id[0] == 3
        assert client.read("numbered", sequence_id=4).txid[0] == 140
        assert client.read("numbered", txid=141).sequence_id[0] == 5
        end = client.read("numbered", "end")
        assert end.next is not None
        assert (len(end), end.next.sequence_id) == (0, 10)
        beyond = client.read("numbered", sequence_id=12)
        assert (len(beyond), beyond.next) == (0, None)
        client.append_many("numbered", [b"x", b"y", b"z"], txids=[200, 201, 202])
        assert client.read("numbered", end.next).sequence_id[0] == 10
        assert client.read("numbered", sequence_id=12).payloads == [b"z"]
        assert client.find("numbered", dlsn=third) == third
        assert client.find("numbered", txid=1000).sequence_id == 13
        with pytest.raises(errors.InvalidError, match="by time"):
            client.read("numbered", time=1.0)
        client.open_log("stamped")
        client.append_many("stamped", [b"now"])
        stamped = client.read("stamped").txid[0]
        assert client.find("stamped", time=stamped / 1000).sequence_id == 0
        assert client.find("stamped", time=(stamped + 1) / 1000).sequence_id == 1
        assert len(client.read("stamped", time=(stamped + 1) / 1000)) == 0


def test_a_read_keeps_to_its_limits(place: str) -> None:
    with Gateway(place) as gateway, client_of(gateway) as client:
        client.open_log("a")
        for _ in range(4):
            client.append_many("a", [os.urandom(600_000)] * 5)
        assert len(client.read("a", max_bytes=1)) == 1
        assert len(client.read("a", max_bytes=600_001)) == 2
        assert len(client.read("a")) == 2
        assert len(client.read("a", max_bytes=2**40)) == 4
        client.append_many("a", [b""] * 20_000)
        small = client.read("a", sequence_id=20, max_records=2**40)
        assert len(small) == 16_384


def test_a_conditional_append_says_what_sits_there(root: str) -> None:
    with Gateway(root) as gateway, client_of(gateway) as client:
        client.open_log("a")
        first = client.append_many("a", [b"0", b"1"], expected=0).first
        with pytest.raises(errors.SequenceMismatchError) as caught:
            client.append_many("a", [b"0"], expected=0)
        error = caught.value
        assert (error.sequence_id, error.txid, error.outcome, error.log) == (0, first.txid, "not_written", "a")
        with pytest.raises(errors.SequenceMismatchError):
            client.append_many("a", [b"0"], expected=5)
        with pytest.raises(errors.TxidError) as mixed:
            client.append_many("a", [b"0"], txids=[7])
        assert mixed.value.outcome == "not_written"
        assert client.append_many("a", [b"2"], expected=2).last.sequence_id == 2


def test_appends_of_one_connection_keep_their_order(place: str) -> None:
    with Gateway(place) as gateway, gateway_client.GatewayClient(gateway) as raw, client_of(gateway) as client:
        client.open_log("a")
        for number in range(50):
            body = append_body("a", [str(number).encode()] * (1 + number % 3))
            raw.socket.sendall(struct.pack(">IIB", len(body) + 5, 1000 + number, Request.APPEND_MANY) + body)
        for _ in range(50):
            length, _, status = struct.unpack(">IIB", raw._exactly(9))
            raw._exactly(length - 5)
            assert status == Status.OK
        wanted = [str(number).encode() for number in range(50) for _ in range(1 + number % 3)]
        assert payloads_in(client, "a") == wanted


def test_clients_of_many_threads_append_to_one_log(place: str) -> None:
    def run(number: int) -> None:
        for each in range(20):
            client.append_many("a", [f"{number} {each} {part}".encode() for part in range(3)])

    with Gateway(place) as gateway, client_of(gateway) as client:
        client.open_log("a")
        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = payloads_in(client, "a")
        assert len(found) == 8 * 20 * 3
        for number in range(8):
            mine = [payload for payload in found if payload.startswith(f"{number} ".encode())]
            assert mine == [f"{number} {each} {part}".encode() for each in range(20) for part in range(3)]


# ---- waiting for records ----


def test_a_read_waits_for_the_next_record(root: str) -> None:
    with Gateway(root) as gateway, client_of(gateway) as client:
        behind: walkeeper.Position | str = "start"
        client.open_log("a")
        for payload in (b"first", b"second"):
            reading = Call(lambda: client.read("a", behind, wait=60))  # type: ignore[arg-type]  # noqa: B023
            client.append_many("a", [payload])
            batch = reading.outcome()
            assert batch.payloads == [payload]
            behind = batch.next or "start"
        assert len(client.read("a", "end", wait=0.3)) == 0
        reading = Call(lambda: client.read("a", behind, wait=60))  # type: ignore[arg-type]
        client.mark_end_of_stream("a")
        assert reading.outcome().end_of_stream
        with pytest.raises(errors.EndOfStreamError) as caught:
            client.append_many("a", [b"late"])
        assert caught.value.outcome == "not_written"


def test_a_wait_at_the_end_misses_nothing_between_two_requests(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walkeeper.gateway._client.WAIT_SECONDS", 0.01)
    with Gateway(place) as gateway, client_of(gateway) as client, client_of(gateway) as other:
        client.open_log("a")
        other.append_many("a", [b"before"])
        ask, asked = client._answer, []

        def ask_and_append(*arguments: Any) -> memoryview:
            answer = ask(*arguments)
            if not asked:
                other.append_many("a", [b"between"])
            asked.append(arguments)
            return answer

        monkeypatch.setattr(client, "_answer", ask_and_append)
        assert client.read("a", "end", wait=60).payloads == [b"between"]
        assert len(asked) == 2


def test_more_clients_wait_on_bookies_than_there_are_threads(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walkeeper.gateway._logs.WAITING_MAX", 2)
    with Gateway(cluster) as gateway, client_of(gateway) as client:
        client.open_log("a")
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(len(client.read("a", wait=60)))) for _ in range(8)]
        for thread in threads:
            thread.start()
        client.append_many("a", [b"x"])
        for thread in threads:
            thread.join()
        assert found == [1] * 8


def test_a_wait_ends_with_its_client(place: str) -> None:
    with Gateway(place) as gateway:
        with client_of(gateway) as client:
            client.open_log("a")
        with gateway_client.GatewayClient(gateway) as raw:
            body = text("a") + START + struct.pack(">III", 0, 0, 30_000)
            raw.socket.sendall(struct.pack(">IIB", len(body) + 5, 7, Request.READ) + body)
            while not gateway._sessions:
                time.sleep(0.001)
        deadline = time.monotonic() + 20
        while gateway._sessions:
            assert time.monotonic() < deadline, "the wait of a client that went is still there"
            time.sleep(0.01)


def test_a_wait_ends_with_the_gateway(place: str) -> None:
    with Gateway(place) as gateway, gateway_client.GatewayClient(gateway) as raw:
        with client_of(gateway) as client:
            client.open_log("a")
        body = text("a") + START + struct.pack(">III", 0, 0, 30_000)
        raw.socket.sendall(struct.pack(">IIB", len(body) + 5, 7, Request.READ) + body)
        time.sleep(0.1)  # it waits, most of the time; the test is true in any case
        gateway.close()
        length, request, status = struct.unpack(">IIB", raw._exactly(9))
        assert (request, status) == (7, Status.UNAVAILABLE), raw._exactly(length - 5)


# ---- what is left and let go of ----


def test_truncation_waits_for_cursors_unless_it_is_forced(root: str) -> None:
    with Gateway(root) as gateway, client_of(gateway) as client:
        client.open_log("a")
        client.append_many("a", [bytes([number]) for number in range(10)])
        assert client.cursors("a") == {}
        assert client.cursor("a", "first").sequence_id == 0
        with pytest.raises(errors.CursorNotFoundError):
            client.cursor("a", "none", create=False)
        fifth = client.find("a", sequence_id=5)
        assert client.cursor("a", "é/x").sequence_id == 0
        assert client.advance_cursor("a", "é/x", fifth) == fifth
        assert client.advance_cursor("a", "first", fifth.dlsn) == fifth
        with pytest.raises(errors.InvalidError):
            client.advance_cursor("a", "first", client.find("a", sequence_id=3))
        assert client.cursors("a") == {"first": fifth, "é/x": fifth}
        with pytest.raises(errors.CursorHoldsError):
            client.truncate("a", client.find("a", sequence_id=6))
        client.truncate("a", fifth)
        client.truncate("a", fifth)
        with pytest.raises(errors.TruncatedError):
            client.read("a", sequence_id=4)
        with pytest.raises(errors.TruncatedError):
            client.find("a", sequence_id=4)
        assert client.read("a").sequence_id[0] == 5
        with pytest.raises(errors.InvalidError):
            client.truncate("a", walkeeper.DLSN(1000, 0, 0))
        client.delete_cursor("a", "é/x")
        with pytest.raises(errors.CursorNotFoundError):
            client.delete_cursor("a", "é/x")
        client.truncate("a", client.find("a", sequence_id=8), force=True)
        info = client.log_info("a")
        assert (info.first.sequence_id, info.next.sequence_id, info.count) == (8, 10, 2)


def test_no_cursor_is_made_where_one_is_moved(root: str) -> None:
    with Gateway(root) as gateway, client_of(gateway) as client:
        client.open_log("a")
        client.append_many("a", [b"x"])
        with pytest.raises(errors.CursorNotFoundError):
            client.advance_cursor("a", "c", walkeeper.DLSN(1, 0, 0))
        client.cursor("a", "c")
        with pytest.raises(errors.InvalidError):
            client.advance_cursor("a", "c", walkeeper.DLSN(1000, 0, 0))
        assert {name: position.sequence_id for name, position in client.cursors("a").items()} == {"c": 0}


def test_lost_records_are_told_and_passed(tmp_path: Path) -> None:
    make(tmp_path / "wal")
    for number in (3, 4):
        turn_a_bit(tmp_path / "wal", payload(number))
    with Gateway(tmp_path / "wal", on_damage="skip") as gateway, client_of(gateway) as client:
        for _ in range(2):  # by a reader that stands there, and by a new one
            batch = client.read("log-0")
            assert list(batch.sequence_id) == [0, 1, 2]
            with pytest.raises(errors.GapError) as caught:
                client.read("log-0", batch.next or "start")
            gap = caught.value.gap
            assert (gap.sequence_id, gap.count, gap.next.sequence_id) == (3, 2, 5)
            assert list(client.read("log-0", gap.next).sequence_id) == [5, 6, 7, 8, 9]
        assert client.log_info("log-0").count == 8


def test_a_log_that_was_deleted_and_made_again_is_another_log(root: str) -> None:
    with Gateway(root) as gateway, client_of(gateway) as client:
        first = client.open_log("a").log_id
        client.append_many("a", [b"old"])
        assert payloads_in(client, "a") == [b"old"]
        client.read("a", sequence_id=5)
        client.delete_log("a")
        for call in (client.log_info, client.read, client.delete_log, lambda log: client.append_many(log, [b"x"])):
            with pytest.raises(errors.LogNotFoundError):
                call("a")
        assert client.open_log("a").log_id != first
        assert len(client.read("a", sequence_id=5)) == 0
        client.append_many("a", [b"new"])
        assert payloads_in(client, "a") == [b"new"]
        with pytest.raises(errors.LogNotFoundError):
            client.open_log("b", create=False)


def test_a_log_that_others_deleted_and_made_again_is_another_log(place: str) -> None:
    with Gateway(place) as gateway, client_of(gateway) as client, walkeeper.open(place) as namespace:
        client.open_log("a")
        for payload in (b"0", b"1"):
            client.append_many("a", [payload])
            assert client.append_once("a", "app", 1, [b"once"])
            assert payloads_in(client, "a") == [payload, b"once"]
            namespace.delete_log("a")
            namespace.log("a")


def test_names_are_listed_in_pages(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_log_service, "PAGE_BYTES", 60)
    names = sorted((f"a/{number:03}" for number in range(30)), key=str.encode)
    with Gateway(place) as gateway, client_of(gateway) as client:
        for name in [*names, "b", "a/é"]:
            client.open_log(name)
        for cursor in names:
            client.cursor("b", cursor)
        assert client.logs("a/0") == names
        assert client.logs() == [*names, "a/é", "b"]
        assert client.logs("c") == []
        assert list(client.cursors("b")) == names


# ---- who writes ----


def test_a_writer_outside_fences_the_gateway_until_a_client_says_take(root: str) -> None:
    with Gateway(root) as gateway, client_of(gateway) as client, walkeeper.open(root) as namespace:
        client.open_log("a")
        client.append_many("a", [b"gateway"])
        with namespace.log("a").writer() as outside:
            outside.append(b"outside")
            for _ in range(2):
                with pytest.raises(errors.FencedError) as caught:
                    client.append_many("a", [b"refused"])
                assert caught.value.outcome == "not_written"
            outside.append(b"outside")
            assert payloads_in(client, "a") == [b"gateway", b"outside", b"outside"]
            client.take("a")
            client.append_many("a", [b"again"], expected=3)
            with pytest.raises(errors.FencedError):
                outside.append(b"refused")
        assert payloads_in(client, "a")[-1] == b"again"


def test_a_gateway_whose_log_was_taken_does_not_take_it_back_by_itself(root: str) -> None:
    with (
        Gateway(root, token="t") as one,
        Gateway(root, token="t") as other,
        client_of(one) as first,
        client_of(other) as second,
        client_of(one, other) as both,
    ):
        first.open_log("a")
        first.append_many("a", [b"0"])
        second.append_many("a", [b"1"])
        for _ in range(2):
            with pytest.raises(errors.FencedError):
                first.append_many("a", [b"2"])
        second.append_many("a", [b"2"])
        both.append_many("a", [b"3"])  # by the other one
        assert payloads_in(first, "a") == [b"0", b"1", b"2", b"3"]
        first.take("a")
        first.append_many("a", [b"4"])
        with pytest.raises(errors.FencedError):
            second.append_many("a", [b"5"])


def test_a_client_has_the_log_taken_over_from_a_gateway_that_is_gone(root: str) -> None:
    with Gateway(root, token="t") as one, Gateway(root, token="t") as other, client_of(one, other) as client:
        client.open_log("a")
        client.append_many("a", [b"0"])
        with client_of(other) as second:
            second.append_many("a", [b"1"])
        client.append_many("a", [b"2"])
        other.close()
        client.append_many("a", [b"3"], expected=3)
        assert payloads_in(client, "a") == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("log", ["files/app", "files-data/app/1", "transactions/1"])
@pytest.mark.parametrize("change", ON_CHANGES)
def test_logs_of_the_gateway_itself_are_not_changed(place: str, log: str, change: str) -> None:
    with walkeeper.open(place) as namespace:
        namespace.log(log).cursor("c")
    with Gateway(place) as gateway, client_of(gateway) as client:
        before = client.log_info(log), client.cursors(log)
        with pytest.raises(errors.InvalidError, match="of the gateway"):
            ON_CHANGES[change](client, log)
        assert (client.log_info(log), client.cursors(log)) == before
        assert len(client.read(log)) == 0


def test_writers_are_closed_when_they_are_idle_or_too_many(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_log_writers, "WRITERS_MAX", 2)

    async def main() -> None:
        async with walkeeper.aio.open(place) as namespace:
            for name in "abc":
                await namespace.log(name)
            writers = LogWriters(namespace)
            used: list[walkeeper.aio.Writer] = []
            for name in "abca":
                async with writers.use(name) as writer:
                    await writer.append(b"x")
                used.append(writer)
            assert [writer.closed for writer in used] == [True, True, False, False]
            async with writers.use("a") as held, writers.use("c"):
                assert held is used[3]
                with pytest.raises(Refused) as caught:
                    await writers.use("b").__aenter__()
                assert (caught.value.status, caught.value.outcome) == (Status.UNAVAILABLE, "not_written")
                monkeypatch.setattr(_log_writers, "IDLE_SECONDS", 0.0)
                await writers.close_idle()
                assert not held.closed
            await writers.close_idle()
            assert held.closed
            async with writers.use("b") as writer:
                await writer.append(b"x")
            await writers.close()
            with pytest.raises(errors.ClosedError):
                await writers.use("b").__aenter__()

    asyncio.run(main())


# ---- exactly once ----


def test_a_version_is_appended_once_between_other_appends(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Gateway(root, token="t") as gateway, client_of(gateway) as client:
        log_id = client.open_log("a").log_id
        stage = staging_log(log_id, "app", 2)
        client.open_log(stage)
        client.append_many(stage, [b"s0", b"s1", b"s2"])
        assert client.last_version("a", "app") is None
        others = Call(lambda: [client.append_many("a", [b"other"]) for _ in range(20)])
        assert client.append_once("a", "app", 1, [b"v1"])
        assert client.append_once("a", "app", 2, [b"p0", b"p1"], [Staged(stage, 1, 2)])
        assert not client.append_once("a", "app", 2, [b"p0", b"p1"], [Staged(stage, 1, 2)])
        assert len(others.outcome()) == 20
        assert client.last_version("a", "app") == 2
        found = payloads_in(client, "a")
        first = found.index(b"p0")
        assert found[first : first + 4] == [b"p0", b"p1", b"s1", b"s2"]
        assert sorted(found) == sorted([b"other"] * 20 + [b"v1", b"p0", b"p1", b"s1", b"s2"])
        with pytest.raises(errors.LogNotFoundError):
            client.append_once("a", "app", 3, (), [Staged("staging/none", 0, 1)])
        with monkeypatch.context() as patch:
            patch.setattr("walkeeper.idempotent._writer.PATIENCE_S", 0.1)  # no record 1000 comes
            with pytest.raises(errors.InvalidError):
                client.append_once("a", "app", 3, (), [Staged("a", 1000, 1)])
        assert client.append_many("a", [b"still"]).count == 1
        with Gateway(root, token="t") as other, client_of(other) as second:
            assert not second.append_once("a", "app", 2, [b"p0", b"p1"])
            assert second.append_once("a", "app", 3, [b"v3"])
            with pytest.raises(errors.FencedError):
                client.append_once("a", "app", 4, [b"v4"])
            assert payloads_in(second, "a")[-1] == b"v3"


# ---- connections that break ----


def test_an_append_whose_answer_is_lost_has_an_unknown_outcome(place: str) -> None:
    with Gateway(place) as gateway, client_of(gateway) as direct:
        direct.open_log("a")
        proxy = TcpProxy(int(gateway.addresses[0].rpartition(":")[2]))
        with GatewayClient(proxy.hosts, token=gateway.token) as client:
            client.append_many("a", [b"0"], expected=0)
            proxy.swallow_answers()
            appending = Call(lambda: client.append_many("a", [b"1"], expected=1))
            assert direct.read("a", sequence_id=1, wait=60).payloads == [b"1"]
            proxy.cut()
            proxy.heal()
            error = appending.outcome()
            assert isinstance(error, errors.UnavailableError)
            assert error.outcome == "unknown"
            with pytest.raises(errors.SequenceMismatchError) as sits:
                client.append_many("a", [b"1"], expected=1)
            assert sits.value.sequence_id == 1
            assert payloads_in(client, "a") == [b"0", b"1"]
        proxy.close()


def test_where_bookies_fail_the_outcome_is_unknown_and_later_appends_go_on(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as bookies:
        bookies.start()
        with Gateway(bookies.metadata) as gateway, client_of(gateway) as client:
            client.open_log("a")
            client.append_many("a", [b"0"], expected=0)
            for bookie in bookies.bookies[:2]:
                assert bookie.process is not None
                bookie.process.kill()
                bookie.process.wait()
            with pytest.raises(errors.UnavailableError) as caught:
                client.append_many("a", [b"1"], expected=1)
            assert caught.value.outcome == "unknown"
            with client_of(gateway, timeout=0.5) as hasty, pytest.raises(errors.TimeoutError) as late:
                hasty.append_many("a", [b"late"], expected=2)
            assert late.value.outcome in ("not_written", "unknown")
            for bookie in bookies.bookies[:2]:
                bookies.launch_one(bookie)
            with contextlib.suppress(errors.SequenceMismatchError):
                client.append_many("a", [b"1"], expected=1)
            found = payloads_in(client, "a")
            assert found[:2] == [b"0", b"1"]
            assert len(found) == 2 or found[2:] == [b"late"]


def test_what_changes_nothing_and_what_is_made_once_is_asked_again(place: str) -> None:
    with Gateway(place) as gateway, client_of(gateway) as direct:
        direct.open_log("a")
        direct.append_many("a", [b"0"])
        proxy = TcpProxy(int(gateway.addresses[0].rpartition(":")[2]))
        with GatewayClient(proxy.hosts, token=gateway.token) as client:
            for ask in (
                lambda: client.read("a").payloads,
                lambda: client.append_once("a", "app", 1, [b"once"]),
                lambda: client.truncate("a", direct.log_info("a").first),
            ):
                client.log_info("a")
                proxy.swallow_answers()
                asking = Call(ask)
                swallowed = proxy.swallowed
                while proxy.swallowed == swallowed:
                    time.sleep(0.001)
                proxy.cut()
                proxy.heal()
                assert not isinstance(asking.outcome(), Exception)
        proxy.close()
        assert payloads_in(direct, "a") == [b"0", b"once"]


def test_the_outcome_of_several_tries_is_unknown_where_that_of_one_is(place: str) -> None:
    with Gateway(place) as gateway, client_of(gateway) as direct:
        direct.open_log("a")
        proxy = TcpProxy(int(gateway.addresses[0].rpartition(":")[2]))
        with GatewayClient(proxy.hosts, token=gateway.token, timeout=2.0) as client:
            client.log_info("a")
            proxy.swallow_answers()
            appending = Call(lambda: client.append_once("a", "app", 1, [b"once"]))
            assert direct.read("a", wait=60).payloads == [b"once"]
            proxy.refuse()
            error = appending.outcome()
            assert isinstance(error, errors.TimeoutError)
            assert error.outcome == "unknown"
        proxy.close()


def test_a_part_of_a_request_appends_nothing(place: str) -> None:
    with Gateway(place) as gateway, client_of(gateway) as client:
        client.open_log("a")
        body = append_body("a", [b"x" * 100_000])
        frame = struct.pack(">IIB", len(body) + 5, 9, Request.APPEND_MANY) + body
        for size in (3, 9, 20, len(frame) - 1):
            with gateway_client.GatewayClient(gateway) as raw:
                raw.socket.sendall(frame[:size])
        while gateway._sessions:
            if len(gateway._sessions) == len(client._idle):
                break
            time.sleep(0.001)
        assert client.log_info("a").count == 0


def test_a_gateway_that_was_started_again_is_asked_by_a_new_connection(place: str) -> None:
    with Gateway(place) as gateway:
        address, token = gateway.addresses[0], gateway.token
        client = GatewayClient(address, token=token)
        client.open_log("a")
        client.append_many("a", [b"0"])
    with Gateway(place, listen=address, token=token), client:
        client.append_many("a", [b"1"])
        assert payloads_in(client, "a") == [b"0", b"1"]


def test_a_process_that_was_forked_closes_its_copies_of_connections(place: str) -> None:
    with Gateway(place) as gateway, client_of(gateway) as client:
        client.open_log("a")
        command = [sys.executable, "-W", "always::ResourceWarning", "-c", FORKS, gateway.addresses[0], gateway.token]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "['a']\n" * 2), done.stderr
    assert "ResourceWarning" not in done.stderr


def test_where_no_gateway_answers_nothing_was_written() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with GatewayClient([f"127.0.0.1:{port}", "unix:/none"], token="t", timeout=0.1) as client:
        with pytest.raises(errors.TimeoutError) as caught:
            client.append_many("a", [b"x"])
        assert caught.value.outcome == "not_written"
        assert "no gateway answered" in str(caught.value)
    with pytest.raises(errors.ClosedError):
        client.logs()


def test_a_gateway_is_reached_by_a_unix_socket_and_by_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
    request += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", "-days", "30", *request], check=True, capture_output=True)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate, key)
    trusts = ssl.create_default_context(cafile=str(certificate))
    with Gateway(tmp_path / "wal", listen=[f"unix:{tmp_path}/s", "localhost:0"], tls=served) as gateway:
        with GatewayClient(gateway.addresses[0], token=gateway.token) as client:
            client.open_log("a")
            client.append_many("a", [b"x" * 1_000_000] * 3)
        port = gateway.addresses[1].rpartition(":")[2]
        with GatewayClient(f"localhost:{port}", token=gateway.token, tls=trusts) as client:
            assert payloads_in(client, "a") == [b"x" * 1_000_000] * 3
            client.append_many("a", [b"y"])
        stranger = GatewayClient(f"127.0.0.1:{port}", token=gateway.token, tls=trusts, timeout=2)
        with stranger, pytest.raises(errors.TimeoutError, match="certificate"):
            stranger.logs()
        with GatewayClient(gateway.addresses[0], token="another") as client, pytest.raises(errors.UnauthorizedError):
            client.logs()


def test_a_child_of_the_process_leaves_the_connections_alone(place: str) -> None:
    with Gateway(place) as gateway, client_of(gateway) as client:
        client.open_log("a")
        [kept] = client._idle
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                client.append_many("a", [b"child"])
                os.write(write, b"ok" if kept not in client._idle else b"shared")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 10) == b"ok"
        os.close(read)
        os.close(write)
        client.append_many("a", [b"parent"], expected=1)
        assert kept in client._idle


# ---- what is wrong ----

LOG = text("a")
DLSN = struct.pack(">3q", 1, 0, 0)
COLUMNS_OF_ONE = packed_numbers([0, 1]) + b"x"
APPEND_HEAD = LOG + struct.pack(">BqBI", 0, -1, 0, 1)
BAD = {
    "nothing": (Request.LOG_INFO, b""),
    "a text that is longer than the body": (Request.LOG_INFO, b"\xff\xff\xff\xffa"),
    "a text that is no UTF-8": (Request.LOG_INFO, text(b"\xff")),
    "bytes behind the last field": (Request.LOG_INFO, LOG + b"\0"),
    "an empty name": (Request.OPEN_LOG, text("") + b"\1" + struct.pack(">3qB", -1, -1, -1, 255)),
    "a name with a NUL": (Request.OPEN_LOG, text("a\0b") + b"\1" + struct.pack(">3qB", -1, -1, -1, 255)),
    "a flag of 2": (Request.OPEN_LOG, LOG + b"\2" + struct.pack(">3qB", -1, -1, -1, 255)),
    "no such codec": (Request.OPEN_LOG, LOG + b"\1" + struct.pack(">3qB", -1, -1, -1, 9)),
    "a segment of 0 bytes": (Request.OPEN_LOG, text("b") + b"\1" + struct.pack(">3qB", 0, -1, -1, 255)),
    "an append of nothing": (Request.APPEND_MANY, LOG + struct.pack(">BqBI", 0, -1, 0, 0) + bytes(5) + bytes(8)),
    "bytes that are not zero before columns": (Request.APPEND_MANY, APPEND_HEAD + b"\0\0\0\0\1" + COLUMNS_OF_ONE),
    "columns that are not aligned": (Request.APPEND_MANY, APPEND_HEAD + COLUMNS_OF_ONE),
    "more records than bytes": (Request.APPEND_MANY, LOG + struct.pack(">BqBI", 0, -1, 0, 2**32 - 1) + bytes(13)),
    "offsets that begin behind 0": (Request.APPEND_MANY, APPEND_HEAD + bytes(5) + packed_numbers([1, 1]) + b"x"),
    "offsets that fall": (
        Request.APPEND_MANY,
        LOG + struct.pack(">BqBI", 0, -1, 0, 3) + bytes(5) + packed_numbers([0, 9, 5, 1]) + b"x",
    ),
    "offsets that end before the bytes": (Request.APPEND_MANY, APPEND_HEAD + bytes(5) + packed_numbers([0, 1]) + b"xy"),
    "offsets that end behind the bytes": (Request.APPEND_MANY, APPEND_HEAD + bytes(5) + packed_numbers([0, 2]) + b"x"),
    "an expected id of -2": (
        Request.APPEND_MANY,
        LOG + struct.pack(">BqBI", 0, -2, 0, 1) + bytes(5) + COLUMNS_OF_ONE,
    ),
    "a txid below 0": (
        Request.APPEND_MANY,
        LOG + struct.pack(">BqBI", 0, -1, 1, 1) + bytes(5) + packed_numbers([-5]) + COLUMNS_OF_ONE,
    ),
    "a record of 1 MiB": (
        Request.APPEND_MANY,
        APPEND_HEAD + bytes(5) + packed_numbers([0, 2**20]) + bytes(2**20),
    ),
    "no such way to a place": (Request.READ, LOG + b"\x06" + bytes(32) + bytes(12)),
    "a sequence id below 0": (Request.READ, LOG + struct.pack(">B4q", 3, -1, 0, 0, 0) + bytes(12)),
    "a time behind the year 9999": (Request.READ, LOG + struct.pack(">B4q", 5, 2**62, 0, 0, 0) + bytes(12)),
    "a read without its limits": (Request.READ, LOG + START),
    "to find the start": (Request.FIND, LOG + START),
    "to find a txid below 0": (Request.FIND, LOG + struct.pack(">B4q", 4, -9, 0, 0, 0)),
    "to truncate behind the end": (Request.TRUNCATE, LOG + struct.pack(">5q", 99, 0, 0, -1, -1) + b"\0"),
    "to truncate by half a position": (Request.TRUNCATE, LOG + DLSN + b"\0"),
    "a cursor without a name": (Request.CURSOR, LOG + text("") + b"\1"),
    "a cursor with a long name": (Request.CURSOR, LOG + text("c" * 256) + b"\1"),
    "a cursor to move to half a position": (Request.ADVANCE_CURSOR, LOG + text("c") + DLSN),
    "a version of 2**63": (
        Request.APPEND_ONCE,
        LOG + text("p") + struct.pack(">QII", 2**63, 1, 0) + bytes(6) + COLUMNS_OF_ONE,
    ),
    "fewer staged parts than it says": (
        Request.APPEND_ONCE,
        LOG + text("app") + struct.pack(">QII", 1, 1, 9) + COLUMNS_OF_ONE,
    ),
    "a page without where it begins": (Request.LOGS, text("")),
    "no request at all": (Request.LAST_VERSION + 1, LOG),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused_and_changes_nothing(place: str, name: str) -> None:
    code, body = BAD[name]
    with Gateway(place) as gateway, gateway_client.GatewayClient(gateway) as raw, client_of(gateway) as client:
        client.open_log("a")
        client.append_many("a", [b"kept"])
        before = client.log_info("a")
        answer = raw.call(code, body)
        assert answer.status == Status.INVALID, answer
        assert answer.text
        assert client.log_info("a") == before
        assert client.cursors("a") == {}
        assert client.logs() == ["a"]
        assert raw.call(Request.LOG_INFO, LOG).status == Status.OK


def test_bytes_by_chance_are_answered(place: str) -> None:
    chance = random.Random(0)
    with Gateway(place) as gateway, gateway_client.GatewayClient(gateway) as raw, client_of(gateway) as client:
        client.open_log("a")
        for code in range(Request.LOGS, Request.LAST_VERSION + 1):
            for _ in range(20):
                body = LOG + chance.randbytes(chance.randrange(80))
                assert raw.call(code, body).status != Status.OK or code in (Request.TAKE_LOG, Request.LOGS)
        assert client.log_info("a").count == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.append_many("a", []),
        lambda client: client.append_many("a", [b"x"], txids=[1, 2]),
        lambda client: client.append_many("a", [b"x"], txids=[-1]),
        lambda client: client.append_many("a", [b"x"], expected=-1),
        lambda client: client.append_many("a", [b"x" * 1_000_000] * 5),
        lambda client: client.append_many("a", [b"x", b"y" * 2**20]),
        lambda client: client.append_once("a", "app", -1, [b"x"]),
        lambda client: client.append_once("a", "", 1, [b"x"]),
        lambda client: client.open_log("b", codec="gzip"),
        lambda client: client.open_log("b", segment_bytes=-1),
        lambda client: client.open_log("b", segment_bytes=True),
        lambda client: client.open_log(" "),
        lambda client: client.read("a", "middle"),
        lambda client: client.read("a", "end", sequence_id=1),
        lambda client: client.read("a", sequence_id=1, txid=1),
        lambda client: client.read("a", max_records=0),
        lambda client: client.read("a", max_bytes=-1),
        lambda client: client.read("a", wait=-1),
        lambda client: client.find("a"),
        lambda client: client.find("a", sequence_id=1, txid=1),
        lambda client: client.read("a", time=float("nan")),
        lambda client: client.truncate("a", walkeeper.DLSN(2**63, 0, 0)),
        lambda client: GatewayClient([], token="t"),
        lambda client: GatewayClient("127.0.0.1", token="t"),
        lambda client: GatewayClient("127.0.0.1:0", token="t"),
        lambda client: GatewayClient("unix:", token="t"),
        lambda client: GatewayClient("a:1", token="t", timeout=-1),
    ],
)  # fmt: skip
def test_what_cannot_be_is_a_clear_error(place: str, call: Callable[[GatewayClient], object]) -> None:
    with Gateway(place) as gateway, client_of(gateway) as client:
        client.open_log("a")
        with pytest.raises((errors.InvalidError, errors.TooLargeError)) as caught:
            call(client)
        assert caught.value.outcome in (None, "not_written")
        assert client.logs() == ["a"]
        assert client.log_info("a").count == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.append_many("a", ["text"]),
        lambda client: client.append_many("a", [7]),
        lambda client: client.open_log("b", no_such_option=1),
        lambda client: client.truncate("a", 7),
        lambda client: client.read("a", 7),
        lambda client: GatewayClient([7], token="t"),
    ],
)
def test_what_is_of_another_type_is_a_type_error(place: str, call: Callable[[GatewayClient], object]) -> None:
    with Gateway(place) as gateway, client_of(gateway) as client:
        client.open_log("a")
        with pytest.raises(TypeError):
            call(client)
        assert client.logs() == ["a"]


@pytest.mark.parametrize("code", ErrorCode)
def test_a_client_raises_what_the_gateway_was_given(code: ErrorCode) -> None:
    kind = _log_errors._KINDS[code][0]
    given = kind("why", sequence_id=5, txid=7, outcome="unknown", durable_count=3)
    if isinstance(given, errors.GapError):
        given.gap = Gap((0, 0, 1, 2, 3, 4, -1, 5, 6, 7, 9, 1))
    status, body = refusal(given)
    assert status not in (Status.OK, Status.GONE)
    raised = error_of(Body(body), "a")
    assert type(raised) is kind
    assert vars(raised) == {**vars(given), "log": "a"} or code == ErrorCode.GAP
    if isinstance(raised, errors.GapError):
        assert raised.gap._cells == given.gap._cells  # type: ignore[attr-defined]
