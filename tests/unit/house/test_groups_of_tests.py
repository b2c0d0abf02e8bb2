"""Tests that share what is dear, or must run one at a time, are given to one worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GROUPED = """
import os

import pytest


@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(6))
def test_of_the_group(number: int) -> None:
    with open("workers", "a") as file:
        print(os.getpid(), file=file)
"""


def test_a_group_of_tests_runs_in_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    (tmp_path / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "2", "--dist", "loadgroup"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(command, cwd=tmp_path, env=alone, check=True, capture_output=True)
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6
    assert len(set(workers)) == 1


def test_unit_and_property_tests_are_in_folders_which_the_makefile_lists_one_by_one() -> None:
    tests = Path(__file__).parents[2]
    assert [*tests.glob("unit/test_*.py"), *tests.glob("property/test_*.py")] == []
