"""What an optional part needs can be installed by the command that is printed: kalends is in no registry."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from kalends.extras import install_command

ROOT = Path(__file__).parents[3]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_the_command_names_packages_that_others_publish_and_this_python(extra: str) -> None:
    program, *words = shlex.split(install_command(extra))
    assert program == sys.executable
    assert words[:3] == ["-m", "pip", "install"]
    assert words[3:]
    assert not any(word.startswith("kalends") for word in words[3:])
    named = {re.split(r"[<>=\[]", each)[0] for each in EXTRAS[extra] if "kalends" not in each}
    assert named <= {re.split(r"[<>=\[]", each)[0] for each in words[3:]}


def test_an_extra_that_there_is_not_is_an_error() -> None:
    with pytest.raises(LookupError):
        install_command("nothing")


def test_no_text_names_a_package_that_is_in_no_registry() -> None:
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    for text in texts:
        assert not re.search(r"pip install ['\"]?kalends", text.read_text()), text
