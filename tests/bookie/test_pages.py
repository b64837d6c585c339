"""The pages that are made from the code say what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from walkeeper_bookie.pages import PAGES, main

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "python -m walkeeper_bookie.pages docs"


def test_check_fails_where_a_page_differs_or_is_missing_and_writes_nothing(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, [str(tmp_path), "--check"]).exit_code == 1
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(main, [str(tmp_path)]).exit_code == 0
    assert CliRunner().invoke(main, [str(tmp_path), "--check"]).exit_code == 0
    page = tmp_path / next(iter(PAGES))
    page.write_text(page.read_text().replace("10min", "11min"))
    assert CliRunner().invoke(main, [str(tmp_path), "--check"]).exit_code == 1
    assert "11min" in page.read_text()
