"""What the planner promises, one case at a time; the laws are in test_planner_properties."""

from __future__ import annotations

import msgspec
import pytest

from kalends.broker.planning.explanations import explain
from kalends.broker.planning.planner import candidates, executable, fixed_start, fixed_wants, plan
from kalends.broker.planning.search_budget import TooMuchWork
from kalends.broker.planning.sweep import BEATS_MAX
from kalends.contract.messages import Want
from kalends.core.errors import InvalidInput, RefusalCode
from kalends.core.language import parse_alternatives, parse_request
from kalends.core.requests import Alternative, Request, TimePreference
from kalends.core.resources import AttributeValue, ResourceInfo

T0 = 1_767_225_600
H = 3_600
DAY = 24 * H


def asked(text: str, duration: str = "1h", at: int | None = None, window_s: int = DAY) -> Request:
    if at is not None:
        return parse_request(text, duration=duration, at=at, now_s=T0, zone="UTC")
    return parse_request(text, duration=duration, not_after=T0 + window_s, now_s=T0, zone="UTC")


def info(
    name: str, capacity: int = 1, grain_s: int = 60, **attributes: AttributeValue
) -> ResourceInfo:
    return ResourceInfo(name=name, capacity=capacity, grain_s=grain_s, attributes=attributes)


def known(*infos: ResourceInfo) -> dict[str, ResourceInfo]:
    return {each.name: each for each in infos}


THREE_SITES = known(info("sdsc/sp2", 128), info("caltech/onyx"), info("ncsa/printer", grain_s=600))
ALL_FREE = {
    "sdsc/sp2": [(T0, T0 + DAY, 128)],
    "caltech/onyx": [(T0, T0 + DAY, 1)],
    "ncsa/printer": [(T0, T0 + DAY, 1)],
}
LAB = known(*(info(f"lab/sgi{n}", kind="sgi") for n in (1, 2, 3)), info("lab/pc1", kind="pentium"))


def test_the_earliest_common_start_of_named_resources_is_found() -> None:
    free = {
        "sdsc/sp2": [(T0, T0 + 2 * H, 64), (T0 + 2 * H, T0 + 9 * H, 128)],
        "caltech/onyx": [(T0, T0 + H, 1), (T0 + 3 * H, T0 + 5 * H, 1)],
    }
    (made,) = plan(asked("sdsc/sp2:100 + caltech/onyx", "90m"), THREE_SITES, free)
    assert made.start == T0 + 3 * H
    assert made.end == T0 + 4 * H + 1800
    assert made.wants == (
        Want("caltech/onyx", made.start, made.end, 1),
        Want("sdsc/sp2", made.start, made.end, 100),
    )


def test_stages_at_offsets_each_get_their_own_interval() -> None:
    text = "sdsc/sp2:64 + caltech/onyx @-10m for 10m + ncsa/printer @+2h for 30m"
    (made,) = plan(asked(text), THREE_SITES, ALL_FREE)
    assert made.start == T0 + 600
    assert made.end == T0 + 600 + 2 * H + 1800
    assert made.wants == (
        Want("caltech/onyx", T0, T0 + 600, 1),
        Want("ncsa/printer", T0 + 600 + 2 * H, T0 + 600 + 2 * H + 1800, 1),
        Want("sdsc/sp2", T0 + 600, T0 + 600 + H, 64),
    )


def test_touching_steps_serve_one_stage_together() -> None:
    free = {"sdsc/sp2": [(T0, T0 + 1800, 70), (T0 + 1800, T0 + H, 64)]}
    assert [made.start for made in plan(asked("sdsc/sp2:64"), THREE_SITES, free)] == [T0]
    assert plan(asked("sdsc/sp2:65"), THREE_SITES, free) == []


def test_amounts_add_up_where_stages_of_one_resource_overlap() -> None:
    free = {"sdsc/sp2": [(T0, T0 + H, 100), (T0 + H, T0 + 3 * H, 128)]}
    (made,) = plan(asked("sdsc/sp2:64 + sdsc/sp2:64"), THREE_SITES, free)
    assert made.start == T0 + H
    assert made.wants == (Want("sdsc/sp2", made.start, made.end, 64),) * 2
    (apart,) = plan(asked("sdsc/sp2:64 + sdsc/sp2:64 @+1h"), THREE_SITES, free)
    assert apart.start == T0


def test_several_plans_do_not_overlap_and_leave_out_excluded_starts() -> None:
    plans = plan(
        asked("caltech/onyx"), THREE_SITES, ALL_FREE, count=3, excluded={(0, T0), (0, T0 + 60)}
    )
    assert [made.start for made in plans] == [T0 + 120 + n * H for n in range(3)]


def test_fewer_plans_are_given_when_the_window_holds_no_more() -> None:
    assert len(plan(asked("caltech/onyx", "10h"), THREE_SITES, ALL_FREE, count=9)) == 2


def test_n_of_picks_different_resources_that_are_free_together_earlier_names_first() -> None:
    free = {name: [(T0, T0 + DAY, 1)] for name in LAB} | {"lab/sgi1": [(T0 + H, T0 + DAY, 1)]}
    (made,) = plan(asked("2 of {kind=sgi}"), LAB, free)
    assert made.start == T0
    assert [want.resource for want in made.wants] == ["lab/sgi2", "lab/sgi3"]


def test_terms_that_compete_for_resources_are_matched_so_that_all_are_served() -> None:
    free = {name: [(T0, T0 + H, 1)] for name in LAB}
    request = asked("3 of {site=lab} + {name=sgi1}", at=T0)
    (made,) = plan(request, LAB, free)
    assert [want.resource for want in made.wants] == sorted(LAB)
    assert plan(asked("3 of {site=lab} + 2 of {kind=sgi}", at=T0), LAB, free) == []


def test_terms_one_after_the_other_may_pick_the_same_resource() -> None:
    free = {name: [(T0, T0 + DAY, 1)] for name in LAB}
    (made,) = plan(asked("{kind=sgi} + {kind=sgi} @+1h", at=T0), LAB, free)
    assert [want.resource for want in made.wants] == ["lab/sgi1", "lab/sgi1"]


def test_terms_that_overlap_by_way_of_a_longer_one_pick_different_resources() -> None:
    free = {name: [(T0, T0 + DAY, 1)] for name in LAB}
    text = "{kind=sgi} for 4h + {kind=sgi} for 1h + {kind=sgi} @+2h for 1h"
    (made,) = plan(asked(text, at=T0), LAB, free)
    assert [want.resource for want in made.wants] == ["lab/sgi1", "lab/sgi2", "lab/sgi3"]


def test_a_resource_that_is_free_before_the_beat_but_not_on_it_is_not_picked() -> None:
    infos = known(info("a/hourly", grain_s=H), info("b/early", kind="x"), info("b/late", kind="x"))
    free = {
        "a/hourly": [(T0, T0 + DAY, 1)],
        "b/early": [(T0 + 60, T0 + 60 + H, 1)],
        "b/late": [(T0 + 4 * H - 60, T0 + DAY, 1)],
    }
    (made,) = plan(asked("a/hourly + {kind=x}"), infos, free)
    assert made.start == T0 + 4 * H
    assert [want.resource for want in made.wants] == ["a/hourly", "b/late"]


def test_an_attribute_term_leaves_a_resource_named_for_the_same_time_alone() -> None:
    free = {name: [(T0, T0 + DAY, 1)] for name in LAB}
    (together,) = plan(asked("lab/sgi1 + {kind=sgi}"), LAB, free)
    assert [want.resource for want in together.wants] == ["lab/sgi1", "lab/sgi2"]
    (apart,) = plan(asked("lab/sgi1 + {kind=sgi} @+1h"), LAB, free)
    assert [want.resource for want in apart.wants] == ["lab/sgi1", "lab/sgi1"]


def test_every_stage_is_on_the_grain_of_the_resource_that_it_uses() -> None:
    infos = known(info("a/hourly", grain_s=H), info("b/finely", grain_s=60))
    free = {name: [(T0 + 60, T0 + DAY, 1)] for name in infos}
    assert plan(asked("b/finely"), infos, free)[0].start == T0 + 60
    assert plan(asked("b/finely + a/hourly"), infos, free)[0].start == T0 + H
    assert plan(asked("b/finely + a/hourly @+10m"), infos, free)[0].start == T0 + H - 600
    assert plan(asked("a/hourly", "90m"), infos, free) == []


def test_candidates_of_different_grain_meet_at_the_first_start_of_some_of_them() -> None:
    every = known(
        *(info(f"a/m{minutes}", grain_s=minutes * 60, kind="x") for minutes in (5, 7, 10))
    )
    for names in (("a/m5", "a/m7", "a/m10"), ("a/m7", "a/m10"), ("a/m5", "a/m7")):
        infos = {name: every[name] for name in names}
        free = {name: [(T0 + 60, T0 + 3 * DAY, 1)] for name in infos}
        meeting = next(
            t
            for t in range(T0 + 60, T0 + DAY, 60)
            if sum(t % each.grain_s == 0 for each in infos.values()) >= 2
        )
        (made,) = plan(asked("2 of {kind=x}", "70m", window_s=2 * DAY), infos, free)
        assert made.start == meeting
        assert all(meeting % infos[want.resource].grain_s == 0 for want in made.wants)


def test_grains_that_fit_together_in_too_many_ways_are_refused_not_searched_forever() -> None:
    lengths_s = {"x": 2 * 3 * 5 * 7 * 11 * 13 * 17 * 19, "y": 23 * 29 * 31 * 37}
    infos = known(
        *(
            info(f"a/{kind}{grain_s}", grain_s=grain_s, kind=kind)
            for kind, length_s in lengths_s.items()
            for grain_s in range(1, 3_000)
            if length_s % grain_s == 0
        )
    )
    text = " + ".join(f"{{kind={kind}}} for {length_s}s" for kind, length_s in lengths_s.items())
    request = parse_request(text, duration="1s", now_s=T0, zone="UTC")
    with pytest.raises(InvalidInput, match=f"more than {BEATS_MAX} ways"):
        plan(request, infos, {name: [(T0, T0 + 300 * DAY, 1)] for name in infos})


def test_a_resource_without_a_view_or_a_description_is_never_planned() -> None:
    assert plan(asked("sdsc/sp2"), THREE_SITES, {}) == []
    assert plan(asked("sdsc/gone"), THREE_SITES, {"sdsc/gone": [(T0, T0 + DAY, 1)]}) == []


def test_a_window_as_long_as_the_stages_fixes_the_start() -> None:
    request = asked("sdsc/sp2:64 + caltech/onyx @-10m for 10m", at=T0 + 5 * H)
    assert fixed_start(request) == T0 + 5 * H
    assert fixed_wants(request) == plan(request, THREE_SITES, ALL_FREE)[0].wants
    late = {**ALL_FREE, "caltech/onyx": [(T0 + 6 * H, T0 + DAY, 1)]}
    assert plan(request, THREE_SITES, late) == []


def test_wants_are_known_without_looking_only_for_named_resources_at_a_fixed_start() -> None:
    assert fixed_wants(asked("sdsc/sp2:64")) is None
    assert fixed_start(asked("sdsc/sp2:64")) is None
    open_end = parse_request("sdsc/sp2", duration="1h", now_s=T0, zone="UTC")
    assert fixed_start(open_end) is None
    assert fixed_wants(asked("{kind=sgi}", at=T0)) is None


def test_candidates_have_the_attributes_and_the_capacity_in_order_of_name() -> None:
    infos = known(info("b/x", 4, kind="pc"), info("a/y", 8, kind="pc"), info("a/z", 1, kind="pc"))
    request = asked("2 of {kind=pc}:4 + a/z")
    assert candidates(request, infos) == {0: ["a/y", "b/x"], 1: ["a/z"]}


MORNING = (TimePreference(start=T0 + 8 * H, end=T0 + 12 * H, weight=1.0),)


def starts_and_weights(
    request: Request, free: dict[str, list[tuple[int, int, int]]], count: int = 1
) -> list[tuple[float, int, float]]:
    """Hours from T0, alternative and weight of each plan."""
    return [
        ((made.start - T0) / H, made.alternative, made.weight)
        for made in plan(request, THREE_SITES, free, count=count)
    ]


def test_alternatives_without_weights_compete_by_their_earliest_start_then_by_their_place() -> None:
    free = {**ALL_FREE, "sdsc/sp2": [(T0 + 2 * H, T0 + DAY, 64)]}
    assert starts_and_weights(asked("sdsc/sp2 | caltech/onyx"), free) == [(0, 1, 0.0)]
    assert starts_and_weights(asked("caltech/onyx | ncsa/printer"), free) == [(0, 0, 0.0)]
    assert starts_and_weights(asked("sdsc/gone | caltech/onyx"), free) == [(0, 1, 0.0)]


def test_an_alternative_of_more_weight_wins_although_it_is_later() -> None:
    free = {**ALL_FREE, "sdsc/sp2": [(T0 + 2 * H, T0 + 4 * H, 64)]}
    request = asked("caltech/onyx weight 1 | sdsc/sp2 weight 1.5")
    assert starts_and_weights(request, free, 3) == [(2, 1, 1.5), (3, 1, 1.5), (0, 0, 1.0)]


def test_further_plans_of_other_alternatives_may_be_at_the_same_time() -> None:
    request = asked("caltech/onyx | ncsa/printer", "12h")
    assert starts_and_weights(request, ALL_FREE, 9) == [
        (0, 0, 0.0), (0, 1, 0.0), (12, 0, 0.0), (12, 1, 0.0),
    ]  # fmt: skip


def test_each_alternative_has_a_window_of_its_own_stages() -> None:
    text = "caltech/onyx | ncsa/printer @-2h for 1h + ncsa/printer for 1h"
    request = parse_request(text, duration="1h", not_after=T0 + 3 * H, now_s=T0, zone="UTC")
    assert starts_and_weights(request, ALL_FREE, 9) == [
        (0, 0, 0.0), (1, 0, 0.0), (2, 0, 0.0), (2, 1, 0.0),
    ]  # fmt: skip


def test_a_preferred_time_is_waited_for_and_windows_add_up() -> None:
    request = msgspec.structs.replace(asked("caltech/onyx"), preferences=MORNING)
    assert starts_and_weights(request, ALL_FREE, 2) == [(8, 0, 1.0), (9, 0, 1.0)]
    later = TimePreference(start=T0 + 9 * H, end=T0 + DAY, weight=0.5)
    both = msgspec.structs.replace(request, preferences=(*MORNING, later))
    assert starts_and_weights(both, ALL_FREE, 4) == [
        (9, 0, 1.5), (10, 0, 1.5), (11, 0, 1.5), (8, 0, 1.0),
    ]  # fmt: skip


def test_a_further_plan_overlaps_none_of_those_before_it() -> None:
    preferences = tuple(
        TimePreference(start=T0 + int(begin * H), end=T0 + int(end * H), weight=weight)
        for begin, end, weight in ((8, 8.01, 3.0), (6.5, 6.51, 2.0), (7.5, 7.51, 1.0))
    )
    request = msgspec.structs.replace(asked("caltech/onyx"), preferences=preferences)
    assert starts_and_weights(request, ALL_FREE, 3) == [(8, 0, 3.0), (6.5, 0, 2.0), (0, 0, 0.0)]


def test_weights_add_up_as_they_are_written() -> None:
    thirds = tuple(
        TimePreference(start=T0 + 2 * H, end=T0 + 3 * H, weight=weight) for weight in (0.1, 0.2)
    )
    earlier = TimePreference(start=T0 + H, end=T0 + 2 * H, weight=0.3)
    request = msgspec.structs.replace(asked("caltech/onyx"), preferences=(*thirds, earlier))
    assert starts_and_weights(request, ALL_FREE) == [(1, 0, 0.3)]


def test_each_picked_resource_earns_the_attributes_that_it_has() -> None:
    infos = known(
        info("a/plain", kind="x"),
        info("b/large", kind="x", memory=256),
        info("c/shared", kind="x", memory=256, shared=True),
    )
    free = {name: [(T0, T0 + DAY, 1)] for name in infos}
    text = "2 of {kind=x, memory>=128 weight 2, shared=true weight -3}"
    (made,) = plan(asked(text), infos, free)
    assert [want.resource for want in made.wants] == ["a/plain", "b/large"]
    assert made.weight == 2.0
    late = {**free, "b/large": [(T0 + 5 * H, T0 + DAY, 1)]}
    (made,) = plan(asked(text), infos, late)
    assert (made.start, made.weight) == (T0 + 5 * H, 2.0)


def test_terms_that_compete_share_out_what_is_worth_most_to_them() -> None:
    infos = known(
        info("a/one", kind="x", fast=True),
        info("a/two", kind="x", fast=True, large=True),
        info("a/six", kind="x"),
    )
    free = {name: [(T0, T0 + DAY, 1)] for name in infos}
    (made,) = plan(
        asked("{kind=x, fast=true weight 2} + {kind=x, fast=true weight 1, large=true weight 1}"),
        infos,
        free,
    )
    assert [want.resource for want in made.wants] == ["a/one", "a/two"]
    assert made.weight == 4.0


def test_terms_that_compete_only_by_way_of_a_third_share_nothing_either() -> None:
    infos = known(info("a/one", p=1, r=1), info("a/two", p=1, q=1), info("a/three", q=1))
    free = {name: [(T0, T0 + DAY, 1)] for name in infos}
    (made,) = plan(asked("{p=1, name=one weight 2} + {q=1} + {r=1}"), infos, free)
    assert [want.resource for want in made.wants] == ["a/one", "a/three", "a/two"]
    assert made.weight == 0.0


@pytest.mark.parametrize(
    ("text", "hour", "units", "weight"),
    [
        ("sdsc/sp2:32..64", 6, 64, 1.0),
        ("sdsc/sp2:32..256", 6, 128, 0.42857142857142855),
        ("sdsc/sp2:(32..64 weight 0)", 0, 40, 0.0),
        ("sdsc/sp2:(32..64 weight -1)", 0, 32, 0.0),
        ("sdsc/sp2:(32..64 weight 4) weight 2", 6, 64, 6.0),
        ("sdsc/sp2:32..64 | sdsc/sp2:32 weight 1", 0, 32, 1.0),
    ],
)
def test_an_amount_grows_as_far_as_its_weight_is_worth_waiting_for(
    text: str, hour: int, units: int, weight: float
) -> None:
    free = {"sdsc/sp2": [(T0, T0 + 6 * H, 40), (T0 + 6 * H, T0 + DAY, 128)]}
    (made,) = plan(asked(text), THREE_SITES, free)
    assert ((made.start - T0) / H, made.wants[0].units, made.weight) == (hour, units, weight)


def test_an_amount_grows_beside_fixed_amounts_of_the_same_resource() -> None:
    free = {"sdsc/sp2": [(T0, T0 + DAY, 100)]}
    text = "sdsc/sp2:10..128 for 2h + sdsc/sp2:40 @+1h"
    (made,) = plan(asked(text), THREE_SITES, free)
    assert [want.units for want in made.wants] == [60, 40]


def test_each_picked_resource_gets_its_own_amount() -> None:
    infos = known(info("a/x", 8, kind="x"), info("b/x", 8, kind="x"), info("c/x", 8, kind="x"))
    free = {name: [(T0, T0 + DAY, units)] for name, units in zip(infos, (4, 5, 8), strict=True)}
    (made,) = plan(asked("2 of {kind=x}:(2..6 weight 2)"), infos, free)
    assert [(want.resource, want.units) for want in made.wants] == [("b/x", 5), ("c/x", 6)]
    assert made.weight == 3.5


def test_an_excluded_start_of_a_weighted_request_leaves_its_neighbours() -> None:
    request = msgspec.structs.replace(asked("caltech/onyx"), preferences=MORNING)
    (made,) = plan(request, THREE_SITES, ALL_FREE, excluded={(0, T0 + 8 * H), (1, T0 + 8 * H + 60)})
    assert made.start == T0 + 8 * H + 60


def test_what_leaves_a_choice_is_never_claimed_without_looking() -> None:
    assert fixed_wants(asked("sdsc/sp2:64", at=T0)) is not None
    assert fixed_wants(asked("sdsc/sp2:64 | caltech/onyx", at=T0)) is None
    assert fixed_wants(asked("sdsc/sp2:32..64", at=T0)) is None
    assert fixed_start(asked("sdsc/sp2:64 | caltech/onyx", at=T0)) == T0
    uneven = msgspec.structs.replace(
        asked("sdsc/sp2:64 | caltech/onyx @+1h", at=None), not_after=T0 + 2 * H
    )
    assert fixed_start(uneven) is None
    assert fixed_wants(asked("sdsc/sp2 between 00:00 02:00", at=T0)) is not None


def test_a_fixed_start_outside_of_its_windows_is_refused_or_at_least_never_claimed() -> None:
    with pytest.raises(InvalidInput, match="column 10: no start puts the stage into its windows"):
        asked("sdsc/sp2 between 08:00 12:00", at=T0)
    (term,) = asked("sdsc/sp2 between 08:00 12:00").alternatives[0].terms
    unchecked = msgspec.structs.replace(
        asked("sdsc/sp2", at=T0), alternatives=(Alternative(terms=(term,)),)
    )
    assert fixed_wants(unchecked) is None
    assert plan(unchecked, THREE_SITES, ALL_FREE) == []


def test_one_resource_in_two_terms_keeps_the_window_of_each() -> None:
    request = asked("sdsc/sp2 between 02:00 04:00 + sdsc/sp2 @3h between 06:00 08:00")
    (made, *_) = plan(request, THREE_SITES, ALL_FREE)
    assert [want.start for want in made.wants] == [T0 + 3 * H, T0 + 6 * H]


def test_windows_without_an_end_of_the_request_are_looked_at_where_anything_is_free() -> None:
    open_end = msgspec.structs.replace(
        asked("{kind=sgi} between 20:00 22:00"), not_before=0, not_after=0
    )
    open_end.check()
    free = {"lab/sgi1": [(T0 + 90 * DAY, T0 + 92 * DAY, 1)]}
    found = plan(open_end, LAB, free, count=9)
    evening = T0 + 90 * DAY + 20 * H
    assert [each.start for each in found] == [
        evening, evening + H, evening + DAY, evening + DAY + H,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("sdsc/sp2 between 08:00 12:00", ["sdsc/sp2 lies in your 08:00-12:00 (UTC)"]),
        (
            "(sdsc/sp2 between 08:00 12:00 + caltech/onyx) between 06:00 09:30 prefer 08:00 09:00 weight 1",
            ["sdsc/sp2 lies in your 06:00-09:30 (UTC) and your 08:00-12:00 (UTC)"],
        ),
        (
            "caltech/onyx between 13:00 14:00 + sdsc/sp2 @8h between 22:00 24:00",
            [
                "caltech/onyx + sdsc/sp2 @+8h lies in your 13:00-14:00 (UTC) and your 22:00-24:00 (UTC)"
            ],
        ),
    ],
)
def test_if_only_the_users_own_windows_leave_no_start_they_are_named(
    text: str, details: list[str]
) -> None:
    free = {
        **ALL_FREE,
        "sdsc/sp2": [(T0 + 12 * H, T0 + 20 * H + 1800, 64), (T0 + 21 * H, T0 + DAY, 64)],
    }
    request = msgspec.structs.replace(
        asked("sdsc/sp2"), alternatives=parse_alternatives(text, "UTC")
    )
    found = explain(request, THREE_SITES, free)
    assert [each.detail for each in found] == [f"no start of {detail}" for detail in details]
    assert {each.code for each in found} == {RefusalCode.BUSY}


def test_what_is_taken_at_every_time_is_not_put_down_to_windows() -> None:
    (found,) = explain(
        asked("sdsc/sp2 between 08:00 12:00"), THREE_SITES, {**ALL_FREE, "sdsc/sp2": []}
    )
    assert "at no time" in found.detail


def test_more_days_of_windows_than_a_search_may_look_at_are_refused() -> None:
    windows = " ".join(f"between 00:{n:02} 23:00" for n in range(60))
    endless = msgspec.structs.replace(asked(f"sdsc/sp2 {windows}"), not_after=0)
    with pytest.raises(TooMuchWork):
        plan(endless, THREE_SITES, {"sdsc/sp2": [(T0, T0 + 9 * 366 * DAY, 64)]})


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        (asked("sdsc/sp2 | caltech/onyx"), "alternatives"),
        (asked("caltech/onyx + sdsc/sp2:2..4"), "alternatives[0].terms[1].units_max"),
        (asked("{kind=sgi, fast=true weight 1}"), "alternatives[0].terms[0].preferred"),
        (msgspec.structs.replace(asked("sdsc/sp2"), preferences=MORNING), "preferences"),
        (asked("sdsc/sp2 between 08:00 12:00"), "alternatives[0].windows"),
    ],
)
def test_only_an_agent_cannot_choose_among_all_that_a_request_may_say(
    request_: Request, where: str
) -> None:
    executable(request_)
    with pytest.raises(InvalidInput) as caught:
        executable(msgspec.structs.replace(request_, agent="ready:earliest"))
    assert caught.value.where == where
    assert caught.value.remedy


def test_a_plain_request_is_executable_by_an_agent() -> None:
    plain = asked("3 of {kind=sgi}:2 @-10m for 10m + sdsc/sp2:4..4")
    executable(msgspec.structs.replace(plain, agent="ready:earliest"))


def only_refusal(
    request: Request, infos: dict[str, ResourceInfo], free: dict[str, list[tuple[int, int, int]]]
) -> tuple[str, str, str]:
    assert plan(request, infos, free) == []
    (refusal,) = explain(request, infos, free)
    return refusal.where, refusal.code, refusal.detail


def test_an_unknown_resource_is_named() -> None:
    where, code, _ = only_refusal(asked("sdsc/sp3 + caltech/onyx"), THREE_SITES, ALL_FREE)
    assert (where, code) == ("sdsc/sp3", RefusalCode.UNKNOWN_RESOURCE)


def test_a_resource_whose_calendar_is_not_there_is_named() -> None:
    where, code, _ = only_refusal(asked("caltech/onyx"), THREE_SITES, {})
    assert (where, code) == ("caltech/onyx", RefusalCode.SITE_DOWN)


def test_asking_for_more_than_a_resource_has_says_how_much_it_has() -> None:
    where, code, detail = only_refusal(asked("sdsc/sp2:100 + sdsc/sp2:100"), THREE_SITES, ALL_FREE)
    assert (where, code) == ("sdsc/sp2", RefusalCode.TOO_MUCH)
    assert detail == "200 units are needed at one time, but it has 128"


def test_a_busy_resource_says_how_long_its_longest_free_time_is() -> None:
    free = {**ALL_FREE, "sdsc/sp2": [(T0, T0 + 1500, 64), (T0 + 1500, T0 + DAY, 63)]}
    where, code, detail = only_refusal(asked("sdsc/sp2:64 + caltech/onyx"), THREE_SITES, free)
    assert (where, code) == ("sdsc/sp2", RefusalCode.BUSY)
    assert detail == "64 units for 1h are needed; the longest time with that much free is 25m"


def test_a_length_off_the_grain_is_told_from_a_busy_time() -> None:
    where, code, detail = only_refusal(asked("ncsa/printer", "15m"), THREE_SITES, ALL_FREE)
    assert (where, code) == ("ncsa/printer", RefusalCode.OFF_GRAIN)
    assert detail == "it is booked in multiples of 10m; 15m is not one"
    where, code, _ = only_refusal(asked("ncsa/printer", at=T0 + 60), THREE_SITES, ALL_FREE)
    assert (where, code) == ("ncsa/printer", RefusalCode.OFF_GRAIN)


def test_grains_that_never_meet_are_told_from_a_busy_time() -> None:
    infos = known(info("a/x", grain_s=600), info("b/x", grain_s=600))
    free = {name: [(T0, T0 + DAY, 1)] for name in infos}
    where, code, detail = only_refusal(asked("a/x + b/x @+5m"), infos, free)
    assert (where, code) == ("b/x", RefusalCode.OFF_GRAIN)
    assert "a/x never meet" in detail


def test_resources_free_only_at_different_times_are_named() -> None:
    free = {
        **ALL_FREE,
        "sdsc/sp2": [(T0, T0 + 2 * H, 9)],
        "caltech/onyx": [(T0 + 2 * H, T0 + DAY, 1)],
    }
    where, code, detail = only_refusal(asked("sdsc/sp2 + caltech/onyx"), THREE_SITES, free)
    assert (where, code) == ("caltech/onyx", RefusalCode.BUSY)
    assert detail == "it is free at times, but never together with sdsc/sp2"


def test_too_few_resources_with_the_attributes_are_counted() -> None:
    free = {name: [(T0, T0 + DAY, 1)] for name in LAB}
    where, code, detail = only_refusal(asked("4 of {kind=sgi}"), LAB, free)
    assert (where, code) == ("4 of {kind=sgi}", RefusalCode.UNKNOWN_RESOURCE)
    assert detail == "3 resources have these attributes; 4 are needed"
    where, code, detail = only_refusal(asked("2 of {kind=sgi}:2"), LAB, free)
    assert code == RefusalCode.TOO_MUCH
    assert detail == "3 resources have these attributes, 0 with 2 units; 2 are needed"
    _, _, detail = only_refusal(asked("{kind=vax}"), LAB, free)
    assert detail == "no resources have these attributes; 1 is needed"


def test_too_few_resources_free_together_are_counted() -> None:
    free = {f"lab/sgi{n}": [(T0 + n * H, T0 + (n + 2) * H, 1)] for n in (1, 2, 3)}
    where, code, detail = only_refusal(asked("3 of {kind=sgi}"), LAB, free)
    assert (where, code) == ("3 of {kind=sgi}", RefusalCode.BUSY)
    assert detail == "only 2 of 3 needed resources are ever free together"


def test_too_few_resources_free_beside_a_named_one_are_counted() -> None:
    free = {f"lab/sgi{n}": [(T0 + n * H, T0 + (n + 2) * H, 1)] for n in (1, 2, 3)}
    free["lab/pc1"] = [(T0, T0 + 2 * H, 1)]
    _, code, detail = only_refusal(asked("2 of {kind=sgi} + lab/pc1"), LAB, free)
    assert code == RefusalCode.BUSY
    assert detail == "only 1 of 2 needed resources are ever free together with lab/pc1"


def test_terms_that_compete_for_too_few_resources_are_told_together() -> None:
    free = {name: [(T0, T0 + DAY, 1)] for name in LAB}
    where, code, _ = only_refusal(asked("2 of {kind=sgi} + 2 of {kind=sgi}"), LAB, free)
    assert (where, code) == ("2 of {kind=sgi} + 2 of {kind=sgi}", RefusalCode.BUSY)


def test_a_plan_that_others_were_faster_at_is_explained_as_such() -> None:
    (refusal,) = explain(asked("caltech/onyx"), THREE_SITES, ALL_FREE)
    assert refusal.code == RefusalCode.BUSY
    assert "other requests took" in refusal.detail
