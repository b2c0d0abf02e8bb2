"""A reservation at a site belongs to the register that made it; nobody else moves, ends or sees it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from site_agent_support import AgentSite, ask, dispatch
from tests.protocol_support import (
    ANN,
    BOB,
    HERE,
    KEY,
    PARTS,
    REGISTER,
    Site,
    chosen,
    commit,
    list_up,
    lock,
    peer_ask,
    peer_says,
    rid,
    secret_of,
    told,
    visit,
    vote,
    want,
)

from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.errors import NotAllowed, RefusalCode
from kalends.core.principals import Principal, VouchedNames
from kalends.core.scripts import Starts, asked_for
from kalends.resource_servers.participation.registers import Badge, Registers

ROGUE = "d0e" + "0" * 29
OTHER_KEY = proofs.site_key("of the rogue", HERE)
ONE = want("one", 0, 60)
TWO = want("two", 0, 60)


def with_rogue(site: Site) -> Site:
    """Another broker that the owner trusts, too."""
    site.receive(m.Welcome(register=ROGUE, secret=OTHER_KEY), "rogue")
    return site


def about(number: int, att: int = 1) -> list[m.Message]:
    """Everything that a broker can say about a request."""
    first = rid(number)
    ids = (1,)
    return [
        m.Cancel(rid=first, att=att),
        m.Decide(rid=first, att=att, outcome="abort"),
        m.Decide(rid=first, att=att, outcome="commit", chosen=chosen(*ids)),
        m.Outcome(rid=first, att=att, outcome="abort"),
        m.Outcome(rid=first, att=att, outcome="commit", chosen=chosen(*ids)),
        m.Prepare(rid=first, att=att, hold_ids=ids, parts=PARTS, need=2),
        m.Release(rid=first, att=att),
        m.Renew(rid=first, att=att, hold_ids=ids, hold_ms=60_000),
        m.Give(rid=first, att=att, hold_ids=ids),
        m.Forget(rid=first, att=att),
        visit(number, TWO, att=att),
        vote(number, TWO, att=att),
        list_up(number, TWO, att=att),
        dispatch(number, ask("two"), att=att),
    ]


def said_by_a_rogue(number: int) -> list[m.Message]:
    """With the true secret, which only a session could betray; with its own; and with a guess."""
    return [
        replace(message, secret=secret)  # type: ignore[type-var]  # each is a struct with a secret
        for att in (1, 2, 999_999)
        for message in about(number, att)
        for secret in (
            secret_of(rid(number)),
            proofs.of_request(OTHER_KEY, rid(number)),
            "a guess of a secret",
        )
    ]


def everything(site: Site) -> dict[str, bytes]:
    return dict(site.stored)


@pytest.mark.parametrize("state", ["held", "prepared", "locked"])
def test_no_other_register_moves_or_ends_a_claim_whatever_it_says(state: str) -> None:
    site = with_rogue(AgentSite())
    if state == "locked":
        lock(site, 1, ONE)
    else:
        site.receive(visit(1, ONE, mode="hold" if state == "held" else "vote"))
    assert site.states(1) == [state]
    before = everything(site)
    for message in said_by_a_rogue(1):
        effects = site.receive(message, "rogue")
        assert effects.sends == []
        assert effects.facts == []
        assert effects.alarms
    assert site.states(1) == [state]
    assert everything(site) == before


def test_a_place_in_line_is_its_registers_own() -> None:
    site = with_rogue(Site())
    site.receive(visit(1, ONE))
    site.receive(visit(2, ONE, queue=True))
    for message in said_by_a_rogue(2):
        if message.secret != secret_of(rid(2)):  # type: ignore[attr-defined]  # all have one
            assert site.receive(message, "rogue").sends == []
    site.receive(m.Release(rid=rid(1), att=1))
    assert site.states(2) == ["held"]


def test_the_right_register_proves_each_message_by_the_secret_too(site: Site) -> None:
    lock(site, 1, ONE)
    for message in about(1):
        guessed = replace(message, secret="a guess of a secret")  # type: ignore[type-var]  # a struct
        assert site.receive(guessed).sends == []
    assert site.states(1) == ["locked"]
    assert site.receive(m.Cancel(rid=rid(1), att=1)).sends
    assert site.states(1) == ["cancelled"]


def test_nobody_replaces_what_another_register_has_made() -> None:
    site = with_rogue(Site())
    lock(site, 1, ONE)
    mine = replace(vote(2, ONE, replaces=1), secret=proofs.of_request(OTHER_KEY, rid(2)))
    (visited,) = told(site.receive(mine, "rogue"), m.Visited)
    assert visited.vote == "no"
    assert site.states(1) == ["locked"]


def test_a_broker_is_shown_whose_a_slot_is_only_where_it_is_its_own() -> None:
    site = with_rogue(Site())
    lock(site, 1, ONE)
    query = m.Query(query_id=1, principal=ANN, wants=(ONE,), detail=True)
    for source, shown in (("broker", ("ann", rid(1))), ("rogue", ("", ""))):
        view = site.answer(query, source)
        assert isinstance(view, m.View)
        ((slot,),) = (of_one.slots for of_one in view.views)
        assert (slot.holder, slot.reservation) == shown
    foreign = replace(query, detail=False, replaces=rid(1))
    view = site.answer(foreign, "rogue")
    assert isinstance(view, m.View)
    assert view.views[0].steps == ()


def test_a_request_without_a_register_is_that_of_the_broker_that_knows_its_secret() -> None:
    """A session may ask before its Welcome; once it has said for whom it speaks, that register has it."""
    site = with_rogue(Site())
    lock(site, 1, ONE)
    stake = site.participant.book.stakes[rid(1)]
    stake.register, stake.secret = "", "the secret of old times"
    for secret in ("a guess of a secret", proofs.of_request(OTHER_KEY, rid(1))):
        site.receive(m.Cancel(rid=rid(1), att=1, secret=secret), "rogue")
    assert site.states(1) == ["locked"]
    site.receive(m.Cancel(rid=rid(1), att=1, secret="the secret of old times"))
    assert site.states(1) == ["cancelled"]
    assert stake.register == REGISTER


# Names and keys


def welcome(register: str = REGISTER) -> m.Welcome:
    return m.Welcome(register=register, secret=KEY)


def test_a_register_is_its_keys_who_came_first() -> None:
    registers = Registers()
    registers.admit("npaci-1", welcome(), Badge("one key"))
    with pytest.raises(NotAllowed, match="another key"):
        registers.admit("evil-1", welcome(), Badge("another key"))
    assert registers.of("evil-1") == ""


def test_a_brokers_name_is_its_keys_who_came_first() -> None:
    registers = Registers()
    registers.admit("npaci-1", welcome(), Badge("one key"))
    with pytest.raises(NotAllowed, match="npaci-1"):
        registers.admit("npaci-1", welcome(ROGUE), Badge("another key"))


def test_what_is_bound_stays_bound_after_a_restart() -> None:
    first = Registers()
    stored = first.admit("npaci-1", welcome(), Badge("one key"))
    assert stored is not None
    again = Registers([stored])
    assert again.secret(REGISTER) == KEY
    for name, register in (("npaci-1", ROGUE), ("evil-1", REGISTER)):
        with pytest.raises(NotAllowed):
            again.admit(name, welcome(register), Badge("another key"))


def test_the_owner_gives_a_brokers_name_and_registers_to_a_new_key_by_listing_it() -> None:
    registers = Registers()
    registers.admit("npaci-1", welcome(), Badge("old key"))
    moved = registers.admit(
        "npaci-1", welcome(), Badge("new key", VouchedNames(brokers=("npaci",)))
    )
    assert moved is not None
    assert moved.key == "new key"
    with pytest.raises(NotAllowed):
        registers.admit("npaci-1", welcome(), Badge("old key"))


def test_a_key_with_listed_names_speaks_as_no_other_and_takes_no_other_register() -> None:
    registers = Registers()
    registers.admit("npaci-1", welcome(), Badge("one key"))
    evil = Badge("another key", VouchedNames(brokers=("evil",)))
    for name, register in (("npaci-1", ROGUE), ("npaci", ROGUE), ("evil-1", REGISTER)):
        with pytest.raises(NotAllowed):
            registers.admit(name, welcome(register), evil)
    assert registers.admit("evil-1", welcome(ROGUE), evil) is not None


def test_a_key_does_not_fill_the_store_with_registers() -> None:
    registers = Registers()
    for number in range(64):
        registers.admit(f"evil-{number}", welcome(f"{number:032x}"), Badge("a key"))
    with pytest.raises(NotAllowed, match="the maximum"):
        registers.admit("evil-x", welcome("f" * 32), Badge("a key"))


def test_a_key_speaks_only_for_users_and_groups_that_its_owner_lists(site: Site) -> None:
    badge = Badge("a key", VouchedNames(("b*",), ("staff",)))
    site.participant.welcome("campus", m.Welcome(register=ROGUE, secret=OTHER_KEY), badge)
    for number, principal in enumerate((ANN, Principal("bob", ("root",)))):
        asked = [
            replace(each, secret=proofs.of_request(OTHER_KEY, rid(number)))
            for each in (
                visit(number, ONE, principal=principal),
                list_up(number, ONE, principal=principal),
                dispatch(number, ask("one"), principal=principal),
            )
        ]
        for message in asked:
            answer = site.answer(message, "campus")
            assert RefusalCode.NOT_ALLOWED in repr(answer)
        query = m.Query(query_id=1, principal=principal, wants=(ONE,), detail=True)
        view = site.answer(query, "campus")
        assert isinstance(view, m.View)
        assert view.views[0].refusal is not None
        assert view.views[0].steps == ()
    assert site.participant.book.stakes == {}
    mine = replace(
        visit(5, ONE, principal=replace(BOB, groups=("staff",))),
        secret=proofs.of_request(OTHER_KEY, rid(5)),
    )
    site.receive(mine, "campus")
    assert site.states(5) == ["held"]


# Near sites


def passed_on(att: int = 1, way: str = "there", **changes: object) -> m.Dispatch:
    """A visit that `way` passes on, proved as its broker would have."""
    whole = dispatch(1, ask("one"), att=att)
    secret = proofs.of_visit(
        KEY, rid(1), att, "there", asked_for(whole.starts, whole.asks), str(whole.stamp), "ann"
    )
    return replace(whole, way=way, register=REGISTER, secret=secret, **changes)


def test_a_near_site_passes_on_only_what_a_broker_has_sent_that_way() -> None:
    site = AgentSite()
    for forged in (
        passed_on(way="elsewhere"),
        passed_on(principal=BOB),
        passed_on(stamp=0),
        passed_on(asks=(ask("two"),)),
        passed_on(starts=Starts(first=0, last=0, step_s=1)),
        replace(passed_on(), att=2),
        replace(passed_on(), register=ROGUE),
        replace(passed_on(), secret=secret_of(rid(1), "there")),
    ):
        effects = site.receive(forged, "visit#1")
        assert [type(each) for each in told(effects, m.Stale)] == [m.Stale]
        assert effects.errands == []
    assert site.participant.book.stakes == {}
    assert len(site.receive(passed_on(), "visit#2").errands) == 1


def test_a_near_site_supersedes_nobodys_attempt() -> None:
    site = AgentSite()
    site.receive(vote(1, ONE))
    for att in (1, 2, 1_000):
        forged = replace(passed_on(), att=att, secret="z" * 32)
        site.receive(forged, "visit#1")
        assert site.states(1) == ["prepared"]


# Peers and strangers


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": "x" * 32},
        {"site": "elsewhere"},
        {"register": ROGUE},
        {"register": ""},
        {"rid": rid(2)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_question_without_proof_leaves_and_reveals_nothing(changes: dict[str, str]) -> None:
    for known in (False, True):
        site = Site()
        if known:
            site.receive(vote(1, ONE))
        before = everything(site)
        effects = site.receive(replace(peer_ask(1), **changes))
        assert not effects
        assert everything(site) == before
        assert rid(2) not in site.participant.book.stakes


def test_a_peer_cannot_make_a_commit_up(site: Site) -> None:
    site.receive(vote(1, ONE))
    for proof in ("", "x" * 32, secret_of(rid(1))):
        forged = replace(peer_says(1, "locked", *site.ids(1)), proofs={"here": proof})
        assert site.receive(forged).alarms
        assert site.states(1) == ["prepared"]
    site.receive(peer_says(1, "locked", *site.ids(1)))
    assert site.states(1) == ["locked"]


def test_who_heard_of_a_commit_from_a_peer_can_prove_it_to_the_next(site: Site) -> None:
    site.receive(vote(1, ONE))
    says = peer_says(1, "locked", *site.ids(1))
    site.receive(replace(says, proofs={**says.proofs, "x": "for x"}))
    answer = site.answer(peer_ask(1))
    assert isinstance(answer, m.PeerSays)
    assert (answer.says, answer.proofs) == ("locked", {"x": "for x"})


def test_what_proves_a_commit_to_the_others_is_told_to_a_peer_that_asks(site: Site) -> None:
    site.receive(vote(1, ONE))
    decide = replace(commit(1, *site.ids(1)), proofs={"there": "for there", "x": "for x"})
    site.receive(decide)
    site.restart()
    says = site.answer(peer_ask(1))
    assert isinstance(says, m.PeerSays)
    assert (says.says, says.proofs) == ("locked", {"there": "for there", "x": "for x"})
