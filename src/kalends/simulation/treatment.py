"""How jobs of a log are treated: what a queue, a user or a group says of priority and interactive use.

The Standard Workload Format has no field for either; sites kept both in their queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.simulation.classes import KINDS
from kalends.simulation.job import SimulatedJob

RULES_MAX: Final = 10_000
OF: Final = ("queue", "user", "group")
"""What tells jobs apart, as in `KINDS`."""

_RULE: Final = re.compile(r"(queue|user|group):([0-9]{1,9})=(interactive|[0-9]{1,6})")


class Treatment(msgspec.Struct, frozen=True):
    """Priorities, and interactive use, by queue, user or group: ``queue:0=interactive,user:7=3``."""

    priorities: dict[str, dict[int, int]]
    interactive: dict[str, frozenset[int]]

    @classmethod
    def of(cls, text: str) -> Treatment:
        """Return the treatment that `text` names. Raises `InvalidInput` with the rule that cannot be read."""
        rules = text.split(",")
        if len(rules) > RULES_MAX:
            raise InvalidInput(
                f"{len(rules):,} rules", where="treat", remedy=f"give at most {RULES_MAX:,}"
            )
        priorities: dict[str, dict[int, int]] = {}
        interactive: dict[str, frozenset[int]] = {}
        for rule in rules:
            found = _RULE.fullmatch(rule)
            if found is None:
                raise InvalidInput(
                    f"{rule[:40]!r} is not a rule",
                    where="treat",
                    remedy="write queue:N=, user:N= or group:N= and a priority, or interactive, "
                    "such as queue:0=interactive,user:7=3",
                )
            kind, number, said = found[1], int(found[2]), found[3]
            if said == "interactive":
                interactive[kind] = interactive.get(kind, frozenset()) | {number}
            else:
                priorities.setdefault(kind, {})[number] = int(said)
        return cls(priorities, interactive)

    @property
    def lined(self) -> bool:
        """Whether the jobs' lines in the log are needed."""
        return any(KINDS[kind].lined for kind in {*self.priorities, *self.interactive})

    def apply(self, jobs: Iterable[SimulatedJob]) -> Iterator[SimulatedJob]:
        """Yield the jobs, treated so. Of several priorities the user's counts, then the group's.

        Changes the jobs, and keeps none. Raises `InvalidInput` for jobs without the fields of a log.
        """
        named = [kind for kind in OF if kind in self.priorities or kind in self.interactive]
        for job in jobs:
            of = {kind: KINDS[kind].of(job)[0] for kind in named}
            for kind in ("queue", "group", "user"):
                if kind in self.priorities:
                    job.priority = self.priorities[kind].get(of[kind], job.priority)
                if of.get(kind) in self.interactive.get(kind, ()):
                    job.interactive = True
            yield job
