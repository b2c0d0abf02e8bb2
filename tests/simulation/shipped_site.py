"""The shipped site of simulated worlds, and how a test puts a broken part into it."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.participant import Participant, PartTypes
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs

SHIPPED: Final = partial(Participant, consent=OwnerApproval, wings=(PlacedJobs,))


def site_with(**parts: Any) -> partial[Participant]:
    """Return what makes a site with other kernel parts, by the names of `PartTypes`."""
    return partial(SHIPPED, types=PartTypes(**parts))
