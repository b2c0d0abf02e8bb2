"""Virtual sites at a broker: their managers say whom to ask, and nothing waits for one that says nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.jobs.test_solicitation import ANN, Rig, light_job, offer, voted

from kalends.broker.jobs.parts.site_managers import OwnChoice, Referral
from kalends.broker.jobs.parts.solicitation import BID_MS_MAX, REFERRED_PART
from kalends.broker.planning.directory import Directory
from kalends.contract import messages as m
from kalends.core.resources import ResourceInfo

STRAIGHT = ("a", "b")
MEMBERS = tuple(f"m{number}" for number in range(10))
BELOW = tuple(f"n{number}" for number in range(4))
"""Members of a member: more sites than a job of this weight is worth asking."""

REFERRED_MS = BID_MS_MAX // REFERRED_PART


def rig() -> Rig:
    sites = {site: f"http://{site}" for site in (*STRAIGHT, *MEMBERS, *BELOW)}
    members = {site: ("hall", site) for site in MEMBERS}
    members |= {site: ("hall", f"west/{site}") for site in BELOW}
    return Rig(directory=Directory(sites, members))


@pytest.fixture
def hall() -> Rig:
    return rig()


def asked(sent: Sequence[tuple[str, m.Message]]) -> set[str]:
    return {site for site, message in sent if isinstance(message, m.Solicit)}


def answer(hall: Rig, referral: Referral, ways: Sequence[str] | None) -> set[str]:
    hall.jobs.bids.referred(referral, ways, hall.now)
    return asked(hall.settle())


def test_a_manager_is_asked_how_many_of_its_members_the_broker_would_have_asked(hall: Rig) -> None:
    hall.submit()
    (referral,) = hall.referrals
    question = referral.question
    assert referral.virtual == "hall"
    assert asked(hall.sent) <= set(STRAIGHT)
    assert question.count + len(asked(hall.sent)) == 7
    assert {each.way for each in question.candidates} == {*MEMBERS, *(f"west/{n}" for n in BELOW)}


def test_a_job_runs_where_it_is_reached_through_the_virtual_site_that_is_asked_for() -> None:
    for on, sites in {
        "through=hall": {*MEMBERS, *BELOW},
        "through=west": set(BELOW),
        "through!=west": {*STRAIGHT, *MEMBERS},
        "through!=hall": set(STRAIGHT),
    }.items():
        hall = rig()
        hall.submit(on=on)
        referred = {
            each.way.split("/")[-1] for one in hall.referrals for each in one.question.candidates
        }
        assert referred | asked(hall.sent) <= sites, on
        assert referred or asked(hall.sent) == sites, on


def test_how_a_site_is_reached_is_not_for_it_to_say(hall: Rig) -> None:
    said = ResourceInfo(name="a/m", queue=True, through=("hall",))
    hall.hear("a", m.Hello(site="a", epoch=1, resources=(said,)))
    found = {name: info.through for name, info in hall.directory.resources.items()}
    assert (found["a/m"], found["m0/m"], found["n0/m"]) == ((), ("hall",), ("hall", "west"))


def test_of_a_home_that_is_a_virtual_site_one_of_its_sites_is_always_asked_the_best_that_is_known(
    hall: Rig,
) -> None:
    hall.jobs.bids.experience.bid("n1", 10, 5, hall.now)
    for number in range(8):
        for site in set(BELOW) - {"n1"}:
            hall.jobs.bids.experience.bid(site, 10, 90_000, hall.now)
        spec = light_job(homes=("west",))
        hall.coordinator.calls.submit(
            ANN, f"the-key-{number}", "digest", spec, number + 2, hall.now
        )
        at_once = asked(hall.settle())
        assert at_once & set(BELOW) <= {"n1"}
        assert "n1" in at_once


def test_the_story_tells_through_which_virtual_sites_bids_have_come(hall: Rig) -> None:
    rid = hall.submit(on="site=n2")
    hall.hear("n2", m.Bid(rid=rid, att=1, epoch=1, offers=(offer("n2", 100),)))
    hall.hear("n2", voted(rid))
    assert any(each.startswith("n2/m through hall/west starts by") for each in hall.told), hall.told


def test_those_that_the_manager_names_are_asked_by_the_broker_itself_with_its_own_proofs() -> None:
    hall = rig()
    rid = hall.submit()
    (referral,) = hall.referrals
    ways = ("m3", "west/n2")
    hall.jobs.bids.referred(referral, ways, hall.now)
    sent = dict(hall.settle())
    assert sent.keys() == {"m3", "n2"}
    solicit = sent["n2"]
    assert isinstance(solicit, m.Solicit)
    credentials = hall.jobs.bids.ground.credentials
    assert solicit.secret == credentials.secret(hall.row(rid), "n2")


def test_a_member_that_was_named_may_win(hall: Rig) -> None:
    rid = hall.submit()
    (referral,) = hall.referrals
    answer(hall, referral, ("m3",))
    everybody = {*asked(hall.sent), "m3"}
    sent: list[tuple[str, m.Message]] = []
    for site in everybody:
        bid = m.Bid(rid=rid, att=1, epoch=1, offers=(offer(site, 100 if site == "m3" else 200),))
        sent += hall.hear(site, bid)
    assert [site for site, each in sent if isinstance(each, m.Prepare)] == ["m3"]


def test_without_an_answer_the_broker_asks_those_that_it_would_have_chosen_itself() -> None:
    hall = rig()
    hall.submit()
    count = hall.referrals[0].question.count
    assert not asked(hall.pass_time(REFERRED_MS - 50))
    members = asked(hall.pass_time(50))
    assert len(members) == count
    assert members <= {*MEMBERS, *BELOW}


def test_who_was_silent_is_not_asked_for_a_while_and_its_members_are(hall: Rig) -> None:
    hall.submit()
    hall.pass_time(REFERRED_MS)
    hall.submit(key="the-next-key")
    assert len(hall.referrals) == 1
    assert len(asked(hall.sent)) == 7


def test_a_manager_out_of_reach_is_not_waited_for(hall: Rig) -> None:
    hall.submit()
    (referral,) = hall.referrals
    assert len(answer(hall, referral, None)) == referral.question.count


def test_a_late_answer_changes_nothing(hall: Rig) -> None:
    hall.submit()
    (referral,) = hall.referrals
    hall.pass_time(REFERRED_MS)
    assert answer(hall, referral, ("m3",)) == set()


def test_who_names_what_was_not_asked_is_not_followed() -> None:
    for ways in (("a",), ("m3", "x"), MEMBERS, ()):
        hall = rig()
        hall.submit()
        (referral,) = hall.referrals
        found = answer(hall, referral, ways)
        assert len(found) == referral.question.count
        assert found <= {*MEMBERS, *BELOW}


def test_homes_are_asked_whatever_a_manager_would_say(hall: Rig) -> None:
    hall.submit(homes=("m5",))
    assert "m5" in asked(hall.sent)
    assert "m5" not in {each.way for each in hall.referrals[0].question.candidates}


def test_a_manager_without_a_choice_is_not_asked() -> None:
    sites = {site: f"http://{site}" for site in (*STRAIGHT, "m0", "m1")}
    hall = Rig(directory=Directory(sites, {"m0": ("hall", "m0"), "m1": ("hall", "m1")}))
    hall.submit()
    assert hall.referrals == []
    assert asked(hall.sent) == sites.keys()


def test_a_job_that_was_cancelled_meanwhile_asks_nobody(hall: Rig) -> None:
    rid = hall.submit()
    (referral,) = hall.referrals
    hall.coordinator.calls.release(hall.row(rid), 2, hall.now)
    hall.settle()
    assert answer(hall, referral, ("m3",)) == set()


@given(
    st.lists(st.sampled_from("abcdef"), min_size=1, unique=True),
    st.lists(st.sampled_from("abcdefgh"), max_size=8),
)
def test_a_manager_can_only_name_some_of_those_it_was_asked_about_and_not_too_many(
    own: list[str], ways: list[str]
) -> None:
    choice = OwnChoice(tuple(own), {way: f"site-{way}" for way in "abcdef"})
    named = choice.named(ways)
    assert len(named) == len(set(named)) <= len(own)
    assert {each.removeprefix("site-") for each in named} <= set(ways) & set("abcdef")
    assert bool(named) == (0 < len(ways) <= len(own) and set(ways) <= set("abcdef"))
