"""The shipped site of simulated worlds, and how a test puts a broken part into it."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kalends.resource_servers.participation.participant import Participant, PartTypes
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.participation.visits.visiting_agents import VisitTypes
from kalends.servers.restored_participant import site_machine

SHIPPED: Final = partial(site_machine, wings=(PlacedJobs,))


def site_with(**parts: Any) -> partial[Participant]:
    """Return what makes a site with other kernel parts, by the names of `PartTypes`."""
    return partial(SHIPPED, types=PartTypes(**parts))


def site_visited(**parts: Any) -> partial[Participant]:
    """Return what makes a site with other parts for agents, by the names of `VisitTypes`."""

    def make(*arguments: Any, visitors: partial[Any], **named: Any) -> Participant:
        return SHIPPED(*arguments, visitors=partial(visitors, types=VisitTypes(**parts)), **named)

    return partial(make)
