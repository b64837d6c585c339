"""Names that somebody gives a file of the gateway in order to reach others. None of them touches anything outside of
the gateway's directory: a path is refused, or its names are kept as they are."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from checkpoint_examples import tree
from command_line import run
from gateway.evil_names import KEPT, MARK, REFUSED
from gateway_client import GatewayClient, text

from walkeeper.gateway import Gateway
from walkeeper.gateway._protocol import Request, Status

ROOTS = [name for name in KEPT if len(quote(name, safe="")) <= 200]
"""Those that the first name of a path may be, too."""
NUMBERS = bytes(9)
"""Epoch 0, and that a file which is there is not replaced."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for a gateway, far below other files. Nothing of those changes, and the directory has the same files
    as any other gateway's."""
    surroundings = tmp_path / "surroundings"
    (surroundings / "a/b/c").mkdir(parents=True)
    for directory in (surroundings, *surroundings.rglob("*")):
        (directory / "file").write_text("of somebody else")
    monkeypatch.chdir(surroundings / "a/b")
    monkeypatch.setenv("HOME", str(surroundings / "a"))
    before = tree(surroundings)
    with Gateway(tmp_path / "another"):
        pass
    yield surroundings / "a/b/c/wal"
    after = {name: content for name, content in tree(surroundings).items() if not name.startswith("a/b/c/wal")}
    assert after == before
    assert not [above for above in surroundings.parents if (above / MARK).exists()]
    assert sorted(os.listdir(surroundings / "a/b/c/wal")) == sorted(os.listdir(tmp_path / "another"))


def asked_for(client: GatewayClient, path: bytes) -> list[tuple[Request, bytes]]:
    """Each request that has a path, with this one."""
    named = text(path)
    return [
        (Request.ACQUIRE, client.operation() + named + text("owner")),
        (Request.PUT, client.operation() + named + NUMBERS + text("content")),
        (Request.GET, named + struct.pack(">QI", 0, 100)),
        (Request.STAT, named + bytes(8)),
        (Request.LIST, named + text("")),
        (Request.MKDIR, client.operation() + named + bytes(8)),
        (Request.DELETE, client.operation() + named + NUMBERS),
        (Request.RENAME, client.operation() + named + text("/app/target") + NUMBERS),
        (Request.RENAME, client.operation() + text("/app/source") + named + NUMBERS),
        (Request.UPLOAD, named),
        (Request.TAKE, named),
    ]


def put_all(client: GatewayClient, paths: list[str]) -> None:
    """Each file has its path as its content."""
    bodies = [client.operation() + text(path) + NUMBERS + text(path) for path in paths]
    for path, answer in zip(paths, client.call_at_once(Request.PUT, bodies), strict=True):
        assert answer.status == Status.OK, (path, answer.text)


def listed(client: GatewayClient, path: str) -> list[str]:
    found = client.list(path)
    assert isinstance(found, dict)
    return list(found)


def test_the_names_are_many_and_different() -> None:
    assert len(REFUSED) == len(set(REFUSED)) >= 100
    assert len(KEPT) == len(set(KEPT)) >= 200


def test_an_evil_path_is_refused_by_each_request(place: Path) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert client.put("/app/source", b"kept").status == Status.OK
        for path in REFUSED:
            for request, body in asked_for(client, path):
                answer = client.call(request, body)
                assert answer.status == Status.INVALID, (request, path, answer)
                assert answer.text, (request, path)
        upload = client.upload("/app/upload")
        assert client.chunk(upload, 0, b"content").status == Status.OK
        assert client.publish(upload, "/app/../upload").status == Status.INVALID
        assert listed(client, "/") == ["app"]
        assert listed(client, "/app") == ["source"]
        assert client.get("/app/source") == b"kept"


def test_an_evil_name_is_the_name_of_one_file_inside(place: Path) -> None:
    paths = [f"/app/q/{name}" for name in KEPT]
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        put_all(client, paths)
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert listed(client, "/app/q") == sorted(KEPT, key=str.encode)
        assert [client.get(path) for path in paths] == [path.encode() for path in paths]


def test_an_evil_name_is_the_name_of_one_root(place: Path) -> None:
    paths = [f"/{name}/q" for name in ROOTS]
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        put_all(client, paths)
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert listed(client, "/") == sorted(ROOTS, key=str.encode)
        assert [client.get(path) for path in paths] == [path.encode() for path in paths]


def test_a_path_of_this_machine_is_a_path_inside(place: Path) -> None:
    paths = [
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/null",
        f"{place.parent}/file",
        f"{place}/superblock",
        f"/{MARK}",
    ]
    before = (place.parent / "file").read_bytes()
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert [client.piece(path, 0, 100).status for path in paths] == [Status.NOT_FOUND] * len(paths)
        put_all(client, paths)
        assert [client.get(path) for path in paths] == [path.encode() for path in paths]
    assert (place.parent / "file").read_bytes() == before
    assert not os.path.exists(f"/{MARK}")


def test_an_export_writes_evil_names_below_its_destination(place: Path, tmp_path: Path) -> None:
    with Gateway(place) as gateway, GatewayClient(gateway) as client:
        assert client.put("/app/q/metadata", b'{"id":"q"}').status == Status.OK
        put_all(client, [f"/app/q/sources/{name}" for name in KEPT])
    result = run("checkpoint", "export", place, "/app/q", tmp_path / "out")
    assert result.exit_code == 0, result.output
    contents = {f"sources/{name}": f"/app/q/sources/{name}".encode() for name in KEPT}
    assert tree(tmp_path / "out") == {"metadata": b'{"id":"q"}', "sources": None, **contents}
    assert sorted(os.listdir(tmp_path)) == ["another", "out", "surroundings"]
