"""Treatment of a log's jobs: priority, interactive use and shares by queue, user or group.

The Standard Workload Format has no field for them; sites kept the first two in their queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.simulation.classes import KINDS
from kalends.simulation.job import SimulatedJob

RULES_MAX: Final = 10_000
OF: Final = ("queue", "user", "group")
"""What tells jobs apart, as in `KINDS`."""

_RULE: Final = re.compile(
    r"(queue|user|group):([0-9]{1,9})=(interactive|shares:[1-9][0-9]{0,5}|[0-9]{1,6})"
)


class Treatment(msgspec.Struct, frozen=True):
    """Priorities, interactive use and shares, by queue, user or group: ``queue:0=interactive,user:7=3``.

    ``group:2=shares:3`` lets groups be the accounts that share the machine, and gives this one 3 shares and
    the others 1.
    """

    priorities: dict[str, dict[int, int]]
    interactive: dict[str, frozenset[int]]
    shares: dict[str, dict[int, int]]
    """At most one kind of account has shares."""

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
        shares: dict[str, dict[int, int]] = {}
        for rule in rules:
            found = _RULE.fullmatch(rule)
            if found is None:
                raise InvalidInput(
                    f"{excerpt(rule)!r} is not a rule",
                    where="treat",
                    remedy="write queue:N=, user:N= or group:N= and a priority, interactive or "
                    "shares:N, such as queue:0=interactive,user:7=3,group:2=shares:5",
                )
            kind, number, said = found[1], int(found[2]), found[3]
            if said == "interactive":
                interactive[kind] = interactive.get(kind, frozenset()) | {number}
            elif said.startswith("shares:"):
                shares.setdefault(kind, {})[number] = int(said.removeprefix("shares:"))
            else:
                priorities.setdefault(kind, {})[number] = int(said)
        if len(shares) > 1:
            raise InvalidInput(
                f"shares of a {' and of a '.join(shares)}",
                where="treat",
                remedy="give shares to accounts of one kind",
            )
        return cls(priorities, interactive, shares)

    @property
    def lined(self) -> bool:
        """Whether the jobs' lines in the log are needed."""
        return any(
            KINDS[kind].lined for kind in {*self.priorities, *self.interactive, *self.shares}
        )

    def apply(self, jobs: Iterable[SimulatedJob]) -> Iterator[SimulatedJob]:
        """Yield the jobs, treated so. If several priorities apply, the user's counts, then the group's.

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
            for account, shares in self.shares.items():
                # Who is of none is of one account with all others who are.
                job.account = max(KINDS[account].of(job)[0], 0)
                job.share = shares.get(job.account, 1)
            yield job
