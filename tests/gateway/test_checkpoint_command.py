"""walkeeper checkpoint: what it tells, copies and finds. Copies are whole or not there; looking fences nobody."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_examples import (
    CONF,
    LARGE,
    QUERY,
    commits,
    offsets,
    spark_checkpoint,
    tree,
    unique_id,
    write,
)
from click.testing import Result
from command_line import damage, json_lines, run
from gateway_client import GatewayClient
from tcp_proxy import TcpProxy

import walkeeper
from walkeeper.errors import DamagedError
from walkeeper.gateway import Gateway, _cut
from walkeeper.gateway._cut import Cut, CutLostError, at_a_cut
from walkeeper.gateway._file_client import FileClient
from walkeeper.gateway._protocol import Refused, Status

PROVIDERS = ["rocksdb", "rocksdb2", "hdfs"]
SCHEMA = "state/0/_stateSchema/default/0_" + unique_id(0, 0)


def checkpoint(*arguments: object) -> Result:
    return run("checkpoint", *arguments)


def done(*arguments: object) -> str:
    result = checkpoint(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object) -> str:
    """What is said; nothing is said on the output."""
    result = checkpoint(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return result.stderr


def names(root: Path | str, *path: str) -> list[str]:
    return [str(row["path"]) for row in json_lines(checkpoint("ls", root, *path, "--json"))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "wal"


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return spark_checkpoint(tmp_path / "spark", "rocksdb2", in_flight=True)


@pytest.fixture
def app(root: Path, source: Path) -> Path:
    """A root that has the checkpoint /app/q."""
    done("import", root, "/app/q", source)
    return root


# ---- ls, inspect ----------------------------------------------------------------------------------------------------


def test_ls_lists_roots_directories_and_all_that_is_below(app: Path, source: Path) -> None:
    assert names(app) == ["/app"]
    assert names(app, "/app") == ["/app/q"]
    assert names(app, "walkeeper:///app/q/") == [f"/app/q/{name}" for name in sorted(os.listdir(source))]
    assert names(app, "/app/q/metadata") == ["/app/q/metadata"]
    assert names(app, "/app/q", "-R") == sorted(f"/app/q/{name}" for name in tree(source))
    shown = done("ls", app, "/app/q").splitlines()
    assert shown[0].split() == ["bytes", "changed", "name"]
    assert [line.split()[0] for line in shown[2:]] == ["-", "45", "-", "-", "-"]
    assert [line.split()[-1] for line in shown[2:4]] == ["/app/q/commits/", "/app/q/metadata"]
    assert "as of record" in checkpoint("ls", app, "/app").stderr


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/app/none", "/app/none is not there"),
        ("/none/q", "there is no /none in "),
        ("app", "'app' is no path"),
        ("/app/../q", "is no path"),
        ("/", "is no checkpoint"),
        ("walkeeper://host:4590/app/q", "names a gateway: write /app/q"),
    ],
)
def test_a_path_that_is_not_there_or_is_none_is_refused(app: Path, path: str, said: str) -> None:
    assert said in refused("ls", app, path)


def test_inspect_tells_what_an_operator_wants_to_know(app: Path, source: Path) -> None:
    with Gateway(app) as gateway, GatewayClient(gateway) as client:
        epoch = client.acquire("/app/q", "process 4711 on b")
    [told] = json_lines(checkpoint("inspect", app, "/app/q", "--json"))
    files = {name: content for name, content in tree(source).items() if content is not None}
    assert told["query_id"] == QUERY
    assert told["batches"] == {
        "offsets": [0, 7],
        "offsets_kept": 8,
        "commits": [0, 6],
        "commits_kept": 7,
        "in_flight": 7,
        "go_back_to": [0, 1, 2, 3, 4, 5, 6],
    }
    last: Any = told["last_offsets"]
    assert (last["conf"], last["sources"], last["planned_ms"]) == (CONF, ['{"logOffset":7}'], 1_790_000_000_007)
    state: Any = told["state"]
    assert [(row["operator_name"], row["partition"], row["provider"]) for row in state] == [
        ("stateStoreSave", 0, "RocksDB"),
        ("stateStoreSave", 1, "RocksDB"),
    ]
    assert [(row["last_version"], row["snapshots"], row["changes"]) for row in state] == [(8, 2, 8), (7, 2, 7)]
    owner: Any = told["owner"]
    assert (owner["text"], owner["epoch"], owner["path"]) == ("process 4711 on b", epoch, "/app/q")
    assert (told["files"], told["bytes"]) == (len(files), sum(map(len, files.values())))
    assert told["large_bytes"] == sum(len(content) for content in files.values() if len(content) > LARGE)
    shown = done("inspect", app, "/app/q")
    for words in ("in flight    batch 7", "--batch      0 to 6", "process 4711 on b", "spark.sql.shuffle.partitions"):
        assert words in shown


def test_inspect_tells_how_much_of_the_log_is_dead(root: Path) -> None:
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        for number in range(100):
            client.put("/app/q/metadata", f'{{"id":"{number}"}}'.encode().ljust(1000), replaces=True)
    [told] = json_lines(checkpoint("inspect", root, "/app/q", "--json"))
    assert told["log_bytes"] == 100 * told["log_live_bytes"]  # type: ignore[operator]
    assert "dead 99%" in done("inspect", root, "/app/q")


def test_what_is_no_checkpoint_is_refused(app: Path, tmp_path: Path) -> None:
    for command in (["inspect", app], ["export", app]):
        for path, said in (("/app", "/app is no checkpoint"), ("/app/q/metadata", "/app/q/metadata is a file")):
            assert said in refused(*command, path, *([tmp_path / "out"] if command[0] == "export" else []))


def test_looking_fences_nobody_and_works_while_a_gateway_has_the_root(app: Path, tmp_path: Path) -> None:
    listen = f"unix:{tmp_path}/gateway"
    (tmp_path / "token").write_text("secret\n")
    command = [sys.executable, "-m", "walkeeper", "gateway", "--root", str(app), "--listen", listen]
    process = subprocess.Popen([*command, "--token-file", str(tmp_path / "token")], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert b"is served at" in process.stdout.readline()
        with FileClient(listen, token="secret") as client:
            client.put(("app", "q", "one"), 3, lambda: [b"one"])
            done("ls", app, "/app/q")
            done("inspect", app, "/app/q")
            done("verify", app)
            done("export", app, "/app/q", tmp_path / "out")
            client.put(("app", "q", "two"), 3, lambda: [b"two"])
            assert (tmp_path / "out/one").read_bytes() == b"one"
            said = refused("import", app, "/app/other", tmp_path / "out")
            assert f"it is held by process {process.pid}" in said
            assert "--gateway ADDRESS --token-file FILE" in said
            done("import", app, "/app/other", tmp_path / "out", "--gateway", listen, "--token-file", tmp_path / "token")
            assert client.exists(("app", "other", "metadata"))
    finally:
        process.terminate()
        process.communicate()


# ---- export ---------------------------------------------------------------------------------------------------------


def test_export_is_byte_for_byte_what_was_imported(root: Path, tmp_path: Path, provider: str) -> None:
    source = spark_checkpoint(tmp_path / "spark", provider, in_flight=True)
    (source / "state/0/_empty").mkdir()
    done("import", root, "/app/q", source)
    (tmp_path / "there").mkdir()
    for destination in (tmp_path / "there", tmp_path / "deep/new"):
        said = done("export", root, "/app/q", destination)
        assert "files, " in said
        assert "as of record" in said
        assert tree(destination) == tree(source)
    assert sorted(os.listdir(tmp_path)) == ["deep", "spark", "there", "wal"]


def test_export_refuses_a_destination_that_is_not_empty_or_inside_the_root(app: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_bytes(b"mine")
    assert f"{tmp_path}/full is not empty" in refused("export", app, "/app/q", tmp_path / "full")
    assert "is inside" in refused("export", app, "/app/q", app / "copy")
    assert tree(tmp_path / "full") == {"mine": b"mine"}


def test_export_is_durable_before_it_has_its_name_and_leaves_nothing_where_it_fails(
    app: Path, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync, rename = os.fsync, os.rename

    fails = [1, len(tree(source))]
    one_by_one = threading.Lock()

    def note(descriptor: int) -> None:
        with one_by_one:
            synced.append(os.readlink(f"/proc/self/fd/{descriptor}").partition("/whole")[2])
            if fails and len(synced) == fails[0]:
                raise OSError(5, "Input/output error")
        fsync(descriptor)

    def renamed(old: Any, new: Any) -> None:
        assert {f"/{name}" for name in tree(source)} | {""} <= set(synced)
        rename(old, new)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "rename", renamed)
    while fails:
        assert "Input/output error" in refused("export", app, "/app/q", tmp_path / "out")
        assert sorted(os.listdir(tmp_path)) == ["spark", "wal"]
        fails.pop(0)
        synced.clear()
    done("export", app, "/app/q", tmp_path / "out")
    assert tree(tmp_path / "out") == tree(source)


def test_export_behind_a_batch_is_what_was_there_when_it_was_done(root: Path, tmp_path: Path, provider: str) -> None:
    """Also where the zip of version 3 was made before the batch, and the one of version 6 behind it."""
    source = spark_checkpoint(tmp_path / "spark", provider, 7, in_flight=True)
    done("import", root, "/app/q", source)
    for batch in range(7):
        then = spark_checkpoint(tmp_path / f"then{batch}", provider, batch + 1)
        done("export", root, "/app/q", tmp_path / f"out{batch}", "--batch", batch)
        expected, found = tree(then), tree(tmp_path / f"out{batch}")
        for whole in (expected, found):  # what a source keeps stays; directories of SST files, too
            for name in [name for name in whole if name.startswith("sources/0/") or name.endswith("/SSTs")]:
                del whole[name]
        assert found == expected, batch


@pytest.mark.parametrize(
    ("deleted", "batch", "said", "possible"),
    [
        ([], 7, "batch 7 is not committed; the newest that is: 6", "0 to 6"),
        (["offsets/0", "offsets/1", "commits/0"], 2, "offsets/1 was deleted", "3 to 6"),
        (["state/0/1/4.delta", "state/0/1/3.snapshot"], 3, "state/0/1/4.delta was deleted", "0 to 2, 5 to 6"),
        (["state/0/1/6.snapshot", "state/0/1/4.delta"], 6, "state/0/1/4.delta was deleted", "0 to 2"),
    ],
)
def test_a_batch_whose_files_were_deleted_is_refused(
    root: Path, tmp_path: Path, deleted: list[str], batch: int, said: str, possible: str
) -> None:
    source = spark_checkpoint(tmp_path / "spark", "hdfs", in_flight=True)
    for name in deleted:
        (source / name).unlink()
    done("import", root, "/app/q", source)
    told = refused("export", root, "/app/q", tmp_path / "out", "--batch", batch)
    assert said in told
    assert f"--batch can be {possible}\n" in told
    assert not (tmp_path / "out").exists()


def test_a_batch_whose_snapshot_lacks_a_file_is_refused(root: Path, tmp_path: Path) -> None:
    source = spark_checkpoint(tmp_path / "spark", "rocksdb")
    [lost] = (source / "state/0/0/SSTs").glob("000003-*")
    lost.unlink()
    done("import", root, "/app/q", source)
    assert f"state/0/0/SSTs/{lost.name} was deleted" in refused(
        "export", root, "/app/q", tmp_path / "out", "--batch", 4
    )


def test_another_attempt_at_a_version_is_not_taken_for_the_one_that_was_committed(root: Path, tmp_path: Path) -> None:
    """Format 2: a task of an earlier driver has left a file of the same version."""
    source = spark_checkpoint(tmp_path / "spark", "rocksdb2", 5)
    committed = source / f"state/0/0/5_{unique_id(5, 0)}.changelog"
    committed.rename(committed.with_name(f"5_{unique_id(99, 0)}.changelog"))
    done("import", root, "/app/q", source)
    said = refused("export", root, "/app/q", tmp_path / "out", "--batch", 4)
    assert "state/0/0/5_*.changelog was deleted, or never was" in said
    assert "--batch can be 0 to 3" in said


# ---- cuts -----------------------------------------------------------------------------------------------------------


def test_a_copy_has_nothing_of_what_comes_while_it_is_made(
    app: Path, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = Cut.contents
    with Gateway(app) as gateway, GatewayClient(gateway) as client:

        def late(self: Cut, paths: Any) -> Iterator[Any]:
            client.put("/app/q/offsets/8", b"v1\n")
            client.put("/app/q/metadata", b"other", replaces=True)
            client.rename("/app/q/commits/6", "/app/q/commits/9")
            yield from contents(self, paths)

        monkeypatch.setattr(Cut, "contents", late)
        done("export", app, "/app/q", tmp_path / "out")
    assert tree(tmp_path / "out") == tree(source)


@pytest.mark.parametrize("small", [1, 100])
def test_where_files_or_the_log_go_meanwhile_the_copy_begins_again_at_a_newer_cut(root: Path, small: int) -> None:
    with Gateway(root) as gateway, GatewayClient(gateway) as client, walkeeper.open(root) as namespace:
        for number in range(small):
            client.put(f"/app/q/{number}", b"small")
        upload = client.upload("/app/q/big")
        client.chunk(upload, 0, bytes(LARGE))
        client.publish(upload, "/app/q/big")
        again = iter(["delete the big file", "truncate the log"])

        def work(cut: Cut) -> int:
            event = next(again, None)
            paths = [path for path, _ in cut.tree.files()]
            if event == "delete the big file":
                client.delete("/app/q/big")
                while namespace.logs("files-data/"):
                    pass
            if event == "truncate the log":
                for number in range(small):
                    client.put(f"/app/q/{number}", b"small", replaces=True)
                log = namespace.log("files/app")
                log.truncate(log.find(sequence_id=small + 2))
            return sum(len(b"".join(opened.pieces())) for opened in cut.contents(paths))

        assert at_a_cut(namespace, "app", work) == 5 * small
        assert next(again, None) is None


def test_a_cut_ends_where_the_log_ended_when_it_was_begun(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it might never end, beside a gateway that is fast."""
    take = Cut._take
    with Gateway(root) as gateway, GatewayClient(gateway) as client, walkeeper.open(root) as namespace:
        for number in range(10):
            client.put(f"/app/{number}", b"")

        def late(self: Cut, item: Any) -> None:
            assert item.sequence_id < 50
            client.put(f"/app/late{item.sequence_id}", b"")
            take(self, item)

        monkeypatch.setattr(Cut, "_take", late)
        assert at_a_cut(namespace, "app", lambda cut: (cut.sequence_id, len(_paths(cut)))) == (9, 10)
        monkeypatch.undo()
        assert at_a_cut(namespace, "app", lambda cut: (cut.sequence_id, len(_paths(cut)))) == (19, 20)


def test_a_cut_that_is_always_lost_is_given_up(root: Path) -> None:
    with Gateway(root) as gateway, GatewayClient(gateway) as client, walkeeper.open(root) as namespace:
        client.put("/app/q/0", b"0")
        cuts: list[Cut] = []

        def work(cut: Cut) -> None:
            cuts.append(cut)
            raise CutLostError("too late")

        with pytest.raises(CutLostError):
            at_a_cut(namespace, "app", work)
        assert len(cuts) == _cut.TRIES_MAX


# ---- import ---------------------------------------------------------------------------------------------------------


def test_import_leaves_out_what_hadoop_keeps_beside_local_files(root: Path, tmp_path: Path) -> None:
    source = spark_checkpoint(tmp_path / "spark", "rocksdb2")
    expected = tree(source)
    for name in ("offsets/.0.crc", f"state/0/0/.1_{unique_id(1, 0)}.changelog.crc.crc", "commits/..9.tmp.crc"):
        write(source / name, b"crc\0" + bytes(8))
    write(source / ".mine.crc", b"mine")
    done("import", root, "/app/q", source)
    done("export", root, "/app/q", tmp_path / "out")
    assert tree(tmp_path / "out") == expected | {".mine.crc": b"mine"}


def test_import_is_whole_or_not_there(
    root: Path, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = FileClient.put
    with Gateway(root) as gateway, FileClient(gateway.addresses[0], token=gateway.token) as watcher:
        (tmp_path / "token").write_text(gateway.token)
        through = ["--gateway", gateway.addresses[0], "--token-file", tmp_path / "token"]
        seen: list[object] = []

        def failing(self: FileClient, path: Any, *given: Any) -> None:
            seen.append(watcher.exists(("app", "q")))
            if path[-1] == "metadata":
                raise Refused(Status.FAILED, "the disk is gone")
            put(self, path, *given)

        monkeypatch.setattr(FileClient, "put", failing)
        assert "the disk is gone" in refused("import", root, "/app/q", source, *through)
        assert names(root, "/app") == []
        monkeypatch.setattr(FileClient, "put", put)
        done("import", root, "/app/q", source, *through)
        assert seen
        assert set(seen) == {False}


def test_what_a_killed_import_leaves_is_no_checkpoint_and_verify_names_it(app: Path) -> None:
    with Gateway(app) as gateway, GatewayClient(gateway) as client:
        client.put("/app/.import-1/offsets/0", b"")
    result = checkpoint("verify", app)
    assert (result.exit_code, "/app/.import-1 was left by an import" in result.stderr) == (0, True)


def changes(source: Path) -> dict[str, Callable[[], object]]:
    return {
        "metadata": lambda: (source / "metadata").write_bytes(b"{}"),
        "offsets/0": (source / "offsets/0").unlink,
        "offsets/9": lambda: write(source / "offsets/9", b""),
    }


@pytest.mark.parametrize("changed", ["metadata", "offsets/0", "offsets/9"])
def test_a_source_that_is_written_meanwhile_is_refused(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    mkdir = FileClient.mkdir

    def late(self: FileClient, path: Any) -> None:
        mkdir(self, path)
        changes(source)[changed]()

    monkeypatch.setattr(FileClient, "mkdir", late)
    said = refused("import", root, "/app/q", source)
    assert f"{source}/{changed}" in said
    assert names(root, "/app") == []


def test_import_refuses_what_is_no_checkpoint_and_what_is_there(app: Path, tmp_path: Path, source: Path) -> None:
    assert "/app/q is there already" in refused("import", app, "/app/q", source)
    assert "/new is a root" in refused("import", app, "/new", source)
    assert f"{app} is no checkpoint" in refused("import", app, "/app/r", app)
    (source / "link").symlink_to("metadata")
    assert f"{source}/link is neither a file nor a directory" in refused("import", app, "/app/r", source)
    (source / "link").unlink()
    with open(os.fsencode(source) + b"/\xff", "wb"):
        pass
    assert "is not UTF-8" in refused("import", app, "/app/r", source)
    assert names(app, "/app") == ["/app/q"]


@pytest.mark.parametrize("name", ["offsets/7", "commits/6", "metadata"])
def test_a_file_that_cannot_be_read_is_named(app: Path, name: str) -> None:
    with Gateway(app) as gateway, GatewayClient(gateway) as client:
        client.put(f"/app/q/{name}", b"", replaces=True)
    assert f"/app/q/{name}: " in refused("inspect", app, "/app/q")


def test_the_help_names_the_commands() -> None:
    said = done("--help")
    assert all(f"\n  {command} " in said for command in ("export", "fork", "import", "inspect", "ls", "verify"))
    assert "checkpoint" in run("--help").stdout


# ---- fork -----------------------------------------------------------------------------------------------------------


def test_fork_is_a_new_query_unless_the_id_is_to_stay(app: Path, tmp_path: Path, source: Path) -> None:
    [told] = json_lines(checkpoint("fork", app, "/app/q", "/app/new", "--json"))
    assert told["query_id"] != QUERY
    done("fork", app, "/app/q", "/other/same", "--keep-query-id", "--batch", 2)
    for path, name in (("/app/new", "new"), ("/other/same", "same")):
        done("export", app, path, tmp_path / name)
    new = tree(tmp_path / "new")
    assert new.pop("metadata") == b'{"id":"%b"}' % str(told["query_id"]).encode()
    assert new == {name: content for name, content in tree(source).items() if name != "metadata"}
    assert (tmp_path / "same/metadata").read_bytes() == (source / "metadata").read_bytes()
    assert sorted(os.listdir(tmp_path / "same/commits")) == ["0", "1", "2"]


def test_fork_refuses_itself_what_is_there_and_what_is_no_checkpoint(app: Path) -> None:
    assert "or below it" in refused("fork", app, "/app/q", "/app/q/copy")
    assert "/app/q is not there" in refused("fork", app, "/app/r", "/app/s").replace("/app/r", "/app/q")
    done("fork", app, "/app/q", "/app/r")
    assert "/app/r is there already" in refused("fork", app, "/app/q", "/app/r")
    assert "/app is no checkpoint" in refused("fork", app, "/app", "/other/app")


def test_a_copy_names_its_own_schema_files(root: Path, tmp_path: Path) -> None:
    """Of transformWithState: Spark writes their absolute paths, and would read them where the checkpoint was before."""
    source = spark_checkpoint(tmp_path / "spark", "rocksdb")
    write(source / SCHEMA, b"schema")

    def operator(location: str) -> bytes:
        paths = {"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [f"{location}/{SCHEMA}"]}
        told = {"operatorInfo": {"operatorId": 0, "operatorName": "é"}, "stateStoreInfo": [paths]}
        return f"v2\n{json.dumps(told, separators=(',', ':'), ensure_ascii=False)}".encode()

    for batch in (0, 4):
        write(source / f"state/0/_metadata/v2/{batch}", operator(f"file:{source}"))
    done("import", root, "/app/q", source)
    done("fork", root, "/app/q", "/app/r")
    done("export", root, "/app/r", tmp_path / "r")
    done("export", root, "/app/r", tmp_path / "r2", "--batch", 2)
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        assert client.get("/app/q/state/0/_metadata/v2/0") == operator("walkeeper:/app/q")
        assert client.get("/app/r/state/0/_metadata/v2/4") == operator("walkeeper:/app/r")
    assert (tmp_path / "r/state/0/_metadata/v2/0").read_bytes() == operator(f"file:{tmp_path}/r")
    assert os.listdir(tmp_path / "r2/state/0/_metadata/v2") == ["0"]
    done("verify", root)
    with Gateway(root) as gateway, GatewayClient(gateway) as client:
        client.put("/app/r/state/0/_metadata/v2/4", operator("walkeeper:/app/q"), replaces=True)
    [finding, _] = checkpoint("verify", root).stdout.splitlines()
    assert f"v2/4: it names walkeeper:/app/q/{SCHEMA}, which is no file of this checkpoint" in finding


# ---- gateways -------------------------------------------------------------------------------------------------------


def test_a_gateway_of_another_root_is_refused_and_keeps_nothing(app: Path, tmp_path: Path, source: Path) -> None:
    with Gateway(tmp_path / "other") as gateway, GatewayClient(gateway) as client:
        (tmp_path / "token").write_text(gateway.token)
        through = ["--gateway", gateway.addresses[0], "--token-file", tmp_path / "token"]
        said = refused("import", app, "/app/r", source, *through)
        assert "serves another root" in said
        assert client.list("/app") == {}
        (tmp_path / "token").write_text("wrong")
        assert "the token is not this gateway's" in refused("import", app, "/app/r", source, *through)


def test_a_gateway_that_speaks_tls_is_trusted_by_who_signed_it(root: Path, tmp_path: Path, source: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
    request += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", "-days", "30", *request], check=True, capture_output=True)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate, key)
    (tmp_path / "token").write_text("secret\n")
    with Gateway(root, listen="localhost:0", token="secret", tls=served) as gateway:
        through = ["--gateway", gateway.addresses[0], "--token-file", tmp_path / "token"]
        done("import", root, "/app/q", source, *through, "--tls-ca", certificate)
        assert names(root, "/app") == ["/app/q"]


@pytest.mark.parametrize(
    "options", [["--token-file", "TOKEN"], ["--gateway", "localhost:1"], ["--take-over"], ["--tls-ca", "TOKEN"]]
)
def test_options_that_do_not_go_together_are_refused(app: Path, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "token").write_text("x")
    given = [str(tmp_path / "token") if option == "TOKEN" else option for option in options]
    assert "Usage: " in refused("fork", app, "/app/q", "/app/r", *given)


def test_on_a_cluster_a_root_that_another_gateway_has_is_taken_over_only_on_demand(
    tmp_path: Path, cluster: str, source: Path
) -> None:
    done("import", cluster, "/app/q", source)
    with Gateway(cluster) as gateway, GatewayClient(gateway) as client:
        assert client.stat("/app/q") is not None
        done("verify", cluster)
        said = refused("fork", cluster, "/app/q", "/app/r")
        assert f"a gateway has /app, or had it when it was killed: process {os.getpid()}" in said
        (tmp_path / "token").write_text(gateway.token)
        through = ["--gateway", gateway.addresses[0], "--token-file", tmp_path / "token"]
        done("fork", cluster, "/app/q", "/app/r", *through)
        assert client.put("/app/mine", b"").status == Status.OK
        done("fork", cluster, "/app/q", "/app/s", "--take-over")
        assert client.put("/app/mine too", b"").status == Status.NOT_OWNER
    done("export", cluster, "/app/s", tmp_path / "out")
    assert tree(tmp_path / "out").keys() == tree(source).keys()


# ---- verify ---------------------------------------------------------------------------------------------------------

V6 = f"6_{unique_id(6, 1)}"
SST6 = f"000006-{unique_id(6, 1)}.sst"


def shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def other_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


FINDINGS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "no metadata": (lambda q: (q / "metadata").unlink(), ["metadata: it is missing"]),
    "metadata without id": (lambda q: (q / "metadata").write_bytes(b"{}"), ["metadata: the file `metadata` has no id"]),
    "empty offsets": (lambda q: (q / "offsets/2").write_bytes(b""), ["offsets/2: it is empty, or no text"]),
    "offsets without version": (lambda q: (q / "offsets/2").write_bytes(b"{}"), ["offsets/2: it begins with '{}'"]),
    "commit that is no JSON": (lambda q: (q / "commits/2").write_bytes(b"v2\n{"), ["commits/2: '{' is no JSON"]),
    "hole": (
        lambda q: (q / "offsets/3").unlink(),
        ["commits/3: its batch has no offsets/3", "offsets/3: it is missing"],
    ),
    "wide hole": (
        lambda q: write(q / f"offsets/{10**18}", offsets(8)),
        ["offsets/7: its batch was not committed", "offsets/8: it is missing (and 999,999,999,999,999,991 behind it)"],
    ),
    "commit ahead": (
        lambda q: write(q / "commits/8", commits(7, 2)),
        ["commits/8: its batch has no offsets/8", "state/0/0/9_*.changelog: it is missing", "state/0/1/9_*.changelog"],
    ),
    "uncommitted batch": (lambda q: (q / "commits/4").unlink(), ["offsets/4: its batch was not committed"]),
    "lost changelog": (
        lambda q: (q / f"state/0/1/7_{unique_id(7, 1)}.changelog").unlink(),
        ["state/0/1/7_*.changelog: it is missing: version 7 of the state, of batch 6, needs it"],
    ),
    "lost SST": (lambda q: (q / f"state/0/1/SSTs/{SST6}").unlink(), [f"SSTs/{SST6}: it is missing: {V6}.zip needs it"]),
    "short SST": (lambda q: shorter(q / f"state/0/1/SSTs/{SST6}"), [f"SSTs/{SST6}: it has {LARGE + 5} bytes, and"]),
    "other bytes": (
        lambda q: other_bytes(q / f"state/0/1/{V6}.changelog"),
        [f"{V6}.changelog: its bytes are not those of its checksum file"],
    ),
    "other size": (
        lambda q: shorter(q / f"state/0/1/{V6}.changelog"),
        [f"{V6}.changelog: it has 11 bytes, and 12 by its checksum file"],
    ),
    "no checksum": (
        lambda q: (q / f"state/0/1/{V6}.changelog.crc").write_bytes(b"{}"),
        [f"{V6}.changelog.crc: it is no checksum that Spark writes"],
    ),
    "no zip": (
        lambda q: ((q / f"state/0/1/{V6}.zip").write_bytes(b"PK"), (q / f"state/0/1/{V6}.zip.crc").unlink()),
        [f"{V6}.zip: it is no snapshot of RocksDB"],
    ),
}


@pytest.mark.parametrize("what", FINDINGS)
def test_verify_finds_what_keeps_spark_from_going_on(root: Path, source: Path, what: str) -> None:
    harm, expected = FINDINGS[what]
    harm(source)
    done("import", root, "/app/q", source)
    result = checkpoint("verify", root)
    assert result.exit_code == 1, result.output
    *findings, summary = result.stdout.splitlines()
    assert len(findings) == len(expected), findings
    for finding, words in zip(findings, expected, strict=True):
        assert finding.startswith("/app/q/")
        assert words in finding
    assert f"1 checkpoint, {len(expected)} finding" in summary


@pytest.mark.parametrize("provider_in_flight", [(name, flag) for name in PROVIDERS for flag in (False, True)])
def test_verify_finds_nothing_in_a_sound_checkpoint(
    root: Path, tmp_path: Path, provider_in_flight: tuple[str, bool]
) -> None:
    name, in_flight = provider_in_flight
    source = spark_checkpoint(tmp_path / "spark", name, in_flight=in_flight)
    for batch in range(2):  # as Spark deletes them in time: offsets first
        (source / f"offsets/{batch}").unlink()
    (source / "commits/0").unlink()
    done("import", root, "/app/q", source)
    done("import", root, "/other/q", source)
    [app, other] = json_lines(checkpoint("verify", root, "--json"))
    assert (app["findings"], other["findings"]) == ([], [])
    assert app["checkpoints"] == ["/app/q"]
    assert app["bytes"] == sum(len(content) for content in tree(source).values() if content is not None)
    assert len(json_lines(checkpoint("verify", root, "/app/q", "--json"))) == 1
    assert "/app/none is not there" in refused("verify", root, "/app/none")


def test_verify_reads_every_record(app: Path) -> None:
    damage(app, b"changes of 2")
    result = checkpoint("verify", app)
    assert result.exit_code == 1, result.output
    assert "lost from there on" in result.stdout
    assert "of log files/app: " in result.stdout


def test_verify_tells_of_a_record_that_is_none_and_other_commands_stop(app: Path, tmp_path: Path) -> None:
    with walkeeper.open(app) as namespace, namespace.log("files/app").writer() as writer:
        at = writer.append(b"\x01\x07").sequence_id
    result = checkpoint("verify", app)
    assert (result.exit_code, f"record {at} of log files/app: " in result.stdout) == (1, True)
    stopped = checkpoint("export", app, "/app/q", tmp_path / "out")
    assert (stopped.exit_code, f"record {at} of log files/app: " in stopped.stderr) == (1, True)


@pytest.mark.parametrize("harm", ["gone", "short", "odd", "longer"])
def test_verify_reads_every_large_file(app: Path, tmp_path: Path, harm: str) -> None:
    with walkeeper.open(app) as namespace:
        name = namespace.logs("files-data/app/")[0]
        payloads = [bytes(record.payload) for record in namespace.log(name).reader()]
        namespace.delete_log(name)
        kept = {"short": payloads[:-1], "odd": [payloads[0][:-1], b"x", *payloads[1:]], "longer": [*payloads, b""]}
        if harm != "gone":
            with namespace.log(name).writer() as writer:
                writer.append_many(kept[harm])
    result = checkpoint("verify", app)
    assert result.exit_code == 1, result.output
    assert "/SSTs/0000" in result.stdout
    assert name in result.stdout
    stopped = checkpoint("export", app, "/app/q", tmp_path / "out")
    assert (stopped.exit_code, os.path.exists(tmp_path / "out")) == (1, False)
    with walkeeper.open(app) as namespace, pytest.raises(DamagedError):
        at_a_cut(namespace, "app", lambda cut: [b"".join(one.pieces()) for one in cut.contents(_paths(cut))])


def _paths(cut: Cut) -> list[Any]:
    return [path for path, _ in cut.tree.files()]


# ---- the client of files --------------------------------------------------------------------------------------------


def test_a_change_whose_answer_is_lost_is_sent_again_and_made_once(root: Path) -> None:
    with Gateway(root) as gateway:
        proxy = TcpProxy(int(gateway.addresses[0].rpartition(":")[2]))
        try:
            with FileClient(proxy.hosts, token=gateway.token) as client, GatewayClient(gateway) as other:
                client.mkdir(("app", "q"))
                proxy.swallow_answers()
                thread = threading.Thread(target=client.put, args=(("app", "q", "0"), 1, lambda: [b"0"]))
                thread.start()
                while other.stat("/app/q/0") is None:
                    pass
                assert other.delete("/app/q/0").status == Status.OK
                proxy.heal()
                proxy.cut()
                thread.join()
                assert other.stat("/app/q/0") is None
        finally:
            proxy.close()


def test_a_large_file_is_sent_anew_where_its_connection_breaks(root: Path) -> None:
    with Gateway(root) as gateway:
        proxy = TcpProxy(int(gateway.addresses[0].rpartition(":")[2]))
        try:
            sent: list[int] = []

            def pieces() -> Iterator[bytes]:
                sent.append(len(sent))
                for number in range(5):
                    if sent == [0] and number == 3:
                        proxy.cut()
                    yield bytes([number]) * 300_000

            with FileClient(proxy.hosts, token=gateway.token) as client:
                client.put(("app", "big"), 1_500_000, pieces)
                assert sent == [0, 1]
            with GatewayClient(gateway) as other:
                assert other.get("/app/big") == b"".join(bytes([number]) * 300_000 for number in range(5))
        finally:
            proxy.close()


def test_the_client_says_what_a_gateway_refuses_and_where_there_is_none(root: Path) -> None:
    with Gateway(root) as gateway, FileClient(gateway.addresses[0], token=gateway.token) as client:
        client.put(("app", "q"), 1, lambda: [b"0"])
        for status, refusing in (
            (Status.EXISTS, lambda: client.put(("app", "q"), 1, lambda: [b"0"])),
            (Status.NOT_FOUND, lambda: client.rename(("app", "none"), ("app", "r"))),
            (Status.NOT_A_DIRECTORY, lambda: client.mkdir(("app", "q", "below"))),
        ):
            with pytest.raises(Refused) as told:
                refusing()
            assert told.value.status == status
        assert not client.exists(("app", "none"))
        client.delete(("app", "q"))
        client.delete(("app", "q"))
        address = gateway.addresses[0]
    with FileClient(address, token="", timeout=0.2) as client, pytest.raises(walkeeper.errors.UnavailableError):
        client.mkdir(("app", "q"))
