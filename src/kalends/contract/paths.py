"""Paths of sessions and questions of servers, of members of virtual sites, and of their managers."""

from __future__ import annotations

import re
from typing import Final

from kalends.core.identifiers import NAME_PATTERN
from kalends.core.limits import NESTED_MAX

SESSION_PATH: Final = "/v1/session"
"""The path of a broker's session with a site."""

INQUIRE_PATH: Final = "/v1/inquire"
START_PATH: Final = "/v1/start"
"""The paths of sites' questions to brokers: what was decided, and whether a job may start."""

PEERS_PATH: Final = "/v1/peers"
VISITS_PATH: Final = "/v1/visits"
"""The paths between sites: questions of what was decided, and agents' visits that are passed on."""

OPENAPI_PATH: Final = "/v1/openapi.json"
CALLS_PATH: Final = "/v1/calls"
"""The paths of a server's description, and of a client's session."""

LINKS_PATH: Final = "/shared"
"""The path of guest links, each below it by the secret in its address."""

FEEDS_PATH: Final = "/feed"
"""The path of calendar feeds, each below it by the secret in its address."""

MEMBERS_PATH: Final = "/v1/members"
REFER_PATH: Final = "/v1/refer"
SPLIT_PATH: Final = "/v1/split"

WAY_HEADER: Final = "Kalends-Way"
"""The header with the virtual sites on the way, the first one first."""

WHY_HEADER: Final = "Kalends-Why"
"""The header with the reason why a session was refused, because its client reads no body."""


_NAME: Final = re.compile(NAME_PATTERN)


def way_in(header: str) -> tuple[str, ...]:
    """Return the virtual sites in `WAY_HEADER`; none if it is not a valid list."""
    names = tuple(each.strip() for each in header.split(",")) if header else ()
    return names if len(names) <= NESTED_MAX and all(map(_NAME.fullmatch, names)) else ()


def member_url(url: str, way: str) -> str:
    """Return the address of a member of the virtual site at `url`."""
    return url.rstrip("/") + "".join(f"{MEMBERS_PATH}/{name}" for name in way.split("/"))
