"""Splits of a job over members of a virtual site, compared with all splits that there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.core.limits import SPLIT_MACHINES_MAX, SPLITS_MAX, TERMS_MAX, UNITS_MAX
from kalends.core.transport import Rates
from kalends.virtual_sites.manager import split
from kalends.virtual_sites.overheard import Overheard
from kalends.virtual_sites.splits import TOGETHER_MAX, JobTraffic, MemberNodes, splits

MEMBERS = ("m0", "m1", "m2", "m3", "m4")

NOW = Moment(1_000, 1_800_000_000_000)

links = st.dictionaries(
    st.sampled_from([*combinations(MEMBERS, 2)]), st.integers(1, 200), max_size=10
)
groups = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(
    lambda sizes: [MemberNodes(MEMBERS[n], size, float(n % 2)) for n, size in enumerate(sizes)]
)


def every_split(members: Sequence[MemberNodes], nodes: int) -> Iterator[dict[str, int]]:
    """All ways to divide `nodes`, the slow and obvious way."""
    for some in product(*(range(each.nodes + 1) for each in members)):
        if sum(some) == nodes:
            yield {each.member: n for each, n in zip(members, some, strict=True) if n}


def carried(
    found: dict[str, int], nodes: int, traffic: float, rates: dict[tuple[str, str], int]
) -> bool:
    """Whether each link carries what its members exchange."""
    return all(
        found[one] * found[other] * traffic <= rates.get((one, other), 0) * (nodes - 1)
        for one, other in combinations(sorted(found), 2)
    )


def exchange(nodes: int, traffic: float, rates: dict[tuple[str, str], int]) -> JobTraffic:
    return JobTraffic(
        nodes, float(traffic), Rates([(pair, float(rate)) for pair, rate in rates.items()])
    )


@given(groups, st.integers(1, 30), st.integers(0, 60), links)
def test_a_split_is_found_if_there_is_one_and_by_as_few_members(
    members: list[MemberNodes], nodes: int, traffic: int, rates: dict[tuple[str, str], int]
) -> None:
    found, lack = splits(members, exchange(nodes, traffic, rates), SPLITS_MAX)
    right = [
        each
        for each in every_split(members, nodes)
        if len(each) <= TOGETHER_MAX and carried(each, nodes, traffic, rates)
    ]
    assert bool(found) == bool(right)
    fewest = min(map(len, right), default=0)
    assert [len(each) for each in found] == [fewest] * len(found)
    assert all(each in right for each in found)
    assert len({tuple(sorted(each.items())) for each in found}) == len(found) <= SPLITS_MAX
    enough = any(
        sum(each.nodes for each in some) >= nodes
        for together in range(1, TOGETHER_MAX + 1)
        for some in combinations(members, together)
    )
    assert (lack is not None) == (enough and not found)


@given(groups, st.integers(2, 30), st.integers(1, 60), links)
def test_what_is_said_to_fit_fits(
    members: list[MemberNodes], nodes: int, traffic: int, rates: dict[tuple[str, str], int]
) -> None:
    _, lack = splits(members, exchange(nodes, traffic, rates), SPLITS_MAX)
    if lack is None:
        return
    assert lack.needs_mb_per_s > lack.mb_per_s
    assert lack.mb_per_s == rates.get(tuple(sorted(lack.members)), 0)  # type: ignore[call-overload]
    assert lack.fits_mb_per_s < traffic
    if lack.fits_mb_per_s:
        less = exchange(nodes, lack.fits_mb_per_s * 0.999, rates)
        assert splits(members, less, SPLITS_MAX)[0]


@given(groups, st.integers(1, 30))
def test_of_members_that_are_as_many_those_who_start_sooner_come_first(
    members: list[MemberNodes], nodes: int
) -> None:
    found, _ = splits(members, exchange(nodes, 0, {}), SPLITS_MAX)
    wait_s = {each.member: each.wait_s for each in members}
    waits = [max(wait_s[member] for member in each) for each in found]
    assert waits == sorted(waits)


def test_a_question_of_any_size_is_answered_within_a_bounded_effort() -> None:
    rates = dict.fromkeys(combinations([f"m{n}" for n in range(200)], 2), 1)
    members = [MemberNodes(f"m{n}", UNITS_MAX // 200 + n, 0.0) for n in range(200)]
    for nodes, traffic in ((UNITS_MAX // 55, 1e9), (UNITS_MAX // 55, 1e-300), (UNITS_MAX, 1.0)):
        found, lack = splits(members, exchange(nodes, traffic, rates), SPLITS_MAX)
        assert bool(found) == (traffic < 1 and nodes < UNITS_MAX)
        assert (lack is not None) == (not found and nodes < UNITS_MAX)


def test_the_answer_names_machines_of_each_member_the_largest_first_and_stays_within_one_alternative() -> (
    None
):
    many = [m.MemberMachine("m0", f"m0/box{n}", 1) for n in range(SPLIT_MACHINES_MAX - 3)]
    few = [m.MemberMachine("west/m1", f"m1/box{n}", 8 - n) for n in range(3)]
    question = m.Split(nodes=22, machines=(*many, *few))
    answer = split(question, Rates(), Overheard(), NOW)
    (first, *_) = answer.splits
    assert [share for share in first if share.machine.startswith("m1/")] == [
        m.NodeShare("m1/box0", 8), m.NodeShare("m1/box1", 7), m.NodeShare("m1/box2", 6),
    ]  # fmt: skip
    assert all(len(each) <= TERMS_MAX for each in answer.splits)
    assert all(sum(share.nodes for share in each) == 22 for each in answer.splits)


def test_a_manager_prefers_members_that_have_told_shorter_waits() -> None:
    overheard = Overheard()
    for way, wait_s in (("m0", 9_000), ("m1", 10), ("m2", 10)):
        for _ in range(10):
            overheard.experience.bid(way, 100, wait_s, NOW)
    machines = tuple(m.MemberMachine(way, f"{way}/box", 4) for way in ("m0", "m1", "m2"))
    answer = split(m.Split(nodes=6, machines=machines), Rates(), overheard, NOW)
    assert {share.machine for share in answer.splits[0]} == {"m1/box", "m2/box"}
    assert {share.machine for share in answer.splits[-1]} > {"m0/box"}
