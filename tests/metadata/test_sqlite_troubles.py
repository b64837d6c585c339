"""A SqliteStore while the system fails it: without descriptors or threads, with its file or its folder gone."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from metadata.stores import WAIT_SECONDS, Calls, until
from metadata.test_sqlite_liveness import Holder, files

from walkeeper.metadata import SqliteStore, UnavailableError, _liveness, _sqlite_keeper


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path, busy_timeout=WAIT_SECONDS) as opened:
        yield opened


@pytest.fixture
def hold(path: Path) -> Iterator[Callable[[float], Holder]]:
    with contextlib.ExitStack() as held:

        def start(session_timeout: float) -> Holder:
            holder = Holder(path, session_timeout)
            held.callback(holder.kill)
            return holder

        yield start


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> None:
    """That function of `os` fails for what is in the folder, and for the folder."""
    real = getattr(os, name)

    def refused(place: Any, *arguments: Any, **options: Any) -> Any:
        if str(folder) in str(place):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(place, *arguments, **options)

    monkeypatch.setattr(os, name, refused)


def sessions(path: Path) -> Path:
    return path.with_name(path.name + "-sessions")


# ---- descriptors and threads ----


@pytest.mark.parametrize("call", ["get", "children", "create"])
def test_who_cannot_look_whether_a_session_lives_says_so_and_buries_nobody(
    store: SqliteStore, path: Path, hold: Callable[[float], Holder], call: str
) -> None:
    hold(3600.0)
    with pytest.MonkeyPatch.context() as trouble:
        refuse(trouble, "open", sessions(path))
        with pytest.raises(UnavailableError, match="Too many open files"):
            store.children("/") if call == "children" else getattr(store, call)("/here")
    assert store.children("/") == ["here"]


def test_a_session_outlives_a_time_without_descriptors(store: SqliteStore, hold: Callable[[float], Holder]) -> None:
    """Longer than its time-out: to say that it goes on, it opens nothing. Its watches go on afterwards."""
    holder = hold(1.0)
    holder.tell(
        "import resource; told = []; store.watch('/below', lambda: told.append(1)); store.watch('/', lambda: None);"
        "usual = resource.getrlimit(resource.RLIMIT_NOFILE);"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, usual[1])); print('none left', flush=True)"
    )
    assert holder.line() == "none left"
    holder.tell("time.sleep(2.5); resource.setrlimit(resource.RLIMIT_NOFILE, usual); print('again', flush=True)")
    assert holder.line() == "again"
    assert store.children("/") == ["here"]
    holder.tell("print(store.session(), flush=True)")
    assert holder.line() == "1"
    store.create("/below")
    holder.tell("while not told: time.sleep(0.01)")
    holder.tell("print('told', flush=True)")
    assert holder.line() == "told"


def test_the_thread_goes_on_after_a_turn_that_failed_as_none_should(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_sqlite_keeper, "DEFECT_SECONDS", 0.01)
    calls, failures = Calls(), []
    store.watch("/key", calls)
    with pytest.MonkeyPatch.context() as trouble:

        def broken(connection: object, key: str) -> None:
            failures.append(key)
            raise KeyError("a defect")

        trouble.setattr(_sqlite_keeper, "_mark", broken)
        store.create("/key")
        until(lambda: len(failures) > 2)
    until(lambda: calls.count)
    assert "a turn of the thread" in caplog.text


def test_a_store_that_gets_no_thread_says_so_and_may_get_one_later(store: SqliteStore) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = Calls()
    with pytest.MonkeyPatch.context() as trouble:
        trouble.setattr(threading.Thread, "start", refused)
        with pytest.raises(UnavailableError, match="can't start new thread"):
            store.create("/here", ephemeral=True)
        with pytest.raises(UnavailableError, match="can't start new thread"):
            store.watch("/here", calls)
        store.create("/lasting")
    assert store.children("/") == ["lasting"]
    store.watch("/here", calls)
    store.create("/here", ephemeral=True)
    until(lambda: calls.count)


# ---- the folder of the sessions ----


@pytest.mark.parametrize("name", ["listdir", "unlink"])
def test_a_folder_that_cannot_be_tidied_up_holds_up_no_session(store: SqliteStore, path: Path, name: str) -> None:
    sessions(path).mkdir()
    (sessions(path) / "left").write_bytes(b"")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.MonkeyPatch.context() as trouble:
        refuse(trouble, name, sessions(path))
        store.create("/here", ephemeral=True)
    assert store.children("/") == ["here"]
    assert len(os.listdir("/proc/self/fd")) == before + 1, "its own session's"


def test_the_dead_are_buried_also_where_their_file_cannot_be_removed(
    store: SqliteStore, path: Path, hold: Callable[[float], Holder]
) -> None:
    holder = hold(3600.0)
    holder.kill()
    with pytest.MonkeyPatch.context() as trouble:
        refuse(trouble, "unlink", sessions(path))
        assert store.children("/") == []
    assert len(files(path)) == 1
    store.create("/ours", ephemeral=True)
    assert len(files(path)) == 1, "the next session tidies up"


def test_a_session_that_cannot_be_made_leaves_nothing_behind(store: SqliteStore, path: Path) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sessions(path).mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.MonkeyPatch.context() as trouble:
        trouble.setattr(_liveness.os, "pwrite", refused)
        with pytest.raises(UnavailableError, match="No space left"):
            store.create("/here", ephemeral=True)
    assert files(path) == []
    assert len(os.listdir("/proc/self/fd")) == before


# ---- the file ----


def test_a_file_that_was_removed_is_missed(store: SqliteStore, path: Path) -> None:
    """The connections that are open would go on with it for ever; nobody else finds it."""
    store.create("/key")
    path.unlink()
    with pytest.raises(UnavailableError):
        store.get("/key")
    with pytest.raises(UnavailableError):
        store.create("/other")
    assert not path.exists(), "nothing empty is put in its place"


def test_another_file_in_its_place_is_the_store_from_then_on(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    """An operator restores a backup. Sessions that are not in it are lost, watches go on."""
    store.create("/key", b"old")
    shutil.copy(path, tmp_path / "backup")
    store.put("/key", b"new")
    events, calls = Calls(), Calls()
    with SqliteStore(path, session_timeout=0.5) as holder:
        holder.on_session(events)
        holder.create("/here", ephemeral=True)
        holder.watch("/key", calls)
        os.replace(tmp_path / "backup", path)
        value = store.get("/key")
        assert value is not None
        assert value.data == b"old"
        until(lambda: events.made == [("lost",), ("new",)] and calls.count)
        holder.create("/here", ephemeral=True)
        assert store.children("/") == ["here", "key"]
