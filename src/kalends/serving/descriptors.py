"""File descriptors of the process, and how many of them connections may take."""

from __future__ import annotations

import resource
from typing import Final

CONNECTIONS_MAX: Final = 4_096
"""Several for each of the thousand sessions; idle ones beyond it would only cost memory."""

DESCRIPTORS_MAX: Final = 65_536
"""The maximum that is requested of the system, because nothing here would use more."""


def raise_descriptors() -> int:
    """Raise the soft limit of descriptors to the hard one, and return the new limit.

    The soft limit is kept low for programs that use select(2); no kalends server does (systemd.exec(5),
    `LimitNOFILE`).
    """
    soft, hard = (_bounded(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if soft < hard:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
    return max(soft, hard)


def for_connections(descriptors: int, servers: int) -> int:
    """Return how many connections each of `servers` may have in a process with `descriptors`.

    A quarter stays for other uses: stores, links to other owners' servers, sandboxes of agents.
    """
    return max(1, min(CONNECTIONS_MAX, (descriptors - descriptors // 4) // servers))


def _bounded(limit: int) -> int:
    return DESCRIPTORS_MAX if limit == resource.RLIM_INFINITY else min(limit, DESCRIPTORS_MAX)
