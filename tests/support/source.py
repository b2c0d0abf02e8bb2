"""What source is tested, for whoever replays it."""

from __future__ import annotations

import subprocess


def commit() -> str:
    """The commit of this source; "+" when files differ from it."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "an unknown commit"
