"""The phases of a job, and the events that lead from one to the next.

========= =====================================================================================
phase     what is going on
========= =====================================================================================
held      it does not take part: its user, the operator, a limit or another job keeps it back
queued    it waits for nodes
kept      it is an offer that nobody has taken yet, and the nodes that it would have are kept idle for it
starting  it has nodes, and a shepherd has been asked to start it; nothing of it may run yet
running   its shepherd has begun: from here on this attempt is never started again
changing  it was asked to run on another number of nodes
stopping  it was asked to stop for another job, and its nodes are its own until all of it stands still
stopped   all of it stands still, it has no nodes, and it waits for some to go on
ending    it was told to end, and what nodes it has are its own until all of it is gone
ended     all of it is gone, and how it ended is known
lost      its shepherd died with it: it may have run, wholly or in part
withdrawn it never ran, and never will
========= =====================================================================================

A node is free again when the job that has it is told to have ended, been lost or never begun; no clock
says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from kalends.core.errors import IllegalEvent

JobPhase = Literal[
    "held", "queued", "kept", "starting", "running", "changing", "stopping", "stopped", "ending",
    "ended", "lost", "withdrawn",
]  # fmt: skip

JobEvent = Literal[
    "hold", "release", "keep", "start", "begun", "void", "ask", "changed", "stop", "stopped", "go on", "kill",
    "ended", "lost", "requeue", "withdraw",
]  # fmt: skip

_GONE: Final[dict[JobEvent, JobPhase]] = {"ended": "ended", "lost": "lost"}

NEXT_PHASE: Final[Mapping[JobPhase, Mapping[JobEvent, JobPhase]]] = {
    "held": {"release": "queued", "withdraw": "withdrawn"},
    "queued": {"start": "starting", "keep": "kept", "hold": "held", "withdraw": "withdrawn"},
    "kept": {"start": "starting", "requeue": "held", "withdraw": "withdrawn"},
    "starting": {
        "begun": "running",
        "void": "starting",
        "requeue": "held",
        "stop": "stopping",
        "kill": "ending",
        **_GONE,
    },
    "running": {"ask": "changing", "stop": "stopping", "kill": "ending", **_GONE},
    "changing": {"changed": "running", "kill": "ending", **_GONE},
    "stopping": {
        "begun": "stopping",
        "stopped": "stopped",
        "go on": "running",
        "requeue": "held",
        "kill": "ending",
        **_GONE,
    },
    "stopped": {"go on": "running", "kill": "ending", **_GONE},
    "ending": {
        "begun": "ending",
        "kill": "ending",
        "void": "withdrawn",
        "requeue": "held",
        **_GONE,
    },
    "ended": {"requeue": "held"},
    "lost": {"requeue": "held"},
    "withdrawn": {},
}

OVER: Final[frozenset[JobPhase]] = frozenset({"ended", "lost", "withdrawn"})
"""A job in one of these has no nodes, and does nothing any more."""

ON_NODES: Final[frozenset[JobPhase]] = frozenset(
    {"kept", "starting", "running", "changing", "stopping", "ending"}
)
"""A job in one of these has nodes; one that is ending has none if it was stopped."""

UNDER_WAY: Final[frozenset[JobPhase]] = frozenset(
    {"starting", "running", "changing", "stopping", "stopped", "ending"}
)
"""A job in one of these has an attempt that is not over."""


def next_phase(phase: JobPhase, event: JobEvent) -> JobPhase:
    """Return where `event` leads; raises `IllegalEvent` where the table has no such event."""
    try:
        return NEXT_PHASE[phase][event]
    except KeyError:
        raise IllegalEvent(f"a job that is {phase} cannot take the event {event}") from None
