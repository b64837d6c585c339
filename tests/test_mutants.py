"""Every seeded defect of tests/mutants still fits the source; `make mutants` runs them."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent / "mutants"


@pytest.fixture(scope="module")
def run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants_run", HERE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_mutant_matches_the_source_and_names_a_test(run: ModuleType) -> None:
    mutants = run.load(HERE)
    assert len(mutants) >= 12
    assert run.problems(mutants) == []


def test_every_mutant_compiles(run: ModuleType) -> None:
    assert run.ill_formed(run.load(HERE)) == []


def test_a_mutant_that_does_not_compile_is_told_from_one_that_does(run: ModuleType) -> None:
    texts = (
        ("native/io/clock.c", "return nanoseconds(CLOCK_MONOTONIC);"),
        ("tests/fuzz/parsers.py", "import random\n"),
    )
    for file, search in texts:
        well, ill = (run.Mutant(word, "", file, search, f"{word};", "t") for word in ("return 0", "return ="))
        if file.endswith(".py"):
            well = run.Mutant("well", "", file, search, "import math\n", "t")
        assert run.ill_formed([well, ill]) == [f"{ill.name}: with it {file} does not compile"]


def test_a_mutant_whose_text_is_gone_or_there_twice_is_an_error(run: ModuleType) -> None:
    mutant = run.Mutant("m", "why", "f.c", search="a = b;", replace="a = c;", test="t")
    assert mutant.applied_to("x; a = b;") == "x; a = c;"
    for source in ("x;", "a = b; a = b;"):
        with pytest.raises(ValueError, match="not once"):
            mutant.applied_to(source)


def test_a_mutant_that_changes_nothing_is_an_error(run: ModuleType) -> None:
    with pytest.raises(ValueError, match="changes nothing"):
        run.Mutant("m", "why", "f.c", search="a;", replace="a;", test="t").applied_to("a;")


def test_the_mutants_of_all_files_count_and_share_no_name(run: ModuleType, tmp_path: Path) -> None:
    text = '[[mutant]]\nname = "{}"\nwhy = ""\nfile = "f.c"\nsearch = "a"\nreplace = "b"\ntest = "t"\n'
    (tmp_path / "one.toml").write_text(text.format("first") + text.format("second"))
    (tmp_path / "two.toml").write_text(text.format("third"))
    (tmp_path / "zero.toml").write_text("# nothing yet\n")
    assert [mutant.name for mutant in run.load(tmp_path)] == ["first", "second", "third"]
    (tmp_path / "zero.toml").write_text(text.format("first"))
    with pytest.raises(ValueError, match="share a name: first"):
        run.load(tmp_path)


def test_every_known_defect_of_a_bookie_has_a_mutant_or_cannot_occur(run: ModuleType) -> None:
    page = (run.ROOT / "docs" / "bookie-rules.md").read_text()
    table = page.partition("## Known defects of bookies")[2]
    rows = [line for line in table.splitlines() if line.startswith(("| #", "| B"))]
    names = {mutant.name for mutant in run.load(HERE)}
    assert len(rows) >= 20
    for row in rows:
        cited = re.findall(r"`(\w+)`", row.partition("mutant")[2])
        assert cited or "Cannot occur" in row, row
        assert set(cited) <= names, row
