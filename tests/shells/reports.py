"""What came of a play: whether all promises were kept, and where not, how to see it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.support.source import commit


class Report(NamedTuple):
    """One play. `broken` is "" when every promise was kept; else `tail` and `logs` tell the end of it."""

    name: str
    seed: int
    mutation: str = ""
    broken: str = ""
    trace_hash: str = ""
    events: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    judged: dict[str, int] = {}
    """What was checked, and how often."""
    tail: Sequence[str] = ()
    logs: dict[str, Sequence[str]] = {}

    def complaint(self) -> str:
        """What broke, the last of what happened, and how to replay it."""
        mutated = f" --mutation {self.mutation}" if self.mutation else ""
        logs = [f"-- log of {name}\n" + "\n".join(lines) for name, lines in self.logs.items()]
        return "\n".join(
            (
                f"{self.name}, seed {self.seed}: {self.broken}",
                "-- the end of the trace",
                *self.tail,
                *logs,
                f"commit: {commit()}",
                f"replay: python -m tests.shells {self.name} {self.seed}{mutated} --trace FILE",
            )
        )
