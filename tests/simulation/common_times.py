"""Common times that a hub makes for the sites near it: a hub that lies about them, and a judge.

The judge hears what each site itself says of each visit, and what a broker believes when it chooses. It also
chooses itself, like a broker that had heard every report in full.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from kalends.broker.coordination.agents.agent_choice import best_choice
from kalends.broker.coordination.agents.agent_dispatch import AgentDispatch
from kalends.broker.coordination.agents.itinerary import Tour
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.resource_servers.participation.visits.visiting_agents import VisitingAgents
from tests.simulation.hostile import HostileSite
from tests.simulation.nodes import SiteNode

if TYPE_CHECKING:
    from tests.simulation.world import World


class CommonTimesJudge:
    """A broker believes of an honest site nothing that this has not said, and misses nothing better."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        """How often a hub's answer was believed, and how often the twin had heard as much as the broker."""
        self._said: defaultdict[tuple[str, str, int], list[m.SiteReport]] = defaultdict(list)
        self._complaints: list[str] = []

    def attach(self, world: World) -> None:
        self._world = world
        for site in world.sites:
            self._listen(site)
        made: Any = world.make_coordinator
        judged = type("Judged", (_Judged, made.agents_type), {"judge": self})
        world.make_coordinator = type(made.__name__, (made,), {"agents_type": judged})
        world.judges.append(self)

    def finish(self) -> Sequence[str]:
        return self._complaints

    def _listen(self, site: SiteNode) -> None:
        send = site._send_to

        def sending(to: str, messages: list[Any]) -> None:
            for message in messages:
                if isinstance(message, m.Report):
                    self._hear(site, message)
            send(to, messages)

        site._send_to = sending  # type: ignore[method-assign]

    def _hear(self, site: SiteNode, report: m.Report) -> None:
        said = self._said[site.name, report.rid, report.att]
        said += [replace(each, seals=()) for each in report.sites[:1]]
        # A hub that answers for all does not say all that it holds.
        visit = site.participant.wing(VisitingAgents).visits.get(report.rid)
        if report.common is not None and visit is not None and visit.att == report.att:
            said += [visit.own] if visit.own is not None else []

    def believed(self, case: Any, tour: Tour) -> None:
        """A broker has all that it will have of a round, and chooses."""
        hostile = {node.name for node in self._world.hostile}
        self.found["common"] += bool(tour.common)
        full: dict[str, m.SiteReport] = {}
        for site, report in tour.reports.items():
            if site in hostile:
                continue
            said = self._said[site, case.rid, case.record.att]
            heard = [each for each in said if self._is_of(tour, site, report, each)]
            if heard:
                full[site] = heard[-1]
            elif not (site in tour.answered_by.values() and site in tour.common):
                self._complaints.append(
                    f"{case.rid} at {site}: believed is {report}, said was {said}"
                )
        if not tour.common or full.keys() != tour.asks.keys():
            return
        self.found["twin"] += 1
        held = [enumerate(full[site].held) for site in sorted(full)]
        twin = best_choice(tour.needs, held, case.tries.excluded_starts)
        chosen = tour.choice(case.tries.excluded_starts)
        if (twin and twin[:2]) != (chosen and chosen[:2]):
            self._complaints.append(f"{case.rid}: chosen is {chosen}, the best is {twin}")

    def _is_of(self, tour: Tour, site: str, believed: m.SiteReport, said: m.SiteReport) -> bool:
        """Whether `believed` is a part of what was `said`, with the places of all slots."""
        if site not in tour.common:
            return replace(believed, seals=()) == tour.believed(said)
        places = dict(tour._ranked(site))
        short = (believed.epoch, believed.sent, believed.run, believed.approval)
        return short == (said.epoch, said.sent, said.run, said.approval) and all(
            place < len(said.held) and said.held[place] == hold for place, hold in places.items()
        )


class _Judged(AgentDispatch):
    judge: CommonTimesJudge

    def toured(self, case: Any, now: Any) -> None:
        if case.agent.tour is not None:
            self.judge.believed(case, case.agent.tour)
        super().toured(case, now)


LIE_SHARE: Final = 0.7


class LyingHub(HostileSite):
    """A hub that tells lies, and little else: it has every proof that its near sites have given it."""

    def _send_to(self, to: str, messages: list[Any]) -> None:
        random = self.kernel.random
        lies = random.random() < LIE_SHARE
        told = [
            self._lie(each) if lies and isinstance(each, m.Report) else each for each in messages
        ]
        super()._send_to(to, told)

    def _lie(self, report: m.Report) -> m.Report:
        random = self.kernel.random
        if report.common is None:
            return replace(report, sites=(report.sites[0], *map(self._other, report.sites[1:])))
        lie = random.choice(LIES)
        common = lie(report.common, random)
        if random.random() < 0.5:
            common = replace(common, seal=self._best_seal(report, common))
        self._count("lied", report)
        return replace(report, common=common)

    def _other(self, report: m.SiteReport) -> m.SiteReport:
        return self.kernel.random.choice(
            (
                replace(report, held=()),
                replace(report, code="policy-violation", detail="it was the agent"),
                replace(report, sent=('"buy"',)),
                replace(report, wished=report.wished[::-1]),
                replace(report, approval=not report.approval),
                report,
            )
        )

    def _best_seal(self, report: m.Report, common: m.CommonTimes) -> str:
        """What joins all the proofs that there are for these starts."""
        visit = self.participant.wing(VisitingAgents).visits.get(report.rid)
        told: list[str] = []
        for number, part in enumerate(common.sites[1:] if visit is not None else (), start=1):
            near = visit.near.get(part.site)
            if near is None or not near.seals:
                continue
            of_start = dict(
                zip(sorted({h.common for h in near.held}), near.seals[2:], strict=False)
            )
            said = [
                start for start, picks in common.starts if number < len(picks) and picks[number]
            ]
            told += [near.seals[1], *(of_start[start] for start in said if start in of_start)]
        return proofs.joined(told)


def _fewer(common: m.CommonTimes, random: Random) -> m.CommonTimes:
    return replace(common, starts=tuple(random.sample(common.starts, 1)))


def _swapped(common: m.CommonTimes, random: Random) -> m.CommonTimes:
    times = [start for start, _ in common.starts]
    random.shuffle(times)
    moved = sorted(zip(times, (picks for _, picks in common.starts), strict=True))
    return replace(common, starts=tuple(moved))


def _later(common: m.CommonTimes, random: Random) -> m.CommonTimes:
    return replace(common, starts=tuple((start + 3_600, picks) for start, picks in common.starts))


def _other_places(common: m.CommonTimes, random: Random) -> m.CommonTimes:
    def other(picks: Any) -> Any:
        return tuple((place, random.randrange(4)) for place, _ in picks)

    starts = tuple((start, (own, *map(other, near))) for start, (own, *near) in common.starts)
    return replace(common, starts=starts)


def _without_picks(common: m.CommonTimes, random: Random) -> m.CommonTimes:
    starts = tuple((start, (own, *(() for _ in near))) for start, (own, *near) in common.starts)
    return replace(common, starts=starts)


def _part(**change: Any) -> Callable[[m.CommonTimes, Random], m.CommonTimes]:
    def changed(common: m.CommonTimes, random: Random) -> m.CommonTimes:
        near = tuple(replace(part, **change) for part in common.sites[1:])
        return replace(common, sites=(common.sites[0], *near))

    return changed


LIES: Final = (
    _fewer, _swapped, _later, _other_places, _without_picks, _part(sent=('"buy"',)), _part(approval=True),
    _part(first=77), _part(run="1"), _part(epoch=1),
)  # fmt: skip
"""What a hub makes of the common times that it has found."""
