"""What the documents say of the repository is true: links resolve, named files exist, defaults are the header's."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import walkeeper
from walkeeper._options import _OPEN_TIMES, OpenOptions

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["docs", "benchmarks", "examples", "tests"]
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
OPERATIONS = ROOT / "docs/operations.md"


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, headings and rulers left out."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_named_in_a_page_exists(page: Path) -> None:
    """Names in backquotes that start in one of the repository's folders, `…::test_y` included."""
    folders = "native|tests|docs|walkeeper|examples|benchmarks"
    named = re.findall(rf"`((?:{folders})/[\w./-]*\w\.\w+)(?:::[\w:]+)?`", page.read_text())
    assert [name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "native/include"))] == []


def test_every_guarantee_names_the_code_that_keeps_it_and_the_test_that_attacks_it() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    promises = [cells for cells in rows(text) if len(cells) == 4 and cells[0] not in {"promise", "---"}]
    assert len(promises) >= 10
    for promise, _conditions, code, tests in promises:
        assert re.search(r"`native/|`walkeeper/|`adapters/", code), promise
        assert "`tests/" in tests, promise


def test_every_test_named_in_guarantees_is_in_its_file() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    named = re.findall(r"`(tests/[\w./-]+)::(\w+)`", text)
    missing = [(path, name) for path, name in named if not re.search(rf"\b{name}\b", (ROOT / path).read_text())]
    assert missing == []


def test_every_test_that_a_rule_of_a_bookie_names_is_in_its_file() -> None:
    text = (ROOT / "docs/bookie-rules.md").read_text()
    files = re.findall(r"`((?:tests|benchmarks)/[\w./-]+\.\w+)` \(([^)]*)\)", text)
    named = [(path, name) for path, names in files for name in re.findall(r"`(\w+)`", names)]
    assert len(named) > 30
    assert [(path, name) for path, name in named if not re.search(rf"\b{name}\b", (ROOT / path).read_text())] == []


def rules_named_in(path: Path) -> set[str]:
    """The storage rules that a test names: in words ("storage rules 1, 6 and 31"), or in the name of a function."""
    text = re.sub(r"\s+(\* )?", " ", path.read_text())
    lists = re.findall(r"[Ss]torage rules? ((?:\d+|, | and )+)", text)
    return set(re.findall(r"\d+", " ".join(lists))) | set(re.findall(r"\brule_(\d+)_", text))


def test_each_of_the_32_storage_rules_has_a_test_that_names_it() -> None:
    table = [cells for cells in rows((ROOT / "docs/storage-rules.md").read_text()) if cells[0].isdigit()]
    assert [cells[0] for cells in table] == [str(rule) for rule in range(1, 33)]
    for rule, _words, _code, tests in table:
        files = [ROOT / path for path in re.findall(r"`(tests/[\w./-]+)", tests)]
        assert [path.name for path in files if rule in rules_named_in(path)], f"storage rule {rule}"


def options_of(struct: str) -> dict[str, str]:
    """The fields of an options struct of log.h and the comment of each."""
    header = (ROOT / "native/include/walkeeper/log.h").read_text()
    body = re.search(rf"typedef struct {struct} \{{(.*?)\n\}}", header, flags=re.DOTALL)
    assert body is not None
    return dict(re.findall(r"^\s+\w+ (\w+);\s*(?:/\* (.*?) \*/)?", body.group(1), flags=re.MULTILINE))


PYTHON_NAMES = {native: name for name, native in _OPEN_TIMES.items()}


def test_operations_lists_every_option_under_the_name_that_python_has() -> None:
    listed = {cells[0].strip("`") for cells in rows(OPERATIONS.read_text()) if cells[0].startswith("`")}
    assert set(OpenOptions.__annotations__) - {"ignore_footers"} <= listed


@pytest.mark.parametrize("struct", ["wk_open_options", "wk_log_options"])
def test_operations_lists_every_option_with_the_default_of_the_header(struct: str) -> None:
    listed = {cells[0].strip("`"): cells[1] for cells in rows(OPERATIONS.read_text()) if cells[0].startswith("`")}
    for option, comment in options_of(struct).items():
        if option == "internal" or "(verification" in comment:
            continue  # not for operators
        name = PYTHON_NAMES.get(option, option)
        assert name in listed
        assert name == option or f"(C: `{option}`)" in OPERATIONS.read_text()
        default = re.search(r"default ([^,;)]+)", comment)
        if default is not None:
            assert listed[name] == default.group(1), option


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    example = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert example is not None
    done = subprocess.run([sys.executable, "-c", example.group(1)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 b'paid 42'\n1 b'shipped 42'\n2 b'paid 43'\n"


def public_members() -> list[tuple[str, object]]:
    """The methods and properties that users see, of both APIs."""
    members: list[tuple[str, object]] = []
    for module in (walkeeper, walkeeper.aio):
        for kind in filter(inspect.isclass, (getattr(module, name) for name in module.__all__)):
            for name, member in vars(kind).items():
                if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                    members.append((f"{kind.__module__}.{kind.__name__}.{name}", member))
    return members


def test_every_public_member_says_what_it_is() -> None:
    members = public_members()
    assert len(members) > 80
    assert [name for name, member in members if not member.__doc__] == []


def test_the_newest_entry_of_the_changelog_is_the_version_of_the_package() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    version = re.search(r'^version = "(.*?)"', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert newest is not None
    assert version is not None
    assert newest.group(1) == version.group(1)


def test_every_page_of_decisions_is_in_their_list() -> None:
    folder = ROOT / "docs/adr"
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {page.name for page in folder.glob("[0-9]*.md")}


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    assert phony is not None
    described = set(re.findall(r"^([a-z0-9-]+):.*## ", makefile, flags=re.MULTILINE))
    assert described == set(phony.group(1).split())


def test_the_pictures_are_as_they_are_drawn() -> None:
    """A picture of figures is drawn from the stored results: new results need a new picture."""
    images = ROOT / "docs/images"
    program = "import json, make; print(json.dumps(make.pictures()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=images, capture_output=True, text=True, check=True)
    for name, svg in json.loads(done.stdout).items():
        assert (images / f"{name}.svg").read_text(encoding="utf-8") == svg, f"run docs/images/make.py: {name}"
