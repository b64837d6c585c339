"""A journal directory, as applications and the command line see it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import walkeeper
from tests.command_line import flip, journal_with, json_lines, payloads, run
from walkeeper import aio
from walkeeper.directory._paths import journal_of
from walkeeper.errors import DamagedError, DirectoryLockedError, ExistsError, InvalidError, NotFoundError

SMALL = 65536
RECORDS = [(b"order number %02d" % number).ljust(3000, b".") for number in range(60)]


@dataclass(frozen=True)
class Pair:
    data: Path
    journal: Path

    def open(self) -> walkeeper.Namespace:
        return walkeeper.open(self.data, journal=self.journal, file_size_min=SMALL, file_size_max=SMALL)

    def records(self, log: str = "orders") -> list[bytes]:
        """All of a log, read by who need not name the journal directory."""
        with walkeeper.open(self.data, read_only=True) as namespace:
            items = namespace.log(log, create=False).reader(gaps="yield")
            return [bytes(item.payload) for item in items if isinstance(item, walkeeper.Record)]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Closed, with sealed files."""
    made = Pair(tmp_path / "data", tmp_path / "journal")
    with made.open() as namespace, namespace.log("orders").writer() as writer:
        for record in RECORDS:
            writer.append(record)
    return made


# ---- opening ----


def test_the_journal_is_there_and_nothing_of_it_elsewhere(pair: Pair) -> None:
    assert sorted(os.listdir(pair.journal)) == ["journal", "owner"]
    assert len(list((pair.journal / "journal").glob("*.wkj"))) > 2
    assert "journal" not in os.listdir(pair.data)
    assert journal_of(pair.data) == str(pair.journal)
    assert pair.records() == RECORDS


def test_an_open_for_writing_names_it_and_one_to_read_need_not(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"was made with a journal directory, which was .*journal when"):
        walkeeper.open(pair.data)
    walkeeper.open(tmp_path / "plain").close()
    with pytest.raises(InvalidError, match="was made without a journal directory"):
        walkeeper.open(tmp_path / "plain", journal=tmp_path / "other")
    with pytest.raises(InvalidError, match="NUL"):
        walkeeper.open(tmp_path / "plain", journal="")
    assert not (tmp_path / "other").exists()
    with pair.open() as namespace:
        assert namespace.log("orders", create=False).count() == len(RECORDS)


def test_both_may_be_moved(pair: Pair) -> None:
    moved = Pair(pair.data.rename(pair.data.with_name("d2")), pair.journal.rename(pair.journal.with_name("j2")))
    with pytest.raises(NotFoundError, match="is its device mounted"):
        moved.records()
    with walkeeper.open(moved.data, read_only=True, journal=moved.journal) as namespace:
        assert namespace.log("orders", create=False).count() == len(RECORDS)
    moved.open().close()
    assert moved.records() == RECORDS  # it says where it is now


def test_a_relative_path_means_what_it_means_at_the_open(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with walkeeper.open("data", journal="journal") as namespace:
        monkeypatch.chdir("/")
        with namespace.log("orders").writer() as writer:
            for record in RECORDS:
                writer.append(record)  # in new files, too
    assert pair.records() == RECORDS * 2
    assert journal_of(pair.data) == str(pair.journal)


def test_it_is_held_wherever_it_is_renamed_to(pair: Pair) -> None:
    """As the directory itself is: the path is gone through once."""
    with pair.open() as namespace:
        pair.journal.rename(pair.journal.with_name("elsewhere"))
        with namespace.log("orders").writer() as writer:
            for record in RECORDS:
                writer.append(record)
        assert namespace.log("orders").count() == 2 * len(RECORDS)
    assert not pair.journal.exists()


def test_one_process_shares_it_and_names_the_same(pair: Pair, tmp_path: Path) -> None:
    other = tmp_path / "link"
    other.symlink_to(pair.journal)
    with pair.open() as namespace:
        with walkeeper.open(pair.data, journal=other) as shared:
            assert shared.log("orders").count() == namespace.log("orders").count()
        with pytest.raises(InvalidError, match="is open in this process with the journal directory"):
            walkeeper.open(pair.data)
        with pytest.raises(InvalidError, match=r"is open in this process with the journal directory .*, and not with"):
            walkeeper.open(pair.data, journal=tmp_path / "no")
        namespace.log("orders")


HOLD = """
import sys, walkeeper
held = walkeeper.open(sys.argv[1], journal=sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def test_both_are_locked(pair: Pair, tmp_path: Path) -> None:
    twin = Pair(shutil.copytree(pair.data, tmp_path / "twin"), pair.journal)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(pair.data), str(pair.journal)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DirectoryLockedError) as of_the_data:
            walkeeper.open(pair.data, journal=pair.journal, lock_timeout=0)
        assert of_the_data.value.holder_pid == holder.pid
        with pytest.raises(DirectoryLockedError, match="journal is in use, by another directory"):
            walkeeper.open(twin.data, journal=twin.journal, lock_timeout=0)
        assert pair.records() == RECORDS  # readers are not kept out
        holder.communicate("")


def test_a_forked_child_lets_go_of_both_locks(pair: Pair) -> None:
    namespace = pair.open()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(read, 1)
        os._exit(0)
    namespace.close()
    try:
        walkeeper.open(pair.data, journal=pair.journal, lock_timeout=0).close()
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def test_aio_names_it_too(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use() -> None:
        async with aio.open("data", journal="journal") as namespace:
            await namespace.backup("copy", journal="copied")

    monkeypatch.chdir(tmp_path)
    asyncio.run(use())
    with walkeeper.open("copy", journal="copied") as namespace:
        assert namespace.log("orders", create=False).count() == len(RECORDS)


# ---- a device that is lost, an older copy ----


def test_an_older_copy_of_the_journal_is_refused(pair: Pair, tmp_path: Path) -> None:
    shutil.copytree(pair.journal, tmp_path / "older")
    pair.open().close()
    with pytest.raises(DamagedError, match="is an older copy"):
        walkeeper.open(pair.data, journal=tmp_path / "older")
    with pytest.raises(DamagedError, match="is an older copy"):
        walkeeper.open(pair.data, journal=tmp_path / "older", read_only=True)
    assert run("verify", pair.data, "--journal", tmp_path / "older").exit_code == 1
    assert pair.records() == RECORDS


def test_an_empty_directory_is_no_journal(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DamagedError, match="Is its device mounted there"):
        walkeeper.open(pair.data, journal=tmp_path / "empty")
    assert os.listdir(tmp_path / "empty") == []


# ---- backups ----


def test_a_backup_is_one_directory_or_two(pair: Pair, tmp_path: Path) -> None:
    one, two = tmp_path / "one", Pair(tmp_path / "two", tmp_path / "twoj")
    with pair.open() as namespace:
        namespace.backup(one)
        namespace.backup(two.data, journal=two.journal)
        for inside in (pair.data / "x", pair.journal / "x"):
            with pytest.raises(InvalidError, match="lies in the directory itself"):
                namespace.backup(inside)
            with pytest.raises(InvalidError, match="lies in the directory itself"):
                namespace.backup(tmp_path / "x", journal=inside)
        with pytest.raises(ExistsError):
            namespace.backup(tmp_path / "x", journal=two.journal)
        assert two.records() == RECORDS  # that of the first backup is left alone
    assert not (tmp_path / "x").exists() or os.listdir(tmp_path / "x") == []
    assert payloads(one, "orders") == RECORDS
    assert two.records() == RECORDS
    two.open().close()
    for copy, options in ((one, ()), (two.data, ("--journal", two.journal))):
        assert run("verify", copy, *options).exit_code == 0


def test_a_plain_directory_may_be_backed_up_into_two(tmp_path: Path) -> None:
    two = Pair(tmp_path / "two", tmp_path / "twoj")
    with walkeeper.open(tmp_path / "plain") as namespace:
        with namespace.log("orders").writer() as writer:
            writer.append_many(RECORDS)
        namespace.backup(two.data, journal=two.journal)
    assert two.records() == RECORDS
    two.open().close()


# ---- the command line ----


def test_commands_find_it_or_are_told(pair: Pair) -> None:
    assert run("ls", pair.data).exit_code == 0
    assert run("append", pair.data, "orders", given=b"found\n").exit_code == 0
    moved = pair.journal.rename(pair.journal.with_name("moved"))
    for command in (("ls", pair.data), ("stat", pair.data), ("verify", pair.data)):
        result = run(*command)
        assert result.exit_code == 2, result.output
        assert "does not exist" in result.stderr
        assert run(*command, "--journal", moved).exit_code == 0
    result = run("append", pair.data, "orders", "--journal", moved, given=b"told\n")
    assert result.exit_code == 0, result.output
    assert run("verify", pair.data).exit_code == 0  # it says where it is now
    assert Pair(pair.data, moved).records()[-2:] == [b"found", b"told"]


def test_verify_counts_both_and_names_what_is_damaged(pair: Pair) -> None:
    (found,) = json_lines(run("verify", pair.data, "--json"))
    files = [*pair.journal.rglob("*.wkj"), *pair.data.rglob("*.wke"), *pair.data.rglob("*.wki")]
    assert int(str(found["files"])) >= len(files) + 2  # superblock and owner
    assert found["others"] == []
    (pair.journal / "strange").write_bytes(b"?")
    (found,) = json_lines(run("verify", pair.data, "--json"))
    assert [one["name"] for one in found["others"]] == ["strange"]  # type: ignore[attr-defined]
    for slot in (0, 4096):
        flip(pair.journal / "owner", slot + 20)
    result = run("verify", pair.data)
    assert result.exit_code == 1
    assert "owner: neither slot says whole whose journal this is" in result.output
    assert run("inspect", pair.journal / "owner").exit_code == 1
    for slot in (0, 4096):
        flip(pair.journal / "owner", slot + 20)
    file, at = journal_with(pair.journal, b"order number 07")
    flip(file, at)
    result = run("verify", pair.data)
    assert result.exit_code == 1
    assert f"journal/{file.name}" in result.output


def test_recover_salvages_both_into_two(pair: Pair, tmp_path: Path) -> None:
    file, at = journal_with(pair.journal, b"order number 07")
    flip(file, at)
    target = Pair(tmp_path / "saved", tmp_path / "savedj")
    result = run("recover", pair.data, target.data, "--on-damage", "skip")
    assert result.exit_code == 2
    assert "--journal-to" in result.stderr
    result = run("recover", pair.data, target.data, "--on-damage", "skip", "--journal-to", target.journal)
    assert result.exit_code == 1, result.output  # a record is lost
    assert target.records() == [record for record in RECORDS if b"07" not in record]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".walkeeper")]


def test_backup_of_the_command_line(pair: Pair, tmp_path: Path) -> None:
    target = Pair(tmp_path / "two", tmp_path / "twoj")
    assert run("backup", pair.data, target.data, "--journal-to", target.journal).exit_code == 0
    assert target.records() == RECORDS
    assert run("backup", pair.data, tmp_path / "one").exit_code == 0
    assert payloads(tmp_path / "one", "orders") == RECORDS


def test_a_read_only_open_repairs_in_memory_here_too(pair: Pair) -> None:
    file, at = journal_with(pair.journal, b"order number 07")
    flip(file, at)
    before = {name: name.read_bytes() for name in pair.journal.rglob("*") if name.is_file()}
    with walkeeper.open(pair.data, read_only=True, on_damage="skip") as namespace:
        items = list(namespace.log("orders", create=False).reader(gaps="yield"))
    assert sum(isinstance(item, walkeeper.Gap) for item in items) == 1
    assert sum(isinstance(item, walkeeper.Record) for item in items) == len(RECORDS) - 1
    assert {name: name.read_bytes() for name in pair.journal.rglob("*") if name.is_file()} == before


def test_a_follower_follows(pair: Pair) -> None:
    with pair.open() as namespace, walkeeper.open(pair.data, read_only=True) as follower:
        reader = follower.log("orders", create=False).reader()
        assert len(reader.read(max_records=1000)) > 0
        with namespace.log("orders").writer() as writer:
            for record in RECORDS:
                writer.append(record)
        assert follower.log("orders", create=False).count() == 2 * len(RECORDS)
