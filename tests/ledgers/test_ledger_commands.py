"""walkeeper ledgers, ledger and bookies: what they print and refuse, and their exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from command_line import json_lines, run, run_process
from ledger_runs import contents, payload, writer_process

import walkeeper
from walkeeper_bookie.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def uri(shared_cluster: LocalCluster) -> str:
    return shared_cluster.metadata


def written(uri: str, lines: bytes, *options: str) -> int:
    """The id of a new ledger of these lines."""
    result = run("ledger", "write", uri, *options, given=lines)
    assert result.exit_code == 0, result.output
    return int(result.stdout)


def one(result: Result) -> dict[str, Any]:
    (told,) = json_lines(result)
    return told


def test_lines_are_written_and_read_back(uri: str, client: walkeeper.LedgerClient) -> None:
    ledger_id = written(uri, b"paid 42\n\nsent 7")
    assert contents(client, ledger_id) == [b"paid 42", b"", b"sent 7"]
    assert run("ledger", "read", uri, ledger_id).stdout_bytes == b"paid 42\n\nsent 7\n"
    assert run("ledger", "read", uri, ledger_id, "--from", 2).stdout == "sent 7\n"
    assert run("ledger", "read", uri, ledger_id, "--from", 0, "--to", 0).stdout == "paid 42\n"
    assert run("ledger", "read", uri, ledger_id, "--from", 3).stdout == ""


def test_what_is_written_may_be_told_as_json(uri: str) -> None:
    options = ["--ensemble", "2", "--write-quorum", "2", "--ack-quorum", "1", "--digest", "hmac", "--json"]
    told = one(run("ledger", "write", uri, *options, given=b"paid 42\n"))
    assert (told["state"], told["entries"], told["bytes"]) == ("closed", 1, 7)
    assert (told["ensemble_size"], told["write_quorum"], told["ack_quorum"]) == (2, 2, 1)
    shown = one(run("ledger", "show", uri, told["ledger_id"], "--json"))
    assert (shown["digest"], shown["has_password"], len(shown["segments"][0]["bookies"])) == ("hmac", False, 2)


def test_an_entry_that_is_no_text_is_base64(uri: str, client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        writer.add_many([b"paid 42", b"\xff\x00"])
    assert json_lines(run("ledger", "read", uri, writer.ledger_id, "--json")) == [
        {"entry_id": 0, "payload": "paid 42"},
        {"entry_id": 1, "payload_base64": "/wA="},
    ]


def test_ledgers_are_listed(uri: str, client: walkeeper.LedgerClient) -> None:
    closed = written(uri, b"paid 42\nsent 7\n")
    writer = client.create()
    rows = {told["ledger_id"]: told for told in json_lines(run("ledgers", uri, "--json"))}
    assert (rows[closed]["state"], rows[closed]["entries"], rows[closed]["bytes"]) == ("closed", 2, 13)
    assert (rows[writer.ledger_id]["state"], rows[writer.ledger_id]["entries"]) == ("open", None)
    table = run("ledgers", uri).stdout
    assert "E/Qw/Qa" in table
    assert any(line.split()[:5] == [str(closed), "closed", "3/3/2", "2", "13"] for line in table.splitlines())
    writer.close()


def test_a_ledger_is_shown(uri: str, client: walkeeper.LedgerClient) -> None:
    with client.create(custom_metadata={"owner": b"tests"}, password=b"secret") as writer:
        writer.add(b"paid 42")
    shown = run("ledger", "show", uri, writer.ledger_id).stdout
    for words in ("closed", "3/3/2", "crc32c, with a password", "owner", "tests", client.bookies()[0].bookie_id):
        assert words in shown
    assert "secret" not in shown


def test_bookies_are_listed(uri: str, shared_cluster: LocalCluster) -> None:
    ids = sorted(bookie.bookie_id for bookie in shared_cluster.bookies)
    assert json_lines(run("bookies", uri, "--json")) == [
        {"bookie_id": bookie_id, "state": "writable", "address": bookie_id} for bookie_id in ids
    ]
    assert [line.split() for line in run("bookies", uri).stdout.splitlines()[2:]] == [
        [bookie_id, "writable", bookie_id] for bookie_id in ids
    ]


def test_a_writer_is_left_alone_until_somebody_recovers(uri: str, shared_cluster: LocalCluster) -> None:
    with writer_process(shared_cluster.metadata) as writer:
        writer.wait(10)
        result = run("ledger", "read", uri, writer.ledger_id)
        assert result.stdout.splitlines()[:9] == [payload(number).decode() for number in range(9)]
        assert f"ledger {writer.ledger_id} is open" in result.stderr
        writer.wait(20)  # it was not fenced
        unconfirmed = run("ledger", "read", uri, writer.ledger_id, "--unconfirmed")
        assert unconfirmed.stdout.splitlines()[:20] == [payload(number).decode() for number in range(20)]
        writer.kill()
        told = one(run("ledger", "recover", uri, writer.ledger_id, "--json"))
        assert told["state"] == "closed"
        assert told["entries"] >= writer.acknowledged
        again = run("ledger", "recover", uri, writer.ledger_id)
        assert again.stdout.startswith(f"ledger {writer.ledger_id} is closed: {told['entries']:,} entries")


def test_a_ledger_is_deleted_when_its_id_is_typed(uri: str, client: walkeeper.LedgerClient) -> None:
    ledger_id = written(uri, b"paid 42\n")
    refused = run("ledger", "delete", uri, ledger_id, given=b"yes\n")
    assert (refused.exit_code, "nothing was deleted" in refused.stderr) == (2, True)
    assert client.metadata(ledger_id).is_closed
    done = run("ledger", "delete", uri, ledger_id, given=b"%d\n" % ledger_id)
    assert (done.exit_code, done.stdout) == (0, f"ledger {ledger_id} is deleted\n")
    other = written(uri, b"paid 42\n")
    assert run("ledger", "delete", uri, other, "--yes").exit_code == 0
    assert not {ledger_id, other} & set(client.list())


def test_a_password_may_stand_in_the_environment(uri: str) -> None:
    ledger_id = written(uri, b"paid 42\n", "--password", "secret")
    wrong = run("ledger", "read", uri, ledger_id)
    assert (wrong.exit_code, "not the password" in wrong.stderr) == (2, True)
    right = run_process("ledger", "read", uri, ledger_id, WALKEEPER_LEDGER_PASSWORD="secret")
    assert right.stdout == b"paid 42\n"


def test_what_is_not_there_is_refused_without_a_traceback(uri: str, tmp_path: Path) -> None:
    missing = f"sqlite:{tmp_path}/nothing.db"
    for arguments in (
        ("ledger", "show", uri, 2**40),
        ("ledger", "read", uri, 2**40),
        ("ledger", "recover", uri, 2**40),
        ("ledger", "delete", uri, 2**40, "--yes"),
        ("ledgers", missing),
        ("bookies", missing),
        ("bookies", "nothing"),
        ("ledger", "write", missing),
    ):
        result = run_process(*arguments)
        assert (result.returncode, result.stdout) == (2, b""), arguments
        assert result.stderr.startswith(b"walkeeper: "), arguments
        assert b"Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("show", "x"), ("show", -1), ("read", 0, "--from", "x"), ("show", 2**63)])
def test_what_is_no_number_is_refused(uri: str, arguments: tuple[Any, ...]) -> None:
    command, *rest = arguments
    assert run("ledger", command, uri, *rest).exit_code == 2


def test_a_part_that_is_not_there_is_refused(uri: str) -> None:
    ledger_id = written(uri, b"paid 42\n")
    result = run("ledger", "read", uri, ledger_id, "--to", 1)
    assert (result.exit_code, "last confirmed entry is 0" in result.stderr) == (2, True)


def test_too_few_bookies_are_refused(uri: str) -> None:
    result = run("ledger", "write", uri, "--ensemble", 4, given=b"x")
    assert (result.exit_code, "there are 3" in result.stderr) == (2, True)


def test_a_line_that_no_entry_holds_is_refused_and_what_came_before_is_kept(
    uri: str, client: walkeeper.LedgerClient
) -> None:
    before = set(client.list())
    result = run("ledger", "write", uri, given=b"paid 42\n" + b"x" * (5 * 1024 * 1024) + b"\n")
    assert (result.exit_code, "more than an entry may have" in result.stderr) == (2, True)
    (ledger_id,) = set(client.list()) - before
    assert f"1 entry of ledger {ledger_id} were confirmed" in result.stderr
    assert contents(client, ledger_id) == [b"paid 42"]


def test_lost_entries_are_status_1(uri: str, client: walkeeper.LedgerClient, shared_cluster: LocalCluster) -> None:
    ledger_id = written(uri, b"paid 42\n")
    found = client._cluster.ledgers.read(ledger_id)
    assert found is not None
    client._cluster.ledgers.write(ledger_id, replace(found.value, last_entry_id=1, length=8), found.version)
    result = run("ledger", "read", uri, ledger_id)
    assert (result.exit_code, result.stdout) == (1, "paid 42\n")


def test_the_example_tells_a_story_that_ends_well() -> None:
    program = ROOT / "examples/ledger.py"
    if not program.exists():
        pytest.skip("there are no examples here: tests of a wheel")
    result = subprocess.run([sys.executable, program, "--orders", "2000"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    told = [line.split()[0] for line in result.stdout.splitlines()]
    assert told == ["started", "ledger", "SIGKILL", "acknowledged", "SIGKILL", "open", "recovered", "read", "done"]


def test_the_story_says_where_an_order_is_missing(shared_cluster: LocalCluster) -> None:
    program = ROOT / "examples/ledger.py"
    if not program.exists():
        pytest.skip("there are no examples here: tests of a wheel")
    ledger_id = written(shared_cluster.metadata, b"order 0: 0 pieces of article 0\nno order\n")
    for count, missing in ((1, False), (3, True)):
        command = [sys.executable, program, "--read", shared_cluster.metadata, ledger_id, count]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        assert result.returncode == 1
        assert "1 orders are not as they were written" in result.stdout
        assert (f"2 of {count} acknowledged" in result.stdout) == missing
    assert json.loads(run("ledgers", shared_cluster.metadata, "--json").stdout.splitlines()[0])
