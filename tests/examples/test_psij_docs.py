"""The program in docs/psij.md runs as it stands there, and prints what is printed there."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from machine_room import machine_room
from transcripts import ROOT, environment

BLOCK = re.compile(
    r"<!-- (\w+): tests/examples/test_psij_docs\.py -->\n```\w*\n(.*?)```\n", re.DOTALL
)


def test_its_program_prints_what_it_says() -> None:
    blocks = dict(BLOCK.findall((ROOT / "docs" / "psij.md").read_text()))
    # Not in pytest's own folder, which only root could enter.
    with (
        tempfile.TemporaryDirectory(prefix="kalends-psij-") as directory,
        machine_room(Path(directory)) as variables,
    ):
        home = variables["KALENDS_FACILITY"]
        variables |= {"HOME": home, "KALENDS_USER": "ann"}
        ran = subprocess.run(
            [sys.executable, "-c", blocks["program"]], cwd=home, env=environment(variables), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    assert ran.stdout == blocks["output"]
