"""Managers of virtual sites: what they name, and what they learn by listening."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.limits import MEMBERS_MAX
from kalends.virtual_sites.manager import bidders_of, referred
from kalends.virtual_sites.overheard import SILENT_MS, Overheard, SessionHeard

RID = "01a3185c-53e8-7000-8000-0000000000{:02x}"
WAYS = [f"m{number}" for number in range(6)] + ["west/n0", "west/n1"]
MEMBERS = {*WAYS[:6], "west"}
T0_S = 1_800_000_000


def moment(ms: int) -> Moment:
    return Moment(ms, T0_S * 1_000 + ms)


def solicit(number: int) -> bytes:
    message = {
        "kind": "solicit", "rid": RID.format(number), "att": 1, "stamp": 1,
        "principal": {"user": "ann", "groups": []},
        "job": {"machine": "", "limit_s": 60, "command": ["true"]},
        "machines": ["m0/m"], "secret": "s" * 32, "hold_ms": 1_000,
    }  # fmt: skip
    return msgspec.msgpack.encode({"v": 2, "source": "b", "lc": 1, "messages": [message]})


def release(number: int) -> bytes:
    message = {"kind": "release", "rid": RID.format(number), "att": 1, "secret": "s" * 32}
    return msgspec.msgpack.encode({"v": 2, "source": "b", "lc": 1, "messages": [message]})


def bid(number: int, wait_s: int | None) -> bytes:
    offers = () if wait_s is None else (
        m.PlaceOffer(
            machine="m0/m", hold_id=1, job=1, nodes=1, start=T0_S + wait_s, end=T0_S + wait_s + 60,
            start_by=T0_S + wait_s, late_start=T0_S + wait_s,
        ),
    )  # fmt: skip
    refusals = (
        (Refusal(where="m0/m", code=RefusalCode.DRAINED, detail="drained"),)
        if wait_s is None
        else ()
    )
    message = m.Bid(rid=RID.format(number), att=1, epoch=1, offers=offers, refusals=refusals)
    return msgspec.msgpack.encode({"v": 2, "source": "m0", "lc": 1, "messages": [message]})


happenings = st.one_of(
    st.tuples(st.just("solicit"), st.sampled_from(WAYS), st.integers(0, 9)),
    st.tuples(st.just("release"), st.sampled_from(WAYS), st.integers(0, 9)),
    st.tuples(st.just("bid"), st.sampled_from(WAYS), st.integers(0, 9), st.integers(0, 5_000)),
    st.tuples(st.just("refusal"), st.sampled_from(WAYS), st.integers(0, 9)),
    st.tuples(st.just("noise"), st.sampled_from(WAYS), st.binary(max_size=40)),
    st.tuples(st.just("new session"), st.sampled_from(WAYS)),
    st.tuples(st.just("pause"), st.integers(1, 2 * SILENT_MS)),
)


class Twin:
    """What an obvious listener has counted: asked, bids, silences by way."""

    def __init__(self) -> None:
        self.counts = {way: [0, 0, 0] for way in WAYS}
        self.since: dict[tuple[str, int], int] = {}

    def frame_to(self, way: str, ms: int) -> None:
        for key in [key for key, since in self.since.items() if ms - since >= SILENT_MS]:
            if key[0] == way:
                del self.since[key]
                self.counts[way][2] += 1

    def solicit(self, way: str, number: int, ms: int) -> None:
        self.frame_to(way, ms)
        self.since.setdefault((way, number), ms)
        self.counts[way][0] += 1

    def release(self, way: str, number: int, ms: int) -> None:
        self.frame_to(way, ms)
        self.since.pop((way, number), None)

    def bid(self, way: str, number: int, has_offer: bool) -> None:
        if self.since.pop((way, number), None) is not None and has_offer:
            self.counts[way][1] += 1

    def new_session(self, way: str) -> None:
        self.since = {key: ms for key, ms in self.since.items() if key[0] != way}


def played(story: list[tuple[Any, ...]]) -> tuple[Overheard, Twin, int]:
    """Return what was overheard, what its twin has, and how late it is."""
    overheard, twin, ms = Overheard(), Twin(), 1_000
    sessions = {way: SessionHeard(overheard, way) for way in WAYS}
    for what, *rest in story:
        if what == "pause":
            ms += rest[0]
            continue
        way = rest[0]
        if what == "noise":
            sessions[way].said_by(b"bid" + rest[1], moment(ms))
        elif what == "new session":
            sessions[way] = SessionHeard(overheard, way)
            twin.new_session(way)
        elif what == "solicit":
            sessions[way].said_to(solicit(rest[1]), moment(ms))
            twin.solicit(way, rest[1], ms)
        elif what == "release":
            sessions[way].said_to(release(rest[1]), moment(ms))
            twin.release(way, rest[1], ms)
        else:
            wait_s = rest[2] if what == "bid" else None
            sessions[way].said_by(bid(rest[1], wait_s), moment(ms))
            twin.bid(way, rest[1], wait_s is not None)
    return overheard, twin, ms


@given(st.lists(happenings, max_size=40))
def test_what_is_overheard_is_counted_as_an_obvious_twin_counts_it(
    story: list[tuple[Any, ...]],
) -> None:
    overheard, twin, _ = played(story)
    overheard.experience.check()
    for way, (asked, bids, silent) in twin.counts.items():
        counts = overheard.tally.of(way)
        assert (counts.asked, counts.bid, counts.silent) == (asked, bids, silent)


@given(
    st.lists(happenings, max_size=40),
    st.lists(st.sampled_from([*WAYS, "nobody", "nobody/n0"]), min_size=1, unique=True),
    st.integers(1, 8),
)
def test_a_manager_names_members_that_it_was_asked_about_each_once_and_at_least_one(
    story: list[tuple[Any, ...]], ways: list[str], count: int
) -> None:
    overheard, _, ms = played(story)
    question = m.Refer(
        rid=RID.format(1), att=1, count=count, candidates=tuple(m.MemberBidder(way) for way in ways)
    )
    answer = referred(question, MEMBERS, overheard, moment(ms))
    known = set(ways) & set(WAYS)
    assert set(answer.ways) <= known
    assert bool(known) <= len(answer.ways) == len(set(answer.ways)) <= count
    assert answer == referred(question, MEMBERS, overheard, moment(ms))


def test_names_that_a_broker_makes_up_are_not_kept() -> None:
    overheard = Overheard()
    for number in range(1_000):
        ways = (f"m0/x{number}", "m0")
        candidates = tuple(m.MemberBidder(way) for way in ways)
        question = m.Refer(rid=RID.format(1), att=1, count=2, candidates=candidates)
        referred(question, MEMBERS, overheard, moment(1_000))
    assert not overheard.sessions
    assert [each.status.site for each in bidders_of({"m0": ""}, overheard, moment(0)).bidders] == [
        "m0"
    ]


def test_who_is_released_before_it_has_bid_is_not_to_blame() -> None:
    overheard = Overheard()
    with overheard.session("m0") as session:
        session.said_to(solicit(1), moment(1_000))
        session.said_to(release(1), moment(1_100))
        session.said_to(solicit(2), moment(1_100 + SILENT_MS))
    with overheard.session("m0") as session:
        session.said_to(solicit(3), moment(3 * SILENT_MS))
    assert overheard.tally.of("m0").silent == 0
    assert not overheard.experience.rests("m0", moment(3 * SILENT_MS))


def test_a_manager_prefers_who_has_told_the_shorter_waits() -> None:
    overheard = Overheard()
    for number, way in enumerate(WAYS):
        session = SessionHeard(overheard, way)
        for again in range(10):
            session.said_to(solicit(again), moment(1_000))
            session.said_by(bid(again, 10 if number < 2 else 50_000), moment(1_100))
    question = m.Refer(
        rid=RID.format(1), att=1, count=3, candidates=tuple(m.MemberBidder(way) for way in WAYS)
    )
    chosen = referred(question, MEMBERS, overheard, moment(2_000)).ways
    assert len(set(chosen) & set(WAYS[:2])) == 2


def test_members_that_a_member_invents_are_forgotten_once_there_are_too_many() -> None:
    overheard = Overheard()
    with overheard.session("m0"):
        for number in range(3 * MEMBERS_MAX):
            with overheard.session(f"west/invented{number}") as session:
                session.said_to(solicit(number % 9), moment(1_000))
    assert len(overheard.sessions) <= MEMBERS_MAX
    assert len(bidders_of({"m0": "http://m0"}, overheard, moment(2_000)).bidders) <= MEMBERS_MAX
    assert len(overheard.tally._sites) <= MEMBERS_MAX
    assert "m0" in overheard.sessions
