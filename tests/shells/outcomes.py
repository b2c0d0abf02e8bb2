"""How much of each outcome must have come of a play: one in which nothing happens proves nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tests.shells.facility import Facility
from tests.shells.scenarios import Broken


def must_have_happened(facility: Facility, least: Mapping[str, int]) -> None:
    """Raise `Broken` where less than the `least` was counted of an outcome."""
    rare = {
        outcome: facility.counts[outcome]
        for outcome, count in least.items()
        if facility.counts[outcome] < count
    }
    if rare:
        raise Broken(f"too little has happened: {rare}, and {dict(least)} must")
