"""docs/machines.md is right: its architecture runs, its machines exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kalends.machines.spec import ARCHITECTURES, machine_from

TEXT = (Path(__file__).parents[3] / "docs" / "machines.md").read_text("utf-8")


def test_the_architecture_of_the_page_prints_what_the_page_says() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )  # fmt: skip
    (said,) = re.findall(r"The program prints `(.*?)`", TEXT)
    assert run.stdout.strip() == said


def test_every_text_of_the_page_is_a_machine_and_no_architecture_is_left_out() -> None:
    texts = re.findall(r"^\| `([a-z0-9]+:[^`]+)`", TEXT, re.MULTILINE)
    for text in texts:
        assert machine_from(text).spec == text
    assert {text.partition(":")[0] for text in texts} == set(ARCHITECTURES)
