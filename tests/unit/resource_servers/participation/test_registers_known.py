"""Sites know of which register a reservation is."""

from __future__ import annotations

import msgspec
from site_agent_support import NEAR, AgentSite, ask, dispatch
from tests.protocol_support import HERE, KEY, Site, prepare, rid, visit, vote, want

from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.scripts import Stop, asked_for
from kalends.resource_servers.participation.claims.claim_sets import decode_stake, stored

OURS = "1" * 32
THEIRS = "2" * 32


def made_by(site: Site, source: str, number: int) -> str:
    site.receive(vote(number, want("one", number * 60, number * 60 + 60)), source)
    stake = site.stake(number)
    assert stake is not None
    return decode_stake(stored(stake, "visit-vote").body).register


def test_what_a_broker_makes_belongs_to_the_register_it_works_for(site: Site) -> None:
    site.receive(m.Welcome(register=OURS), "ours-1")
    site.receive(m.Welcome(register=OURS), "ours-2")
    site.receive(m.Welcome(register=THEIRS), "theirs")
    assert made_by(site, "ours-1", 1) == made_by(site, "ours-2", 2) == OURS
    assert made_by(site, "theirs", 3) == THEIRS


def test_what_is_held_first_and_what_is_granted_in_line_belongs_to_its_register(site: Site) -> None:
    site.receive(m.Welcome(register=OURS), "ours")
    site.receive(m.Welcome(register=THEIRS), "theirs")
    one = want("one", 0, 60)
    site.receive(visit(1, one), "ours")
    site.receive(visit(2, one, queue=True), "theirs")
    site.receive(m.Release(rid=rid(1), att=1), "ours")
    granted = site.stake(2)
    assert granted is not None
    assert granted.register == THEIRS
    site.receive(prepare(2, *site.ids(2)), "theirs")
    site.restart()
    promised = site.stake(2)
    assert promised is not None
    assert (promised.register, promised.has("prepared")) == (THEIRS, True)


def test_a_request_stays_its_registers_when_a_replica_asks_before_it_has_said_who_it_is() -> None:
    """A site that was paused reads a Visit of the new session before the Welcome that was lost."""
    site = Site()
    site.receive(m.Welcome(register=OURS), "ours")
    site.receive(vote(1, want("one", 0, 60)), "ours")
    site.receive(visit(1, want("one", 0, 60), att=2), "another replica")
    held = site.stake(1)
    assert held is not None
    assert (held.att, held.register) == (2, OURS)


def test_what_an_agent_holds_belongs_to_the_register_of_its_broker_near_by_too() -> None:
    asked = asked_for(dispatch(1).starts, (ask("one"),))
    proof = proofs.of_visit(KEY, rid(1), 1, HERE, asked, "1", "ann")
    near = Stop(NEAR, (ask("one"),), proof)
    hub = AgentSite()
    hub.receive(m.Welcome(register=OURS), "ours")
    effects = hub.receive(dispatch(1, ask("one"), near=(near,)), "ours")
    (relay,) = effects.relays
    assert relay.dispatch.register == OURS
    site = AgentSite()
    site.receive(m.Welcome(register=OURS, secret=KEY), "ours")
    site.choose(site.send(msgspec.structs.replace(relay.dispatch, near=()), "visit#1"), [0])
    held = site.stake(1)
    assert held is not None
    assert held.register == OURS
