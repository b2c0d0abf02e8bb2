"""Common times of near sites: what a hub tells in short, what of it is proved, and when it tells all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.contract.common_times import (
    common_times,
    complaint_about,
    is_proved,
    is_sealed,
    report_in,
    seals_of,
)
from kalends.core.scripts import Ask, HeldChoice

RID = "01a2b3c4-0000-7000-8000-000000000000"
KEYS = {"hub": "1" * 32, "near": "2" * 32, "far": "3" * 32}
ASKS = {
    "hub": (Ask(0, "hub/a", 60),),
    "near": (Ask(1, "near/b", 120, 4, 30), Ask(2, "near/c", 60)),
}
NEEDS = ((0, 1), (1, 1))


def says(site: str, *held: tuple[int, int], first: int = 100, **more: Any) -> m.SiteReport:
    """Holds of ``(place among the asks, common start)``, the best first, and the site's proofs."""
    slots = tuple(
        HeldChoice(
            first + rank, ask.term, ask.resource, common + ask.offset_s,
            common + ask.offset_s + ask.length_s, ask.units, common,
        )
        for rank, (place, common) in enumerate(held)
        for ask in (ASKS[site][place],)
    )  # fmt: skip
    report = m.SiteReport(site, 7, held=slots, wished=(1, 2), run="12", **more)
    return replace(report, seals=seals_of(KEYS[site], RID, 1, report, ASKS[site]))


HUB = says("hub", (0, 600), (0, 0), (0, 1_200))
NEARBY = says("near", (0, 1_200), (1, 1_200), (0, 600), (1, 0), first=900, approval=True)


def met(*reports: m.SiteReport, needs: Sequence[tuple[int, int]] = NEEDS) -> m.CommonTimes:
    common = common_times(reports, ASKS, needs)
    assert common is not None
    return common


def proved(common: m.CommonTimes, rid: str = RID, att: int = 1) -> bool:
    return is_proved(KEYS, rid, att, common)


def test_only_the_starts_that_all_can_serve_are_left_with_their_places() -> None:
    common = met(HUB, NEARBY)
    assert common.starts == (
        (600, (((0, 0),), ((0, 2),))),
        (1_200, (((0, 2),), ((0, 0), (1, 1)))),
    )
    assert [part.held for part in common.sites] == [3, 4]
    assert complaint_about(common) == ""
    assert proved(common)


def test_a_report_in_it_has_the_slots_with_their_offsets_lengths_and_units() -> None:
    told = report_in(met(HUB, NEARBY), 1, ASKS["near"])
    assert told is not None
    assert told.held == tuple(hold for hold in NEARBY.held if hold.common in (600, 1_200))
    assert (told.approval, told.epoch, told.run) == (True, 7, "12")


def test_a_term_that_other_sites_could_serve_leaves_no_start_out() -> None:
    common = met(HUB, NEARBY, needs=((0, 1),))
    assert [start for start, _ in common.starts] == [0, 600, 1_200]


def test_a_term_of_several_resources_needs_so_many_at_one_start() -> None:
    asks = {"hub": (Ask(0, "hub/a", 60),), "near": (Ask(0, "near/b", 60), Ask(0, "near/c", 60))}
    slots = [HeldChoice(1, 0, "hub/a", 0, 60, 1, 0), HeldChoice(2, 0, "hub/a", 9, 69, 1, 9)]
    own = m.SiteReport("hub", held=tuple(slots))
    other = m.SiteReport("near", held=(HeldChoice(1, 0, "near/b", 9, 69, 1, 9),))
    other = replace(other, seals=seals_of(KEYS["near"], RID, 1, other, asks["near"]))
    common = common_times([own, other], asks, [(0, 2)])
    assert common is not None
    assert [start for start, _ in common.starts] == [9]


@pytest.mark.parametrize(
    "near",
    [
        replace(NEARBY, code="agent-error"),
        replace(NEARBY, seals=NEARBY.seals[:1]),
        replace(NEARBY, seals=(*NEARBY.seals[:-1], "-" + "0" * 31)),
        replace(NEARBY, held=NEARBY.held[1:] + NEARBY.held[:1]),
        replace(NEARBY, held=(NEARBY.held[0], *NEARBY.held[2:])),
        replace(NEARBY, held=(replace(NEARBY.held[0], units=5), *NEARBY.held[1:])),
        says("near", (1, 600)),
        says("near"),
    ],
    ids=["failed", "unproved", "no-proof", "in-disorder", "one-is-gone", "other-units", "nothing-in-common",
         "nothing"],
)  # fmt: skip
def test_where_it_would_not_be_all_each_report_is_told(near: m.SiteReport) -> None:
    assert common_times([HUB, near], ASKS, NEEDS) is None


def test_a_hub_can_leave_a_start_out_and_the_rest_is_still_proved() -> None:
    fewer = met(says("hub", (0, 1_200)), NEARBY)
    assert [start for start, _ in fewer.starts] == [1_200]
    assert proved(fewer)


@pytest.mark.parametrize(
    "change",
    [
        {"approval": False}, {"epoch": 8}, {"first": 901}, {"held": 5}, {"run": "13"}, {"sent": ('"hi"',)},
        {"site": "far"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_hub_can_change_nothing_that_a_near_site_says_of_itself(change: dict[str, Any]) -> None:
    common = met(HUB, NEARBY)
    part = replace(common.sites[1], **change)
    assert not proved(replace(common, sites=(common.sites[0], part)))


@pytest.mark.parametrize(
    "picks",
    [(), ((0, 0),), ((0, 0), (1, 2)), ((0, 1), (1, 0)), ((1, 0), (1, 1)), ((0, 0), (1, 1), (0, 3))],
)
def test_a_hub_can_change_nothing_that_a_near_site_holds(picks: Any) -> None:
    common = met(HUB, NEARBY)
    start, (own, _) = common.starts[1]
    assert not proved(replace(common, starts=(common.starts[0], (start, (own, picks)))))


def test_a_start_that_no_near_site_has_proved_is_not_believed() -> None:
    common = met(HUB, NEARBY)
    invented = (1_800, (((0, 1),), ((1, 3),)))
    assert not proved(replace(common, starts=(*common.starts, invented)))
    assert not proved(common, att=2)
    assert not proved(common, rid=RID.replace("0", "9"))


def test_a_whole_report_is_proved_to_the_last_word() -> None:
    assert is_sealed(KEYS["near"], RID, 1, NEARBY)
    assert is_sealed(KEYS["near"], RID, 1, replace(NEARBY, seals=NEARBY.seals[:1]))
    for changed in (
        replace(NEARBY, wished=(1,)), replace(NEARBY, seals=()), replace(NEARBY, code="crash"),
        replace(NEARBY, held=()), replace(NEARBY, detail="x"),
    ):  # fmt: skip
        assert not is_sealed(KEYS["near"], RID, 1, changed)
    assert not is_sealed(KEYS["hub"], RID, 1, NEARBY)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"starts": lambda s: (s[1], s[0])}, "disorder"),
        ({"starts": lambda s: (s[0], s[0])}, "twice"),
        ({"starts": lambda s: ((s[0][0], s[0][1][:1]), s[1])}, "without saying"),
        ({"starts": lambda s: (s[0], (s[1][0], s[0][1]))}, "twice"),
        ({"held": 2}, "more of them"),
        ({"first": 0}, "numbers"),
        ({"first": m.HOLD_ID_MAX}, "numbers"),
    ],
)
def test_what_makes_no_sense_is_named(change: dict[str, Any], complaint: str) -> None:
    common = met(HUB, NEARBY)
    if (starts := change.pop("starts", None)) is not None:
        common = replace(common, starts=starts(common.starts))
    parts = (common.sites[0], replace(common.sites[1], **change))
    assert complaint in complaint_about(replace(common, sites=parts))


def test_slots_that_were_not_asked_for_are_no_report() -> None:
    assert report_in(met(HUB, NEARBY), 1, ASKS["near"][:1]) is None
