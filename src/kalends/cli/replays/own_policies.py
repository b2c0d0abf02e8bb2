"""Users' own policies, as the command line finds them."""

from __future__ import annotations

import sys
from pathlib import Path


def look_here() -> None:
    """Let the modules of users' own policies also be found in the current directory."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
