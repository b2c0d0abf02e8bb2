"""The phases of a request at its broker, and the events that lead from one to the next.

========== ======================================== ============================================
phase      what is going on                         left by
========== ======================================== ============================================
looking    sites were asked what is free            all views, or the time to look is over
touring    sites hold what an agent chooses there   all reports, or the time to vote is over
bidding    sites hold places in queues for a job;   enough bids, or the time to bid is over
           where all are away, they are waited for
voting     slots were asked for, promised at once   all yes, a no, or the time to vote is over
holding    slots were asked for, to be held; where  all held, a no, or the time is over
           others hold them it waits in line
held       all held, the user considers             lock, release, the end of the hold
asking     all held, owners are to approve it       all approved, a no, the time is over, or a hold
           before it is promised                    is lost
waiting    on waiting lists, holding nothing; or    something has come free, a site may answer,
           a site is away or silent                 the deadline
preparing  holds are to be promised                 all yes, a no, or the time to vote is over
committing the register is asked to commit          its answer
raising    the register is asked for a new attempt  its answer
closing    the register is asked to close           its answer
telling    committed; sites are told until done     all Done
cancelling cancelled; sites are told until done     all Done
========== ======================================== ============================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Phase = Literal[
    "new", "looking", "touring", "bidding", "voting", "holding", "held", "asking", "waiting", "preparing",
    "committing", "raising", "closing", "telling", "cancelling", "over",
]  # fmt: skip

ASKED_PHASES: Final = ("touring", "bidding", "voting", "holding", "held", "asking", "preparing")
"""An attempt is under way at sites."""

OPEN_PHASES: Final = ("looking", "waiting", *ASKED_PHASES)
"""Undecided, and no answer of the register is on its way that would tell of another owner."""

PATIENT_PHASES: Final = ("waiting", "holding", "asking")
"""Nothing that is asked of the register stands between these and their next step."""

QUIET_PHASES: Final = ("held", "asking", "waiting")
"""Only a hold or a wait is left."""

PhaseEvent = Literal[
    "look", "tour", "solicit", "vote", "hold", "list", "keep", "ask", "lock", "decide", "retry", "failed",
    "released", "expired", "committed", "cancelled", "end",
]  # fmt: skip

EndKind = Literal["failed", "released", "expired"]
"""How a request ends that is not committed."""

_CLOSED: Final[dict[PhaseEvent, Phase]] = {"failed": "closing", "released": "closing"}
_HELD: Final[dict[PhaseEvent, Phase]] = {"keep": "held", "ask": "asking", "lock": "preparing"}

NEXT_PHASE: Final[Mapping[Phase, Mapping[PhaseEvent, Phase]]] = {
    "new": {
        "look": "looking",
        "tour": "touring",
        "solicit": "bidding",
        "vote": "voting",
        "hold": "holding",
        "list": "waiting",
        "retry": "raising",
        **_CLOSED,
        "committed": "telling",
        "end": "over",
    },
    "looking": {"vote": "voting", "hold": "holding", "list": "waiting", **_CLOSED, "end": "over"},
    "touring": {**_HELD, "retry": "raising", **_CLOSED, "end": "over"},
    "bidding": {
        "solicit": "bidding",
        "lock": "preparing",
        "retry": "raising",
        **_CLOSED,
        "end": "over",
    },
    "voting": {"decide": "committing", "retry": "raising", "failed": "closing", "end": "over"},
    "holding": {**_HELD, "retry": "raising", **_CLOSED, "end": "over"},
    "held": {
        "ask": "asking",
        "lock": "preparing",
        "retry": "raising",
        **_CLOSED,
        "expired": "closing",
        "end": "over",
    },
    "asking": {
        "hold": "holding",
        "lock": "preparing",
        "retry": "raising",
        **_CLOSED,
        "expired": "closing",
        "end": "over",
    },
    "waiting": {
        "look": "looking",
        "tour": "touring",
        "vote": "voting",
        "hold": "holding",
        **_CLOSED,
        "expired": "closing",
        "end": "over",
    },
    "preparing": {"decide": "committing", "retry": "raising", "failed": "closing", "end": "over"},
    "committing": {"committed": "telling", "failed": "closing", "end": "over"},
    "raising": {
        "look": "looking",
        "tour": "touring",
        "solicit": "bidding",
        "hold": "holding",
        "list": "waiting",
        **_CLOSED,
        "expired": "closing",
        "end": "over",
    },
    "closing": {"end": "over"},
    "telling": {"cancelled": "cancelling", "end": "over"},
    "cancelling": {"end": "over"},
    "over": {},
}
