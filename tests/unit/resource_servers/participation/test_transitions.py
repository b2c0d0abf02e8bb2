"""The table of a claim's states at a site is the only way from one to another."""

from __future__ import annotations

import pytest
from tests.protocol_support import T0

from kalends.core.errors import IllegalEvent
from kalends.resource_servers.participation.claims.claim_sets import Claim
from kalends.resource_servers.participation.claims.transitions import (
    TRANSITIONS,
    ClaimEvent,
    ClaimState,
    next_state,
)

STATES: tuple[ClaimState, ...] = (
    "absent", "queued", "held", "intended", "prepared", "locked", "cancelled", "replaced",
)  # fmt: skip
EVENTS: tuple[ClaimEvent, ...] = (
    "visit-hold", "visit-vote", "visit-newer", "prepare", "give", "recall-timeout", "expiry",
    "release", "commit-chosen", "commit-other", "abort", "cancel", "replace", "queue", "grant",
    "slot-end", "intend", "granted", "not-granted",
)  # fmt: skip


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", EVENTS)
def test_a_claim_moves_by_the_table_or_stays_as_it_was(
    state: ClaimState, event: ClaimEvent
) -> None:
    claim = Claim(1, "here/one", T0, T0 + 60, 1, state)
    if (state, event) in TRANSITIONS:
        claim.move(event)
        assert claim.state == TRANSITIONS[state, event] == next_state(state, event)
    else:
        with pytest.raises(IllegalEvent, match=f"{state} cannot take {event}"):
            claim.move(event)
        assert claim.state == state


def test_the_table_names_only_states_and_events_that_there_are() -> None:
    for (state, event), after in TRANSITIONS.items():
        assert state in STATES
        assert after in STATES
        assert event in EVENTS


def test_a_promise_is_ended_by_nothing_but_an_outcome_or_proof_of_it() -> None:
    ends = {event for (state, event), after in TRANSITIONS.items()
            if state == "prepared" and after != "prepared"}  # fmt: skip
    assert ends == {"visit-newer", "commit-chosen", "commit-other", "abort"}


def test_what_a_batch_system_is_asked_for_ends_without_proof_and_is_promised_only_when_granted() -> (
    None
):
    ways = {event: after for (state, event), after in TRANSITIONS.items() if state == "intended"}
    assert {event for event, after in ways.items() if after == "prepared"} == {"granted"}
    assert {event for event, after in ways.items() if after == "absent"} == {
        "not-granted", "release", "expiry", "abort"
    }  # fmt: skip
    assert not {"give", "recall-timeout"} & ways.keys()
