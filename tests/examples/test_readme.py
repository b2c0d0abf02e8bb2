"""The commands of README.md and docs/first-booking.md work as they stand, from the first to the last.

Only the directory of the demo is another one, so that nobody's own is in the way. docs/README.md reaches
every page of the documentation.
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
from transcripts import EXAMPLES, ROOT, environment

END_S_MAX = 600
BLOCK = re.compile(
    r"<!-- ([^:\n]+): tests/examples/test_readme\.py [a-z]+ it -->\n```[a-z]+\n(.*?)```\n",
    re.DOTALL,
)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")


@pytest.mark.parametrize("document", ["README.md", "docs/first-booking.md"])
def test_its_commands_work_as_they_stand(document: str, tmp_path: Path) -> None:
    directory = tmp_path / "kalends-demo"
    text = (ROOT / document).read_text().replace("/tmp/kalends-demo", str(directory))
    blocks = BLOCK.findall(text)
    kinds = [kind for kind, _ in blocks]
    first = kinds.index("the first terminal")
    run_blocks(blocks[:first], directory)
    assert blocks[first + 1 :]
    with first_terminal(blocks[first][1], directory):
        run_blocks(blocks[first + 1 :], directory)


def test_the_index_of_the_documentation_reaches_every_page_and_no_link_is_dead() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *EXAMPLES.rglob("*.md")]
    linked = {document: links_of(document) for document in documents}
    assert [path for paths in linked.values() for path in paths if not path.exists()] == []
    index = ROOT / "docs" / "README.md"
    assert set(documents) - {index, ROOT / "README.md"} <= linked[index]
    assert index in linked[ROOT / "README.md"]


def links_of(document: Path) -> set[Path]:
    return {(document.parent / link).resolve() for link in LINK.findall(document.read_text())}


def run_blocks(blocks: list[tuple[str, str]], directory: Path) -> None:
    """Run the blocks in their order; an ``output`` is what the one before it prints."""
    printed = ""
    for kind, block in blocks:
        if kind == "output":
            assert block == printed
        else:
            printed = run_block(kind, block, directory)


def run_block(kind: str, block: str, directory: Path) -> str:
    """What `block` prints; it must end well."""
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
    return run.stdout


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
