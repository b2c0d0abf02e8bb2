"""The call for the jobs that a reservation of nodes would delay, and its answer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.job_calls import MachineName
from kalends.core import limits


class FindDelays(Body, frozen=True, kw_only=True):
    """Which waiting jobs a reservation of `nodes` nodes for `length_s` would delay, at each of `starts`."""

    machine: MachineName
    nodes: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)]
    length_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]
    starts: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)], ...],
        Meta(min_length=1, max_length=limits.PRICED_STARTS_MAX),
    ]


class DelayedJob(Answer, frozen=True, kw_only=True):
    """A job of the caller's own that would start `later_s` later."""

    job: int
    later_s: int


class StartDelays(Answer, frozen=True, kw_only=True):
    """The delays by a reservation at `start`: the number of `jobs`, and the longest delay, `longest_s`.

    -1 jobs: the reservation does not fit there. `own` are the caller's jobs.
    """

    start: int
    jobs: int = 0
    longest_s: int = 0
    own: tuple[DelayedJob, ...] = ()


class MachineDelays(Answer, frozen=True, kw_only=True):
    """Delays as of `made_at`, if all jobs run to their limits and no more are submitted."""

    made_at: int
    starts: tuple[StartDelays, ...]
