"""Version of a script's engine: bytecode is good for this engine only, and so is the promise of replay."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Final

POLICY: Final = 3
"""Number of this language: raise it with every change that can change an answer or the bytecode."""

ENGINE: Final = (
    f"agents-{POLICY} RestrictedPython-{version('RestrictedPython')} "
    f"Python-{sys.version_info.major}.{sys.version_info.minor}"
)
