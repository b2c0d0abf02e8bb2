"""Commands that install optional packages and plug-ins of kalends, for the running Python.

kalends itself is in no package registry: a command with its name would fail, or install what somebody else
has put there. The packages that an extra stands for are named instead, as this installation declares them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from shlex import quote

_OF_EXTRA = re.compile(r"""\s*([^;]+?)\s*;\s*extra\s*==\s*["']([^"']+)["']\s*""")
_OURS = re.compile(r"kalends\[([^\]]+)\]")


def install_command(extra: str, distribution: str = "kalends") -> str:
    """Return the command that installs the packages of `extra`; raises `LookupError` if there is no such."""
    packages = " ".join(map(quote, dict.fromkeys(_packages(extra, distribution))))
    if not packages:
        raise LookupError(extra)
    return f"{quote(sys.executable)} -m pip install {packages}"


def plug_in_command(name: str) -> str:
    """Return the command that installs the plug-in `name`, from the clone that this is, or from any clone."""
    here = Path(__file__).parents[2] / "plugins" / name
    if here.is_dir():
        return f"{quote(sys.executable)} -m pip install {quote(str(here))}"
    return f"{quote(sys.executable)} -m pip install ./plugins/{name} (in a clone of kalends)"


def _packages(extra: str, distribution: str) -> Iterator[str]:
    for requirement in metadata.requires(distribution) or ():
        match = _OF_EXTRA.fullmatch(requirement)
        if match is None or match[2] != extra:
            continue
        if ours := _OURS.fullmatch(match[1]):
            for other in ours[1].split(","):
                yield from _packages(other.strip(), distribution)
        else:
            yield match[1]
