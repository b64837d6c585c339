"""The gateway over its protocol: files that are there when they are answered, on a directory and on three bookies."""

from __future__ import annotations

import gc
import os
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from gateway_client import Answer, GatewayClient, text

import walkeeper
from walkeeper.errors import InvalidError
from walkeeper.gateway import Gateway, _gateway, _rewriting, _session
from walkeeper.gateway._protocol import FRAME_MAX, Request, Status

BIG = os.urandom(3_000_001)

EVIL = [
    "", "a", "//", "/a/", "//a", "/a//b", "/.", "/..", "/a/.", "/a/..", "/a/../b", "/../etc/passwd", "/a/../../b",
    "/a/\0", "/a\0b/c", "a/b", "./a", "../a", "/a/./b", "/" + "n" * 256, "/a/" + "é" * 128, "/a" * 2100, "file:///etc/passwd",
]  # fmt: skip
ODD = [
    "/a/b\\c", "/a/ b", "/a/b ", "/a/~", "/a/CON", "/a/b:c", "/a/%2e%2e", "/a/…", "/a/b.", "/a/...", "/a/\n", "/a/-rf",
    "/a/$HOME", "/a/*", "/a/'\"", "/a/" + "n" * 255, "/é è/b", "/%2F/b", "/a/\u202e", "/a/\x7f",
]  # fmt: skip


def test_what_is_put_is_there_and_is_there_once(root: str) -> None:
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        assert client.get("/app/q/offsets/0") == Answer(Status.NOT_FOUND, text("/app/q/offsets/0 is not there"))
        assert client.list("/") == {}
        assert client.put("/app/q/offsets/0", b"one").status == Status.OK
        assert client.put("/app/q/offsets/0", b"two").status == Status.EXISTS
        assert client.get("/app/q/offsets/0") == b"one"
        assert client.put("/app/q/offsets/0", b"three", replaces=True).status == Status.OK
        assert client.put("/app/q/offsets", b"", replaces=True).status == Status.IS_A_DIRECTORY
        assert client.put("/app/q/offsets/0/x", b"").status == Status.NOT_A_DIRECTORY
        assert client.rename("/app/q/offsets/0", "/app/q/offsets/1").status == Status.OK
        assert client.rename("/app/q/offsets/0", "/app/q/offsets/2").status == Status.NOT_FOUND
        assert client.delete("/app/q").status == Status.NOT_EMPTY
        assert client.mkdir("/app/empty").status == Status.OK
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        assert client.get("/app/q/offsets/1") == b"three"
        listed = client.list("/app")
        assert isinstance(listed, dict)
        assert sorted(listed) == ["empty", "q"]
        assert client.delete("/app", recursive=True).body == b"\1"
        assert client.delete("/app", recursive=True).body == b"\0"
        assert client.stat("/app") is None
        assert client.list("/") == {}


def test_a_large_file_is_visible_whole_or_not_at_all(root: str) -> None:
    with Gateway(root) as gateway:
        with GatewayClient(gateway) as client:
            upload = client.upload("/app/big")
            for offset in range(0, len(BIG), 700_000):
                assert client.chunk(upload, offset, BIG[offset : offset + 700_000]).status == Status.OK
            assert client.chunk(upload, 5, b"x").status == Status.INVALID
            assert client.stat("/app/big") is None
            assert client.publish(upload, "/app/big").status == Status.OK
            assert client.publish(upload, "/app/big").status == Status.GONE
            left = client.upload("/app/left")
            assert client.chunk(left, 0, BIG[:1_000_000]).status == Status.OK
        with walkeeper.open(root) as namespace:
            deadline = time.monotonic() + 30
            while len(namespace.logs("files-data/")) > 1:
                assert time.monotonic() < deadline, "the upload of a client that went is still there"
                time.sleep(0.02)
        with GatewayClient(gateway) as client:
            assert client.get("/app/big") == BIG
            assert client.stat("/app/left") is None
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        assert client.get("/app/big") == BIG
        assert client.put("/app/big", b"small", replaces=True).status == Status.OK
        assert client.get("/app/big") == b"small"
    with walkeeper.open(root) as namespace:
        assert namespace.logs("files-data/") == []


def test_a_publish_ends_its_upload_also_where_it_is_refused(place: str) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert client.put("/app/taken", b"").status == Status.OK
        for path, refusal in (("/app/taken", Status.EXISTS), ("/other/big", Status.INVALID)):
            upload = client.upload("/app/big")
            assert client.chunk(upload, 0, BIG[:600_000]).status == Status.OK
            assert client.publish(upload, path).status == refusal
            assert client.publish(upload, "/app/big").status == Status.GONE
        assert client.stat("/app/big") is None
    with walkeeper.open(place) as namespace:
        assert namespace.logs("files-data/") == []


def test_a_connection_has_sixteen_uploads_and_room_again_when_one_ends(place: str) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        first, *_ = [client.upload(f"/app/{number}") for number in range(16)]
        assert client.try_upload("/app/more").status == Status.UNAVAILABLE
        with GatewayClient(gateway) as another:
            assert another.try_upload("/app/more").status == Status.OK
        assert client.discard(first).status == Status.OK
        assert client.try_upload("/app/more").status == Status.OK
        assert client.try_upload("/app/one more").status == Status.UNAVAILABLE


def test_uploads_that_are_asked_for_at_once_are_sixteen_at_most(place: str) -> None:
    """Requests of one connection are served side by side: those that begin count, too."""
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        answers = client.call_at_once(Request.UPLOAD, [text("/app/big")] * 40)
        assert [answer.status for answer in answers].count(Status.OK) == 16
        assert [answer.status for answer in answers].count(Status.UNAVAILABLE) == 24


def test_a_get_behind_the_end_of_a_shorter_file_answers_which_file_it_is(place: str) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        for content in (BIG[:2000], BIG[:10]):
            assert client.put("/app/0", content, replaces=True).status == Status.OK
        assert client.put("/app/large", b"").status == Status.OK
        upload = client.upload("/app/large")
        assert client.chunk(upload, 0, BIG[:600_000]).status == Status.OK
        assert client.publish(upload, "/app/large", replaces=True).status == Status.OK
        for path, offset in (("/app/0", 10), ("/app/0", 1000), ("/app/large", 600_001), ("/app/0", 2**64 - 1)):
            answer = client.piece(path, offset, 1000)
            assert answer == Answer(Status.OK, client.stat_as(path, 0).body + bytes(4))


def test_a_rename_makes_the_directories_above_its_target(place: str) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert client.put("/app/0", b"0").status == Status.OK
        assert client.rename("/app/0", "/app/a/b/c").status == Status.OK
        assert client.get("/app/a/b/c") == b"0"


def test_a_rename_replaces_a_file_by_a_file_and_an_empty_directory_by_a_directory(place: str) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        for path in ("/app/old/0", "/app/old/1", "/app/full/0"):
            assert client.put(path, path.encode()).status == Status.OK
        for path in ("/app/empty", "/app/another"):
            assert client.mkdir(path).status == Status.OK
        assert client.rename("/app/old", "/app/empty").status == Status.EXISTS
        for path, target, refusal in (
            ("/app/old", "/app/full", Status.NOT_EMPTY),
            ("/app/old", "/app/full/0", Status.EXISTS),
            ("/app/old/0", "/app/empty", Status.IS_A_DIRECTORY),
        ):
            assert client.rename(path, target, replaces=True).status == refusal
        assert client.rename("/app/old", "/app/empty", replaces=True).status == Status.OK
        assert client.rename("/app/empty/0", "/app/empty/1", replaces=True).status == Status.OK
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        listed = [client.list(path) for path in ("/app", "/app/empty", "/app/full")]
        assert [sorted(each) for each in listed] == [["another", "empty", "full"], ["1"], ["0"]]
        assert client.get("/app/empty/1") == b"/app/old/0"


def test_a_root_may_be_a_file(place: str) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert client.put("/file", b"content").status == Status.OK
        assert client.put("/app/0", b"").status == Status.OK
        listed = client.list("/")
        assert isinstance(listed, dict)
        assert {name: entry.is_directory for name, entry in listed.items()} == {"app": True, "file": False}


def test_a_directory_is_listed_in_pages(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_session, "LIST_MAX", 100)
    names = sorted(["a", "é", "z", "\U0001f600", "\uffff", *(f"{number}-{'n' * 30}" for number in range(20))])
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        for name in names:
            assert client.put(f"/app/{name}", b"1").status == Status.OK
        listed = client.list("/app")
        assert isinstance(listed, dict)
        assert list(listed) == sorted(names, key=str.encode)
        page = client.call(Request.LIST, text("/app") + text("1"))
        assert page.body[:5] == struct.pack(">BI", 1, 1)
        assert client.call(Request.LIST, text("/app") + text("\U0001f600")).body == bytes(5)


def test_a_page_of_a_large_directory_fits_a_frame(place: str) -> None:
    names = [f"{number:05}{'n' * 250}" for number in range(16_000)]
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        for at in range(0, len(names), 200):
            bodies = [client.operation() + text(f"/app/{name}") + bytes(8) for name in names[at : at + 200]]
            assert {answer.status for answer in client.call_at_once(Request.MKDIR, bodies)} == {Status.OK}
        listed = client.list("/app")
        assert isinstance(listed, dict)
        assert list(listed) == names


def test_an_operation_that_comes_again_is_made_once(root: str) -> None:
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        again = client.operation()
        assert client.put("/app/0", b"mine", operation=again).status == Status.OK
        assert client.put("/app/0", b"mine", operation=again).status == Status.OK
        assert client.delete("/app/0").body == b"\1"
        assert client.put("/app/0", b"mine", operation=again).status == Status.OK
        assert client.stat("/app/0") is None
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        assert client.put("/app/0", b"mine", operation=again).status == Status.OK
        assert client.stat("/app/0") is None


def test_an_upload_that_comes_again_leaves_no_log(place: str) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        again = client.operation()
        for _ in range(2):
            upload = client.upload("/app/big")
            assert client.chunk(upload, 0, BIG[:600_000]).status == Status.OK
            assert client.publish(upload, "/app/big", operation=again).status == Status.OK
        assert client.get("/app/big") == BIG[:600_000]
    with walkeeper.open(place) as namespace:
        assert len(namespace.logs("files-data/")) == 1


def test_the_newest_owner_alone_changes_a_directory(root: str) -> None:
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        first = client.acquire("/app/q", "first of host a")
        assert client.put("/app/q/offsets/0", b"", epoch=first).status == Status.OK
        second = client.acquire("/app/q", "second of host b")
        assert second > first
        for refused in (
            client.put("/app/q/offsets/1", b"", epoch=first),
            client.mkdir("/app/q/state", epoch=first),
            client.delete("/app/q/offsets/0", epoch=first),
            client.rename("/app/q/offsets/0", "/app/x", epoch=first),
            client.stat_as("/app/q/offsets/0", first),
        ):
            assert refused.status == Status.FENCED
            assert "second of host b" in refused.text
        assert client.put("/app/q/offsets/1", b"", epoch=second).status == Status.OK
        assert client.put("/app/q/by-hand", b"").status == Status.OK
        assert client.put("/app/other/0", b"", epoch=second).status == Status.FENCED
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        assert client.put("/app/q/offsets/2", b"", epoch=first).status == Status.FENCED
        assert client.put("/app/q/offsets/2", b"", epoch=second).status == Status.OK
        assert client.delete("/app/q", recursive=True, epoch=second).status == Status.OK
        assert client.put("/app/q/offsets/2", b"", epoch=second).status == Status.FENCED
        assert client.acquire("/app/q", "third") > second


def test_a_gateway_whose_root_was_taken_does_not_take_it_back_by_itself(place: str) -> None:
    with Gateway(place) as one, Gateway(place) as other, GatewayClient(one) as first, GatewayClient(other) as second:
        assert first.put("/app/0", b"0").status == Status.OK
        assert second.put("/app/1", b"1").status == Status.OK
        assert first.put("/app/2", b"2").status == Status.NOT_OWNER
        assert first.put("/app/2", b"2").status == Status.NOT_OWNER
        assert second.get("/app/0") == b"0"
        assert second.stat("/app/2") is None
        assert first.take("/app").status == Status.OK
        assert first.put("/app/3", b"3").status == Status.OK
        assert first.get("/app/1") == b"1"
        assert second.put("/app/4", b"4").status == Status.NOT_OWNER


def test_the_list_of_roots_takes_none_over(place: str) -> None:
    with Gateway(place) as one, Gateway(place) as other, GatewayClient(one) as first, GatewayClient(other) as second:
        assert first.put("/app/0", b"0").status == Status.OK
        listed = second.list("/")
        assert isinstance(listed, dict)
        assert list(listed) == ["app"]
        assert first.put("/app/1", b"1").status == Status.OK


def test_puts_of_many_clients_are_decided_one_by_one(place: str) -> None:
    won: list[int] = []

    def run(gateway: Gateway, number: int) -> None:
        with GatewayClient(gateway) as client:
            answers = [client.put(f"/app/{file}", str(number).encode()) for file in range(50)]
            won.extend(file for file, answer in enumerate(answers) if answer.status == Status.OK)

    with Gateway(place) as gateway:
        threads = [threading.Thread(target=run, args=(gateway, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == list(range(50))


@pytest.mark.parametrize("path", EVIL)
def test_what_is_no_path_is_refused(place: str, path: str) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert client.put(path, b"evil").status == Status.INVALID
        assert client.call(Request.GET, text(path) + bytes(12)).status == Status.INVALID
        assert client.list("/") == {}


def test_odd_names_stay_as_they_are_and_touch_no_files(place: str, tmp_path: Path) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        for path in ODD:
            assert client.put(path, path.encode()).status == Status.OK, path
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert [client.get(path) for path in ODD] == [path.encode() for path in ODD]
    assert os.listdir(tmp_path) == ["wal"]


def test_a_wrong_token_and_what_is_no_hello_end_the_connection(place: str) -> None:
    with Gateway(place) as gateway:
        wrong = GatewayClient(gateway, "another")
        assert wrong.hello.status == Status.UNAUTHORIZED
        assert wrong.socket.recv(1) == b""
        wrong.close()
        host, _, port = gateway.addresses[0].rpartition(":")
        for sent in (
            struct.pack(">IIB", 5, 1, Request.LIST),
            struct.pack(">IIB", FRAME_MAX + 1, 1, 1),
            b"GET / HTTP/1.1\r\n",
        ):
            with socket.create_connection((host, int(port)), timeout=30) as stranger:
                stranger.sendall(sent)
                try:
                    assert stranger.recv(1) == b""
                except ConnectionResetError:
                    pass
        with GatewayClient(gateway) as client:
            assert client.call(99, b"").status == Status.INVALID
            assert client.call(Request.STAT, b"\0\0").status == Status.INVALID
            assert client.call(Request.STAT, text("/app") + bytes(9)).status == Status.INVALID
            assert client.put("/app/0", b"x").status == Status.OK


def ended(connected: socket.socket) -> bool:
    """The gateway has closed the connection: its end is behind what was sent before."""
    connected.settimeout(10)
    try:
        while connected.recv(1 << 20):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def test_a_gateway_that_closes_ends_each_connection(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a client that is idle, of one that reads no answers, and of some that have only just come."""
    monkeypatch.setattr(_gateway, "ANSWERS_SECONDS", 0.1)
    gateway = Gateway(place)
    with GatewayClient(gateway) as idle, GatewayClient(gateway) as deaf:
        assert deaf.put("/app/0", BIG[:900_000]).status == Status.OK
        piece = text("/app/0") + struct.pack(">QI", 0, 1 << 20)
        frames = [struct.pack(">IIB", len(piece) + 5, 1000 + number, Request.GET) + piece for number in range(100)]
        deaf.socket.sendall(b"".join(frames))
        assert deaf.socket.recv(1)
        host, _, port = gateway.addresses[0].rpartition(":")
        new = [socket.create_connection((host, int(port))) for _ in range(10)]
        gc.disable()  # it would close what was left open
        try:
            gateway.close()
            assert all(ended(connected) for connected in (idle.socket, deaf.socket, *new))
        finally:
            gc.enable()
            for connected in new:
                connected.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "example.org:1", "127.0.0.1", "127.0.0.1:x", "unix:", ":1"])
def test_an_address_that_others_reach_or_that_is_none_is_refused(place: str, address: str) -> None:
    with pytest.raises(InvalidError):
        Gateway(place, listen=address)
    assert not os.path.exists(place)


def test_the_log_is_rewritten_when_most_of_it_is_dead(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rewriting, "LOG_BYTES_MIN", 64 * 1024)
    monkeypatch.setattr(_rewriting, "KEPT_SECONDS", 0.0)
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        epoch = client.acquire("/app/q", "me")
        client.put("/app/old", b"kept")
        client.mkdir("/app/empty")
        upload = client.upload("/app/big")
        client.chunk(upload, 0, BIG[:600_000])
        assert client.publish(upload, "/app/big").status == Status.OK
        for number in range(600):
            assert (
                client.put("/app/q/latest", bytes([number % 256]) * 1000, replaces=True, epoch=epoch).status
                == Status.OK
            )
            if number % 100 == 50:
                assert client.rename("/app/old", f"/app/old{number}").status == Status.OK
                assert client.rename(f"/app/old{number}", "/app/old").status == Status.OK
    with walkeeper.open(place) as namespace:
        assert namespace.log("files/app").info().count < 300
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert client.get("/app/old") == b"kept"
        assert client.get("/app/big") == BIG[:600_000]
        assert client.get("/app/q/latest") == bytes([599 % 256]) * 1000
        assert client.stat("/app/empty") is not None
        assert client.put("/app/q/x", b"", epoch=epoch).status == Status.OK
        assert client.put("/app/q/y", b"", epoch=epoch - 1).status == Status.FENCED
