"""The commands of README.md and docs/first-booking.md work as they stand, from the first to the last.

Only the directory of the demo is another one, so that nobody's own is in the way.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from transcripts import ROOT, environment

END_S_MAX = 60
BLOCK = re.compile(
    r"<!-- ([^:\n]+): tests/examples/test_readme\.py runs it -->\n```[a-z]+\n(.*?)```\n", re.DOTALL
)


@pytest.mark.parametrize("document", ["README.md", "docs/first-booking.md"])
def test_its_commands_work_as_they_stand(document: str, tmp_path: Path) -> None:
    directory = tmp_path / "kalends-demo"
    text = (ROOT / document).read_text().replace("/tmp/kalends-demo", str(directory))
    blocks = BLOCK.findall(text)
    (first, start), *others = blocks
    assert first == "the first terminal"
    assert others
    with first_terminal(start, directory):
        for kind, block in others:
            run_block(kind, block, directory)


def run_block(kind: str, block: str, directory: Path) -> None:
    enter = f". {directory}/environment\n"
    if kind == "python":
        command = [enter + f'exec {sys.executable} -c "$0"', block]
    else:
        block = block.replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
        command = ["set -e\n" + (enter if kind == "the second terminal, again" else "") + block]
    run = subprocess.run(
        ["sh", "-c", *command], cwd=ROOT, env=environment({}), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, f"{block}\n{run.stdout}\n{run.stderr}"


@contextmanager
def first_terminal(commands: str, directory: Path) -> Iterator[None]:
    """The demo as started by `commands`, until this context ends; Ctrl-C must end it well."""
    setting_up, start = commands.strip().splitlines()
    assert setting_up.startswith("make setup")
    program = start.replace(".venv/bin/kalends", f"{Path(sys.executable).parent}/kalends")
    with subprocess.Popen(
        ["sh", "-c", f"exec {program}"], cwd=ROOT, env=environment({}), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as demo:  # fmt: skip
        try:
            said = read_until(demo, "Ctrl-C stops everything.")
            assert "reserved" in said
            yield
            demo.send_signal(signal.SIGINT)
            assert demo.wait(timeout=END_S_MAX) == 0
        finally:
            demo.terminate()
            demo.wait(timeout=END_S_MAX)
    for pid in directory.glob("*.pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


def read_until(demo: subprocess.Popen[str], last: str) -> str:
    """What `demo` prints, up to the line `last`; fails when it ends before."""
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if line.strip() == last:
            return "".join(lines)
    raise AssertionError(f"the demo never said {last!r}:\n{''.join(lines)}")
