"""What a reservation of nodes would delay: the call, and its answer."""

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
    """What a reservation at `start` would delay: so many `jobs`, the worst by `longest_s`.

    -1 jobs: it has no room there. `own` are those of the caller.
    """

    start: int
    jobs: int = 0
    longest_s: int = 0
    own: tuple[DelayedJob, ...] = ()


class MachineDelays(Answer, frozen=True, kw_only=True):
    """As things stood at `made_at`, if all run as long as they asked for, and nobody else comes."""

    made_at: int
    starts: tuple[StartDelays, ...]
