"""A queue that decides nothing: it hands every job over to a batch system, which alone says when it starts.

So there are places for all jobs at once, and a job has its place as soon as nothing of its user's or of the
owner's limits keeps it back. Nothing of that is in the calendar.
"""

from __future__ import annotations

from typing import Final

from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest

PLACES: Final = limits.UNITS_MAX
"""Nodes of all jobs that are under way together."""

STAY_S: Final = 10 * limits.DURATION_S_MAX
"""For how long a job is expected to have its place: nobody knows."""


def check_handed_over(request: JobRequest, system: str) -> None:
    """Raise `InvalidInput` for what cannot be asked for where `system` decides."""
    for field, asked, why in (
        ("reservation", request.reservation, "it makes no reservations"),
        ("at", request.at, "it makes no reservations, so no start can be fixed"),
        ("terminal", request.terminal, "its jobs have no terminal here"),
        ("sizes", len(request.sizes) > 1, "its jobs have a fixed number of nodes"),
        ("shape", request.shape, "it chooses the nodes"),
        ("rerun", request.rerun, "the fate of a lost job is not known for certain"),
        ("warning", request.warning, "it ends jobs at their limit in its own way"),
    ):
        if asked:
            raise InvalidInput(
                f"{system} alone decides about the jobs of this machine, and {why}",
                where=field,
                remedy=f"submit the job without it: kalends submit {request.machine}",
            )
