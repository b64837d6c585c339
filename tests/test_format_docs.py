"""The worked bytes on the pages of docs/formats are what the C writes: change a format, and its page must follow."""

import pytest

from tests.core_lib import lib
from tests.format_examples import EXAMPLE, EXAMPLES, PAGES

SHOWN = {
    name: (page.name, text) for page in PAGES.glob("*.md") for _, name, text, _ in EXAMPLE.findall(page.read_text())
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_bytes_are_what_the_c_writes(name: str) -> None:
    page, text = SHOWN[name]
    assert text == EXAMPLES[name](), f"docs/formats/{page}: python -m tests.format_examples --write"


def test_every_example_is_shown_once_and_known() -> None:
    shown = [name for page in PAGES.glob("*.md") for _, name, _, _ in EXAMPLE.findall(page.read_text())]
    assert sorted(shown) == sorted(EXAMPLES)


def test_every_page_says_its_version_and_its_rule() -> None:
    pages = [page for page in PAGES.glob("*.md") if page.name != "README.md"]
    assert len(pages) >= 6
    for page in pages:
        text = page.read_text()
        assert "if and only if" in text, page.name
        assert "Format version" in text, page.name


def test_the_version_on_the_pages_is_the_headers() -> None:
    assert f"format version {lib.WK_FORMAT_VERSION}" in (PAGES / "README.md").read_text().lower()
