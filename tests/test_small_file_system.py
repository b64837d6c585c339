"""Where the small file system of other tests cannot be had."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_file_system import mounted


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_root_its_tests_are_skipped_and_in_ci_they_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with (
        pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="needs root") as ended,
        mounted(tmp_path, 1),
    ):
        pass
    assert ended.type is outcome
