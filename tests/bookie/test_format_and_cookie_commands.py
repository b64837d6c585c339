"""`walkeeper bookie format` and `cookie`: what makes a directory a bookie's, and what is refused."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from bookie_commands import INSTANCE, make_logs, refused, run

from walkeeper.errors import InvalidError
from walkeeper.metadata import Cookie
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._identity import establish, expected_cookie
from walkeeper_bookie._metadata import open_metadata
from walkeeper_bookie._state_files import LimboFile, LimboState, ReadOnlyFile
from walkeeper_bookie.commands import bookie

pytest_plugins = ["bookie_commands"]


def test_a_formatted_directory_has_its_cookies_and_everything_in_limbo(tmp_path: Path, uri: str, store: Any) -> None:
    data = DataDirectory(tmp_path / "new")
    assert run("format", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0
    expected = Cookie("b1", (str(data.path),), (str(data.path),), INSTANCE)
    assert data.cookie.read_bytes() == store.get("/ledgers/cookies/b1").data == expected.serialise()
    assert LimboFile(data.limbo).load().everything
    assert run("inspect", data.path).exit_code == 0
    assert data.path.stat().st_mode & 0o777 == 0o700


def test_a_format_killed_behind_the_cookie_of_the_cluster_is_finished_by_the_next_start(
    tmp_path: Path, uri: str, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    def kill(*_: object) -> None:
        raise KilledError

    data = DataDirectory(tmp_path / "new")
    words = ["format", str(data.path), "--metadata", uri, "--bookie-id", "b1"]
    with monkeypatch.context() as killed:
        killed.setattr("walkeeper_bookie.commands._format.os.rename", kill)
        with pytest.raises(KilledError):
            bookie.main(words, standalone_mode=False)
    assert not data.cookie.exists()
    assert store.get("/ledgers/cookies/b1") is not None
    metadata = open_metadata(uri, 10.0, create=False)
    expected = expected_cookie("b1", data.path, INSTANCE)
    assert establish(metadata, data, expected, lambda: True, init=False)
    metadata.close()
    assert data.cookie.read_bytes() == expected.serialise()
    assert LimboFile(data.limbo).load().everything


def test_format_refuses_what_is_there_already(data: DataDirectory, tmp_path: Path, uri: str, store: Any) -> None:
    before = sorted(path for path in data.path.rglob("*"))
    assert "is not empty" in refused(run("format", data.path, "--metadata", uri, "--bookie-id", "b1"))
    assert before == sorted(path for path in data.path.rglob("*"))
    assert store.get("/ledgers/cookies/b1") is None
    run("format", tmp_path / "one", "--metadata", uri, "--bookie-id", "b1")
    again = run("format", tmp_path / "two", "--metadata", uri, "--bookie-id", "b1")
    assert "has been in this cluster before" in refused(again)
    assert not (tmp_path / "two").exists()


def test_format_by_force_needs_the_id_typed(data: DataDirectory, uri: str, store: Any) -> None:
    run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1")
    ReadOnlyFile(data.read_only).set(True)
    forced = ("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force")
    assert "nothing was changed" in refused(run(*forced, typed="b2\n"))
    assert len(run("inspect", data.path, "--json").stdout.splitlines()) == 2
    assert run(*forced, typed="b1\n").exit_code == 0
    assert run("inspect", data.path, "--json").stdout == ""
    assert not data.read_only.exists()
    assert data.cookie.read_bytes() == store.get("/ledgers/cookies/b1").data


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_format_by_force_takes_no_namespace_of_logs(tmp_path: Path, uri: str, store: Any) -> None:
    make_logs(tmp_path / "data" / "ledgers")
    words = ("format", tmp_path / "data", "--metadata", uri, "--bookie-id", "b1")
    before = everything_in(tmp_path)
    assert "--force" not in refused(run(*words))
    assert "is a namespace of logs" in refused(run(*words, "--force", typed="b1\n"))
    assert everything_in(tmp_path) == before
    assert store.get("/ledgers/cookies/b1") is None


@pytest.mark.parametrize(
    "files",
    [["ledgers/2025.csv"], ["ledgers/journal/2025.csv"], ["ledgers/superblock/a"], ["ledgers"]],
)
@pytest.mark.parametrize("beside", [[], ["invoices"], ["VERSION.new"]])
def test_format_by_force_takes_no_folder_of_that_name(
    tmp_path: Path, uri: str, files: list[str], beside: list[str]
) -> None:
    for name in files + beside:
        path = tmp_path / "acc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("years of work")
    words = ("format", tmp_path / "acc", "--metadata", uri, "--bookie-id", "b1")
    before = everything_in(tmp_path)
    assert "--force" not in refused(run(*words))
    said = refused(run(*words, "--force", typed="b1\n"))
    assert "nothing in it is removed" in said
    assert str(tmp_path / "acc" / files[0]) in said or beside == ["invoices"]
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("left", ["no store", "an empty one", "no superblock", "half a superblock"])
def test_format_by_force_takes_what_a_killed_one_left(data: DataDirectory, uri: str, left: str) -> None:
    LimboFile(data.limbo).save(LimboState(everything=True))
    if left in ("no store", "an empty one"):
        shutil.rmtree(data.store)
    if left == "an empty one":
        data.store.mkdir()
    if left == "no superblock":
        (data.store / "superblock").unlink()
    if left == "half a superblock":
        (data.store / "superblock").write_bytes(b"")
    words = ("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force")
    assert run(*words, typed="b1\n").exit_code == 0
    assert run("inspect", data.path, "--json").stdout == ""


def test_format_by_force_takes_no_other_bookies_directory_and_no_running_ones(
    data: DataDirectory, tmp_path: Path, uri: str, store: Any
) -> None:
    run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1")
    other = run("format", data.path, "--metadata", uri, "--bookie-id", "b2", "--force", typed="b2\n")
    assert "directory of bookie b1" in refused(other)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("years of work")
    strange = run("format", tmp_path / "home", "--metadata", uri, "--bookie-id", "b2", "--force", typed="b2\n")
    assert "nothing in it is removed" in refused(strange)
    assert (tmp_path / "home" / "thesis").exists()
    store.create("/ledgers/available/b1", parents=True)
    running = run("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force", typed="b1\n")
    assert "it runs" in refused(running)


@pytest.mark.usefixtures("serving")
def test_format_takes_no_directory_that_a_process_has(data: DataDirectory, uri: str) -> None:
    result = run("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force", typed="b1\n")
    assert "a bookie serves" in refused(result)


@pytest.mark.usefixtures("serving")
def test_format_takes_no_directory_whose_lock_was_removed(data: DataDirectory, uri: str) -> None:
    """A bookie holds the superblock, too."""
    (data.store / "lock").unlink()
    with (data.store / "superblock").open("ab") as superblock:
        fcntl.flock(superblock, fcntl.LOCK_EX)
        result = run("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force", typed="b1\n")
        assert "a bookie serves" in refused(result)


def test_a_format_that_fails_leaves_nothing_in_the_way_of_the_next(tmp_path: Path, uri: str) -> None:
    """Also what an earlier one left is taken up: by force, as what stands there may be wanted."""
    words = ("format", tmp_path / "new", "--metadata", uri, "--bookie-id", "b1")
    failed = run(*words, "--journal", "/no/such/journal")
    assert failed.exit_code != 0
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "new" / "limbo").touch()
    assert "--force" in refused(run(*words))
    assert run(*words, "--force", typed="b1\n").exit_code == 0


def test_format_takes_no_directory_that_the_bookie_would_refuse(tmp_path: Path, uri: str) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    result = run("format", tmp_path / "open", "--metadata", uri, "--bookie-id", "b1")
    assert "can be written by its group or by others" in str(result.exception)
    assert list((tmp_path / "open").iterdir()) == []


def test_force_is_not_offered_where_it_would_be_refused(tmp_path: Path, uri: str) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a letter").touch()
    words = ("format", tmp_path / "letters", "--metadata", uri, "--bookie-id", "b1")
    assert "--force" not in refused(run(*words))
    refused(run(*words, "--force", typed="b1\n"))
    assert (tmp_path / "letters" / "a letter").exists()


def test_no_cluster_and_no_parent_are_said(tmp_path: Path, uri: str) -> None:
    result = run("format", tmp_path / "new", "--metadata", f"{uri}-empty", "--bookie-id", "b1")
    assert "no INSTANCEID" in refused(result)
    deep = run("format", tmp_path / "a" / "b", "--metadata", uri, "--bookie-id", "b1")
    assert deep.exit_code != 0
    assert "cannot be made: there is no" in str(deep.exception)
    assert "bookie-id" in refused(run("format", tmp_path / "new", "--metadata", uri, "--bookie-id", "readonly"))


def test_a_cookie_that_is_missing_in_the_metadata_is_written_from_the_directory(
    data: DataDirectory, uri: str, store: Any
) -> None:
    cookie = Cookie("b1", (str(data.path),), (str(data.path),), INSTANCE)
    data.cookie.write_bytes(cookie.serialise())
    assert run("cookie", "create", data.path, "--metadata", uri).exit_code == 0
    assert store.get("/ledgers/cookies/b1").data == cookie.serialise()
    assert not data.limbo.exists()


def test_a_cookie_that_is_missing_in_the_directory_puts_everything_into_limbo(
    data: DataDirectory, uri: str, store: Any
) -> None:
    cookie = Cookie("b1", (str(data.path),), (str(data.path),), INSTANCE)
    store.create("/ledgers/cookies/b1", cookie.serialise())
    assert "give --bookie-id" in refused(run("cookie", "create", data.path, "--metadata", uri))
    assert run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0
    assert data.cookie.read_bytes() == cookie.serialise()
    assert LimboFile(data.limbo).load().everything


def test_a_directory_that_no_cookie_can_name_is_refused(
    data: DataDirectory, tmp_path: Path, uri: str, store: Any
) -> None:
    def wrong(*words: object) -> str:
        result = run(*words, "--metadata", uri, "--bookie-id", "b1")
        assert isinstance(result.exception, InvalidError)
        assert store.children("/ledgers/cookies") == []
        return str(result.exception)

    new, comma = tmp_path / "new", tmp_path / "a,b"
    assert "the data directory" in wrong("format", comma)
    assert "a byte that is no UTF-8" in wrong("format", tmp_path / "a\udcffb")
    assert "the journal directory" in wrong("format", new, "--journal", tmp_path / "a\tb")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    os.rename(data.path, comma)
    before = sorted(comma.iterdir())
    assert "has ',' in it" in wrong("cookie", "create", comma)
    assert sorted(comma.iterdir()) == before


def test_another_cookie_is_not_replaced(data: DataDirectory, uri: str, store: Any) -> None:
    data.cookie.write_bytes(Cookie("b1", ("/old",), ("/old",), INSTANCE).serialise())
    assert "journal_dirs" in refused(run("cookie", "create", data.path, "--metadata", uri))
    assert store.get("/ledgers/cookies/b1") is None


def test_a_damaged_cookie_is_said_with_its_remedy_which_works(data: DataDirectory, uri: str) -> None:
    data.cookie.write_bytes(b"rubbish\n")
    for words in (["create", data.path], ["show", "--data", data.path]):
        assert f"remove {data.cookie}, then walkeeper bookie cookie create" in refused(
            run("cookie", *words, "--metadata", uri)
        )
    data.cookie.unlink()
    assert run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0
    assert LimboFile(data.limbo).load().everything


def test_the_remedy_for_a_directory_that_was_moved_works(data: DataDirectory, uri: str, store: Any) -> None:
    old = Cookie("b1", ("/old",), ("/old",), INSTANCE).serialise()
    data.cookie.write_bytes(old)
    store.create("/ledgers/cookies/b1", old)
    said = refused(run("cookie", "create", data.path, "--metadata", uri))
    for step in ("cookie delete --metadata URI b1", f"remove {data.cookie}", "--bookie-id b1", "limbo"):
        assert step in said
    assert run("cookie", "delete", "--metadata", uri, "b1", "--yes").exit_code == 0
    data.cookie.unlink()
    assert run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0


def test_a_mistyped_path_of_metadata_is_said_and_not_made(data: DataDirectory, tmp_path: Path) -> None:
    uri = f"sqlite:{tmp_path / 'metadate.db'}"
    for words in (["show"], ["create", data.path, "--bookie-id", "b1"], ["delete", "b1", "--yes"]):
        assert "there is no cluster at" in refused(run("cookie", *words, "--metadata", uri))
    assert not (tmp_path / "metadate.db").exists()


def test_a_directory_without_ledgers_gets_no_cookie(tmp_path: Path, uri: str) -> None:
    assert "walkeeper bookie format" in refused(
        run("cookie", "create", tmp_path, "--metadata", uri, "--bookie-id", "b1")
    )


def test_cookies_are_shown(data: DataDirectory, uri: str) -> None:
    run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1")
    for arguments in ([], ["b1"], ["--data", data.path]):
        assert f"b1: ledgers {data.path}" in run("cookie", "show", "--metadata", uri, *arguments).stdout
    assert "no cookie of b2" in run("cookie", "show", "--metadata", uri, "b2").stderr


def test_a_cookie_is_deleted_once_the_bookie_is_gone_and_its_id_typed(
    data: DataDirectory, uri: str, store: Any
) -> None:
    run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1")
    assert "nothing was changed" in refused(run("cookie", "delete", "--metadata", uri, "b1", typed="b2\n"))
    store.create("/ledgers/available/readonly/b1", parents=True)
    assert "it runs" in refused(run("cookie", "delete", "--metadata", uri, "b1", typed="b1\n"))
    store.delete("/ledgers/available/readonly/b1")
    assert run("cookie", "delete", "--metadata", uri, "b1", typed="b1\n").exit_code == 0
    assert store.get("/ledgers/cookies/b1") is None
    assert "has no cookie" in refused(run("cookie", "delete", "--metadata", uri, "b1", "--yes"))


def test_a_wrong_uri_and_a_wrong_id_are_said(uri: str) -> None:
    assert "nosuch" in refused(run("cookie", "show", "--metadata", "nosuch:x"))
    assert "bookie id" in refused(run("cookie", "show", "--metadata", uri, "a/b"))
