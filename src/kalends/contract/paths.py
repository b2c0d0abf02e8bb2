"""Where servers have sessions with each other, members of virtual sites are reached, and managers asked."""

from __future__ import annotations

from typing import Final

SESSION_PATH: Final = "/v1/session"
"""Of a broker with a site."""

MEMBERS_PATH: Final = "/v1/members"
REFER_PATH: Final = "/v1/refer"

WAY_HEADER: Final = "Kalends-Way"
"""The virtual sites that something has come through, the first one first."""

WHY_HEADER: Final = "Kalends-Why"
"""Why a session was refused, in words: who asked for one reads no body."""


def member_url(url: str, way: str) -> str:
    """Return the address of a member of the virtual site at `url`."""
    return url.rstrip("/") + "".join(f"{MEMBERS_PATH}/{name}" for name in way.split("/"))
