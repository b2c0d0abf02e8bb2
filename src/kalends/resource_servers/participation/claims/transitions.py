"""Every state a claim can be in at a site, and every event that may move it: the whole table.

A claim is units of one resource for one interval on behalf of one request. `held` is soft: it
expires and can be recalled. `intended` waits until a batch system has granted it: it has voted for
nothing, so it ends without proof, but nobody recalls it. `prepared` is a promise: nothing but the
register's outcome, or proof of it, ends it. `locked` is the reservation. `queued` holds nothing: it has
a place in the resource's line, by its stamp, until it is granted or not renewed any more. (A waiting
list is joined by a request and not by a claim: see `waiting` in
`kalends.broker.coordination.phases`.)

======== ============= ================================================================
state    shown as      durable
======== ============= ================================================================
absent   available     -
queued   available     no
held     held          no: a restart loses it, the broker sees the new epoch
intended held          no; but its grant is, and is released after a restart
prepared held          yes, before the vote leaves
locked   locked        yes, before Done leaves
cancelled available    yes, kept until the slot has ended so that late repeats are answered
replaced available     yes, as cancelled: a move, extend or shrink took its place
======== ============= ================================================================
"""

from __future__ import annotations

from typing import Final, Literal

from kalends.core.errors import IllegalEvent

ClaimState = Literal[
    "absent", "queued", "held", "intended", "prepared", "locked", "cancelled", "replaced"
]
ClaimEvent = Literal[
    "visit-hold",  # a Visit that only holds
    "visit-vote",  # a Visit that promises at once
    "visit-newer",  # a Visit or proof of a higher attempt: the lower one is dead
    "prepare",
    "intend",  # it would be promised, and a batch system has to grant it first
    "granted",  # the batch system was seen to have just that
    "not-granted",  # it has refused, or has not answered
    "give",  # the holder answers a recall by giving back
    "recall-timeout",  # the holder did not answer a recall
    "expiry",
    "release",
    "commit-chosen",  # Decide, Outcome or a locked peer says commit, and names this claim
    "commit-other",  # as above, but other claims were chosen
    "abort",  # Decide, Outcome, or enough durable refusals of peers
    "cancel",
    "replace",  # the request that replaces this one was committed
    "queue",  # a Visit that holds, where others are before it or hold the slot
    "grant",  # its turn in line has come, and there is room
    "slot-end",
]

TRANSITIONS: Final[dict[tuple[ClaimState, ClaimEvent], ClaimState]] = {
    ("absent", "visit-hold"): "held",
    ("absent", "visit-vote"): "prepared",
    ("absent", "intend"): "intended",
    ("absent", "queue"): "queued",
    ("queued", "grant"): "held",
    ("queued", "release"): "absent",
    ("queued", "expiry"): "absent",
    ("held", "visit-hold"): "held",
    ("held", "visit-vote"): "prepared",
    ("held", "visit-newer"): "held",
    ("held", "prepare"): "prepared",
    ("held", "intend"): "intended",
    ("held", "give"): "queued",
    ("held", "recall-timeout"): "queued",
    ("held", "expiry"): "absent",
    ("held", "release"): "absent",
    ("held", "commit-other"): "absent",
    ("held", "abort"): "absent",
    ("intended", "granted"): "prepared",
    ("intended", "not-granted"): "absent",
    ("intended", "visit-newer"): "held",
    ("intended", "release"): "absent",
    ("intended", "expiry"): "absent",
    ("intended", "abort"): "absent",
    ("prepared", "visit-newer"): "held",
    ("prepared", "prepare"): "prepared",
    ("prepared", "visit-vote"): "prepared",
    ("prepared", "commit-chosen"): "locked",
    ("prepared", "commit-other"): "absent",
    ("prepared", "abort"): "absent",
    ("locked", "commit-chosen"): "locked",
    ("locked", "cancel"): "cancelled",
    ("locked", "replace"): "replaced",
    ("locked", "slot-end"): "absent",
    ("cancelled", "cancel"): "cancelled",
    ("cancelled", "slot-end"): "absent",
    ("replaced", "slot-end"): "absent",
}

DURABLE: Final[frozenset[ClaimState]] = frozenset({"prepared", "locked", "cancelled", "replaced"})


def next_state(state: ClaimState, event: ClaimEvent) -> ClaimState:
    """Where `event` takes a claim in `state`; raises `IllegalEvent` when the table has no row."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalEvent(f"a site's claim that is {state} cannot take {event}") from None
