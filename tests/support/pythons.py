"""The Pythons of this host: the language of agents and its wall are tried on each version that is found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
VERSIONS: Final = ("3.11", "3.12", "3.13")


def pythons() -> dict[str, str]:
    """Return a Python that starts, by version: this one, on the path, or installed by pyenv."""
    found = {HERE: sys.executable}
    homes = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for version in VERSIONS:
        candidates = [shutil.which(f"python{version}") or ""]
        candidates += map(str, sorted(homes.glob(f"{version}.*/bin/python")))
        for candidate in candidates:
            if candidate and version not in found and _version_of(candidate) == version:
                found[version] = candidate
    return found


def _version_of(python: str) -> str:
    """Return the version that `python` says it has; "" when it does not start."""
    asked = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stdout.strip() if asked.returncode == 0 else ""
