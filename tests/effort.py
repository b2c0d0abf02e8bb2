"""How hard the random tests try: a little every day, for as long as one likes in a soak.

``KALENDS_EFFORT=50 pytest tests/property`` runs fifty times as many examples, with fresh ones each
time. Machines and comparisons count what they did, and the run says so at its end.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

EFFORT: Final = int(os.environ.get("KALENDS_EFFORT", "1"))

steps: Counter[str] = Counter()
"""Steps that were compared with a slow twin, by what was compared."""

operations: Counter[str] = Counter()
"""Operations of histories that were checked for linearizability, by what was operated on."""


def examples(everyday: int) -> int:
    """How many examples to run where `everyday` are enough for every day."""
    return everyday * EFFORT
