"""For tests: plays scenarios in processes of their own, and says what broke and how to see it again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.support.source import commit

SHOWS_AT: Final = {
    "a_cancelled_place_leaves_its_job": 13,
    "a_late_bid_wins": 3,
    "rests_never_end": 23,
    "jobs_are_placed_before_the_vote": 23,
    "a_site_that_was_left_may_start": 6,
    "a_moved_job_runs_on_where_it_was": 3,
    "ends_of_moved_jobs_are_not_written_down": 2,
    "free_nodes_are_promised_for_now": 3,
    "every_attempt_makes_new_places": 5,
    "kills_are_forgotten_at_a_restart": 45,
    "nobody_waits_for_the_forgotten_to_end": 5,
    "what_began_since_the_copy_is_overlooked": 6,
    "wake_up_lost_on_reconnect": 33,
    "jobs_start_before_they_are_stored": 8,
    "queues_hear_of_no_reservations": 5,
}
"""A seed that shows a mutation, where the first few do not: it is tried first."""


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


def plays(
    name: str,
    first: int,
    last: int,
    *,
    mutation: str = "",
    hash_seed: int = 0,
    until_broken: bool = False,
) -> list[Report]:
    """Reports of the seeds from `first` to `last`; `hash_seed` orders the sets of that process."""
    command = [sys.executable, "-m", "tests.shells", name, str(first), str(last), "--json"]
    if mutation:
        command += ["--mutation", mutation]
    if until_broken:
        command += ["--until-broken"]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    reports = [Report(**json.loads(line)) for line in done.stdout.splitlines()]
    assert reports, f"{command} says: {done.stderr}"
    return reports


def check(name: str, seeds: int) -> None:
    """Every promise of the scenario is kept for the seeds from 1 to `seeds`."""
    last = plays(name, 1, seeds, until_broken=True)[-1]
    assert not last.broken, last.complaint()


def seeds_to_catch(name: str, mutation: str, seeds: int) -> int | None:
    """A seed up to `seeds` whose scenario breaks a promise with `mutation`; None when none does."""
    first = SHOWS_AT.get(mutation, 1)
    if plays(name, first, first, mutation=mutation)[0].broken:
        return first
    last = plays(name, 1, seeds, mutation=mutation, until_broken=True)[-1]
    return last.seed if last.broken else None


def names() -> list[str]:
    """All scenarios that are short, by name."""
    command = [sys.executable, "-m", "tests.shells", "--names"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()
