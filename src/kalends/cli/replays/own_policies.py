"""Search path for users' own policies."""

from __future__ import annotations

import sys
from pathlib import Path


def look_here() -> None:
    """Search the current directory, too, for modules of users' own policies."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
