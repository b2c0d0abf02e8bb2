"""The program in docs/malleable.md runs as it stands there, and prints what is printed there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from transcripts import ROOT, environment

BLOCK = re.compile(
    r"<!-- ([^:\n]+): tests/examples/test_malleable_docs\.py [a-z]+ [a-z]+ -->\n```[a-z]+\n(.*?)```\n",
    re.DOTALL,
)


def test_its_program_prints_what_it_says(tmp_path: Path) -> None:
    blocks = dict(BLOCK.findall((ROOT / "docs" / "malleable.md").read_text()))
    (tmp_path / "smooth.py").write_text(blocks["smooth.py"])
    printed = "".join(
        subprocess.run(
            shlex.split(command), cwd=tmp_path, env=environment({}), text=True, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ).stdout
        for command in blocks["commands"].splitlines()
    )  # fmt: skip
    assert _without_times(printed) == _without_times(blocks["output"])


def _without_times(text: str) -> str:
    return re.sub(r"[0-9.]+ ms", "N ms", text)
