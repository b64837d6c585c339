"""A share is repeatable, no unit is divided, a few runs take everything, and what changed is always in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import shares

NAMES = {f"{test}-{number}": test for test in ("a", "b", "c", "d", "e", "f", "g") for number in range(3)}


def git(folder: Path, *arguments: str, day: int = 1) -> None:
    date = f"2026-01-{day:02}T12:00:00Z"
    environment = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": "/dev/null"}
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *arguments], cwd=folder, env=environment, check=True, capture_output=True)


def commit(folder: Path, file: str, text: str, day: int) -> None:
    (folder / file).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", file, day=day)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three commits, each a week after the one before."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    for number in range(3):
        commit(folder, f"file-{number}", "text\n" * 20, 1 + 7 * number)
    monkeypatch.setattr(shares, "ROOT", folder)
    return folder


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
def test_as_many_seeds_in_a_row_as_there_are_parts_take_everything_once(parts: int) -> None:
    taken = [name for seed in range(1000, 1000 + parts) for name in shares.share(NAMES, set(), parts, seed)[0]]
    assert sorted(taken) == sorted(NAMES)


def test_the_same_seed_gives_the_same_share() -> None:
    assert shares.share(NAMES, set(NAMES), 3, 8) == shares.share(dict(reversed(NAMES.items())), set(NAMES), 3, 8)
    assert shares.share(NAMES, set(NAMES), 3, 8) != shares.share(NAMES, set(NAMES), 3, 9)


def test_a_unit_is_not_divided() -> None:
    part, _ = shares.share(NAMES, set(), 3, 1)
    assert {name for name, unit in NAMES.items() if unit in {NAMES[name] for name in part}} == set(part)


@pytest.mark.parametrize("seed", range(6))
def test_what_changed_is_in_every_share(seed: int) -> None:
    part, others = shares.share(NAMES, {"a-1", "e-0", "a name that is no more"}, 6, seed)
    assert {"a-1", "e-0"} <= {*part, *others}
    assert not set(part) & set(others)


def test_what_changed_is_no_longer_than_a_part() -> None:
    part, others = shares.share(NAMES, set(NAMES), 7, 2)
    assert (len(part), len(others)) == (3, 3)
    assert any(shares.share(NAMES, set(NAMES), 7, 2 + 7 * turn)[1] != others for turn in range(1, 5))


def test_the_base_is_the_named_revision(repository: Path) -> None:
    assert shares.find_base("HEAD~2") == (shares.git("rev-parse", "HEAD~2"), "BASE=HEAD~2")
    with pytest.raises(SystemExit, match="BASE=nothing is no commit"):
        shares.find_base("nothing")


def test_the_base_is_where_the_branch_left_main(repository: Path) -> None:
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD~2")
    assert shares.find_base("") == (shares.git("rev-parse", "HEAD~2"), "the merge base with origin/main")


def test_on_main_itself_the_base_is_a_day_before_head(repository: Path) -> None:
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert shares.find_base("") == (shares.git("rev-parse", "HEAD~1"), "a day before HEAD")


def test_without_history_nothing_is_known_to_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "ROOT", tmp_path)
    assert shares.find_base("") == ("", "there is no older commit")
    assert shares.changed_files("") == set()
    assert shares.changed_mutants(set(), "") == []


def test_edits_are_changes_and_moves_are_not(repository: Path) -> None:
    git(repository, "mv", "file-0", "moved")
    commit(repository, "file-1", "text\n" * 19 + "other\n", 20)
    (repository / "file-2").write_text("not committed\n")
    assert shares.changed_files("HEAD~1") == {"file-1", "file-2"}


def test_a_changed_source_leads_to_the_tests_that_its_mutants_name() -> None:
    mutants = shares.mutants_run.load(shares.ROOT / shares.MUTANTS)
    of_c = next(mutant for mutant in mutants if mutant.file.endswith(".c") and not mutant.is_python)
    of_python = next(mutant for mutant in mutants if mutant.is_python)
    files = {of_c.file, of_python.file}
    changed = shares.changed_mutants(files, "")
    assert {mutant.name for mutant in mutants if mutant.file in files} == {mutant.name for mutant in changed}
    assert of_python.place.as_posix() in shares.python(files, changed)[1]
    names, found = shares.mutants(files, changed)
    assert {of_c.name, of_python.name} <= found <= set(names)


def test_a_changed_test_leads_to_itself_and_to_its_mutants() -> None:
    mutant = next(mutant for mutant in shares.mutants_run.load(shares.ROOT / shares.MUTANTS) if not mutant.is_python)
    assert mutant in shares.changed_mutants({mutant.place.as_posix()}, "")
    here = Path(__file__).relative_to(shares.ROOT).as_posix()
    names, changed = shares.python({here}, [])
    assert here in changed & set(names)
    assert here not in shares.python({here}, [], here)[0]


def test_tests_on_javas_bookies_are_a_part_of_interop_alone() -> None:
    file, helper = "tests/java_bookies/test_logs.py", "tests/java_bookies/jvm.py"
    names, changed = shares.interop({file}, [])
    assert file in changed & set(names)
    assert {name for name in names if name.startswith("tests/")} <= shares.interop({helper}, [])[1]
    assert file not in shares.python({file}, [])[0]


def test_a_native_test_without_rings_takes_its_turn_with_the_test_itself(tmp_path: Path) -> None:
    tests = ["test_codec", "test_codec_without_uring", "test_long"]
    (tmp_path / "CTestTestfile.cmake").write_text("".join(f"add_test({name} true)\n" for name in tests))
    names, changed = shares.native({"tests/native/test_codec.c"}, [], str(tmp_path))
    assert names == {"test_codec": "test_codec", "test_codec_without_uring": "test_codec", "test_long": "test_long"}
    assert changed == {"test_codec", "test_codec_without_uring"}
    assert set(shares.native(set(), [], str(tmp_path), "-E", "codec")[0]) == {"test_long"}


@pytest.mark.parametrize("kind", ["python", "fuzzers", "parsers", "interop", "mutants"])
def test_each_kind_prints_its_names_and_says_which_they_are(kind: str) -> None:
    command = [sys.executable, shares.__file__, kind, "--parts", "2", "--base", "HEAD", "--seed"]
    halves = [subprocess.run([*command, seed], capture_output=True, text=True, check=True) for seed in ("4", "5")]
    assert f"{kind}: share 1 of 2" in halves[0].stderr
    assert "SEED=4" in halves[0].stderr
    names = set(shares.KINDS[kind](set(), [])[0])
    assert {name for half in halves for name in half.stdout.splitlines()} == names
