"""What a broker chooses from the common times of near sites, against a twin that has heard every report."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.effort import examples

from kalends.broker.coordination.agents.agent_choice import Need, best_choice
from kalends.broker.coordination.agents.itinerary import Tour
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.common_times import (
    common_times,
    complaint_about,
    is_proved,
    report_in,
    seals_of,
    slots_of,
)
from kalends.core.scripts import Ask, HeldChoice, Starts

RID = "01a2b3c4-0000-7000-8000-000000000000"
SITES = ("a", "b", "c", "d")
KEYS = {site: site * 32 for site in SITES}


class Round(NamedTuple):
    """`region` are sites near one another, the hub first; the others are visited by themselves."""

    needs: tuple[Need, ...]
    asks: dict[str, tuple[Ask, ...]]
    reports: dict[str, m.SiteReport]
    region: tuple[str, ...]
    excluded: frozenset[int]

    def tour(self) -> Tour:
        others = {site: () for site in self.asks if site not in self.region}
        return Tour(
            self.needs, Starts(0, 9, 1), self.asks, {self.region[0]: self.region[1:], **others}
        )


def drawn_round(seed: int) -> Round:
    """Named terms, and n of k, alone or in groups that share no resource; each site with its offsets."""
    random = Random(seed)
    sites = SITES[: random.randint(2, 4)]
    asks: dict[str, list[Ask]] = {site: [] for site in sites}
    needs = []
    for term in range(random.randint(1, 4)):
        named, offset_s = random.random() < 0.5, random.choice((0, 3, -2))
        served = random.sample(sites, 1 if named else random.randint(1, len(sites)))
        names = {
            f"{site}/{name}" for site in served for name in random.choices("xyz", k=1 + (not named))
        }
        for name in sorted(names):
            asks[name[0]].append(Ask(term, name, random.randint(1, 3), 1, offset_s))
        wanted = 1 if named else random.randint(1, min(len(names), 2))
        needs.append(Need(term, wanted, -1 - term if named else random.randint(0, 1)))
    used = {site: tuple(of_site) for site, of_site in asks.items() if of_site}
    reports = {}
    for site, of_site in used.items():
        wanted_there = [(ask, common) for ask in of_site for common in range(4)]
        random.shuffle(wanted_there)
        first = random.randint(1, 900)
        held = tuple(
            HeldChoice(
                first + rank, ask.term, ask.resource, common + ask.offset_s,
                common + ask.offset_s + ask.length_s, ask.units, common,
            )
            for rank, (ask, common) in enumerate(wanted_there[: random.randint(0, 16)])
        )  # fmt: skip
        report = m.SiteReport(site, 1, held=held)
        reports[site] = replace(report, seals=seals_of(KEYS[site], RID, 1, report, of_site))
    region = random.sample(sorted(used), random.randint(min(2, len(used)), len(used)))
    excluded = frozenset(random.sample(range(4), random.randint(0, 1)))
    return Round(tuple(needs), used, reports, tuple(region), excluded)


rounds = st.integers(0, 1 << 32).map(drawn_round)


def answer_of(drawn: Round) -> m.CommonTimes | None:
    """Of an honest hub, if all of its region is visited through it."""
    meets = drawn.tour().meets(drawn.region[0])
    if not meets:
        return None
    return common_times([drawn.reports[site] for site in drawn.region], drawn.asks, meets)


@settings(max_examples=examples(400), deadline=None)
@given(rounds)
def test_the_best_time_among_common_times_is_the_best_among_all_reports(drawn: Round) -> None:
    held = [enumerate(drawn.reports[site].held) for site in sorted(drawn.reports)]
    twin = best_choice(drawn.needs, held, drawn.excluded)
    common = answer_of(drawn)
    event("forwarded" if common is None else "found" if twin else "nothing common to all")
    if common is None:
        return
    tour = drawn.tour()
    assert complaint_about(common) == ""
    assert is_proved(KEYS, RID, 1, common)
    told = [report_in(common, n, drawn.asks[part.site]) for n, part in enumerate(common.sites)]
    tour.met(drawn.region[0], common, [each for each in told if each is not None])
    for site in drawn.asks.keys() - set(drawn.region):
        tour.reports[site] = drawn.reports[site]
    assert tour.complete
    assert tour.choice(drawn.excluded) == twin


@settings(max_examples=examples(400), deadline=None)
@given(rounds, st.integers(0, 1 << 32))
def test_whatever_a_hub_makes_of_the_proofs_each_site_is_believed_only_what_it_said(
    drawn: Round, seed: int
) -> None:
    """The hub knows every single proof, and joins any of them with any words."""
    common = answer_of(drawn)
    if common is None:
        return
    random = Random(seed)
    said = sorted(random.sample(common.starts, random.randint(1, len(common.starts))))
    lie = replace(common, starts=tuple((start, _changed(random, picks)) for start, picks in said))
    seals = [seal for site in drawn.region[1:] for seal in drawn.reports[site].seals[1:]]
    random.shuffle(seals)
    joined = proofs.joined(seals[: random.randint(0, len(seals))])
    lie = replace(lie, seal=random.choice((joined, _honest_seal(drawn, lie), common.seal)))
    if complaint_about(lie) or not is_proved(KEYS, RID, 1, lie):
        event("not believed")
        return
    event("believed")
    for number, site in enumerate(lie.sites[1:], start=1):
        true = slots_of(drawn.reports[site.site], drawn.asks[site.site])
        assert true is not None
        assert site == true.part
        assert all(
            not picks[number] or picks[number] == true.starts.get(start)
            for start, picks in lie.starts
        )


def _changed(random: Random, picks: Any) -> Any:
    if random.random() < 0.8:
        return picks
    number = random.randrange(len(picks))
    other = random.choice(((), ((0, 0),), ((0, 1),), picks[number][1:]))
    return (*picks[:number], other, *picks[number + 1 :])


def _honest_seal(drawn: Round, lie: m.CommonTimes) -> str:
    """The proofs that there are for the starts of `lie`, as a hub would join them."""
    told = []
    for number, part in enumerate(lie.sites[1:], start=1):
        report = drawn.reports[part.site]
        starts = sorted({hold.common for hold in report.held})
        of_start = dict(zip(starts, report.seals[2:], strict=True))
        said = [start for start, picks in lie.starts if picks[number]]
        told += [report.seals[1], *(of_start[start] for start in said if start in of_start)]
    return proofs.joined(told)
