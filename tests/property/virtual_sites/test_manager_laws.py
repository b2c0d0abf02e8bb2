"""Managers of virtual sites: what they name, and what they learn by listening."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.virtual_sites.manager import referred
from kalends.virtual_sites.overheard import SILENT_MS, Overheard

RID = "01a3185c-53e8-7000-8000-0000000000{:02x}"
WAYS = [f"m{number}" for number in range(6)] + ["west/n0", "west/n1"]
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
    st.tuples(st.just("bid"), st.sampled_from(WAYS), st.integers(0, 9), st.integers(0, 5_000)),
    st.tuples(st.just("refusal"), st.sampled_from(WAYS), st.integers(0, 9)),
    st.tuples(st.just("noise"), st.sampled_from(WAYS), st.binary(max_size=40)),
    st.tuples(st.just("pause"), st.integers(1, 2 * SILENT_MS)),
)


def played(story: list[tuple[object, ...]]) -> tuple[Overheard, dict[str, list[int]], int]:
    """Return what was overheard, what an obvious twin has, and how late it is."""
    overheard, ms = Overheard(), 1_000
    twin: dict[str, list[int]] = {way: [0, 0, 0] for way in WAYS}
    open_since: dict[tuple[object, object], int] = {}
    for what, *rest in story:
        if what == "pause":
            ms += int(str(rest[0]))
            continue
        way, number = str(rest[0]), rest[1]
        if what == "noise":
            assert isinstance(number, bytes)
            overheard.said_by(way, b"bid" + number, moment(ms))
            continue
        assert isinstance(number, int)
        if what == "solicit":
            for key in [key for key, since in open_since.items() if ms - since >= SILENT_MS]:
                del open_since[key]
                twin[str(key[0])][2] += 1
            overheard.said_to(way, solicit(number), moment(ms))
            open_since.setdefault((way, number), ms)
            twin[way][0] += 1
        else:
            wait_s = int(str(rest[2])) if what == "bid" else None
            overheard.said_by(way, bid(number, wait_s), moment(ms))
            if open_since.pop((way, number), None) is not None and wait_s is not None:
                twin[way][1] += 1
    return overheard, twin, ms


@given(st.lists(happenings, max_size=40))
def test_what_is_overheard_is_counted_as_an_obvious_twin_counts_it(
    story: list[tuple[object, ...]],
) -> None:
    overheard, twin, _ = played(story)
    overheard.experience.check()
    for way, (asked, bids, silent) in twin.items():
        counts = overheard.tally.of(way)
        assert (counts.asked, counts.bid, counts.silent) == (asked, bids, silent)


@given(
    st.lists(happenings, max_size=40),
    st.lists(st.sampled_from(WAYS), min_size=1, unique=True),
    st.integers(1, 8),
)
def test_a_manager_names_members_that_it_was_asked_about_each_once_and_at_least_one(
    story: list[tuple[object, ...]], ways: list[str], count: int
) -> None:
    overheard, _, ms = played(story)
    question = m.Refer(
        rid=RID.format(1), att=1, count=count, candidates=tuple(m.MemberBidder(way) for way in ways)
    )
    answer = referred(question, overheard, moment(ms))
    assert set(answer.ways) <= set(ways)
    assert 1 <= len(answer.ways) == len(set(answer.ways)) <= count
    assert answer == referred(question, overheard, moment(ms))


def test_a_manager_prefers_who_has_told_the_shorter_waits() -> None:
    overheard = Overheard()
    for number, way in enumerate(WAYS):
        for again in range(10):
            overheard.said_to(way, solicit(again), moment(1_000))
            overheard.said_by(way, bid(again, 10 if number < 2 else 50_000), moment(1_100))
    question = m.Refer(
        rid=RID.format(1), att=1, count=3, candidates=tuple(m.MemberBidder(way) for way in WAYS)
    )
    assert len(set(referred(question, overheard, moment(2_000)).ways) & set(WAYS[:2])) == 2
