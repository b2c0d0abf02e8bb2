"""What `find` says over real calendars: alternatives, prices, and which bookings are in the way."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import pytest
from serving_support import ManualClock
from tests.support.bookings import booking

from kalends.broker.planning.directory import Directory
from kalends.broker.planning.polling.site_statistics import Odds
from kalends.broker.planning.polling.views import poll_views
from kalends.broker.searches.availability_queries import AvailabilityQueries
from kalends.broker.searches.searches import Searches
from kalends.broker.searches.site_queries import SiteQueries
from kalends.calendars import (
    AccessList,
    AccessRule,
    Limit,
    Limits,
    OwnerRules,
    ResourceCalendar,
    UsageShare,
)
from kalends.calendars.rules.access import open_access
from kalends.contract import calls
from kalends.contract import messages as m
from kalends.core.errors import Conflict, NotFound, RefusalCode, Unavailable
from kalends.core.intervals import Moment
from kalends.core.language import parse_request
from kalends.core.principals import Principal
from kalends.core.requests import Request
from kalends.core.resources import ResourceInfo
from kalends.federation.experience import Experience
from kalends.resource_servers.participation.participant import Participant
from kalends.servers.restored_participant import site_machine
from kalends.serving.auth.callers import Caller
from kalends.serving.logs import get_logger

T0 = 1_800_000_000
H = 3_600
ADA = Caller(Principal("ada"), frozenset(), "t")


class Site:
    """The site `lab` with its calendars, asked as over a session that loses nothing.

    Resources whose name ends with `hidden` are for its staff only.
    """

    def __init__(self, *infos: ResourceInfo) -> None:
        staff = AccessList([AccessRule("staff", "group:staff", ("see",))])
        self.calendars = {
            info.name: ResourceCalendar(
                info, staff if info.name.endswith("hidden") else open_access()
            )
            for info in infos
        }
        self.ids = itertools.count(1)
        self.participant = self.begun()
        self.directory = Directory({"lab": "http://lab", "far": "http://far"})
        self.directory.greet(m.Hello(site="lab", epoch=1, resources=infos))
        self.asked: list[m.Query] = []
        self.queries = SiteQueries(self.send)
        clock = ManualClock()
        clock.wall_now_s = T0
        self.now = Moment(int(clock.monotonic_s() * 1_000), T0 * 1_000)
        self.experience = Experience()
        searches = Searches(self.directory, get_logger(role="broker", name="npaci"))
        self.availability = AvailabilityQueries(
            self.directory, self.queries, clock, searches, self._polls, lambda: self.experience
        )
        self.silent: set[str] = set()

    def begun(self) -> Participant:
        return site_machine(
            "lab", self.calendars, epoch=1, jitter=lambda: 0.0, now=Moment(0, T0 * 1_000)
        )

    def limit(self, name: str, *limits: Limit) -> None:
        """A site counts what its limits mention from its start on."""
        self.calendars[name].rules = OwnerRules(Limits(limits))
        self.participant = self.begun()

    def _polls(self, request: Request, hidden: Collection[str]) -> tuple[calls.PollView, ...]:
        return poll_views(request, self.directory, Odds(), T0, hidden=hidden)

    def send(self, site: str, message: m.Message) -> None:
        assert isinstance(message, m.Query)
        if site in self.silent:
            self.queries.lost(site)
            return
        self.asked.append(message)
        self.queries.answered(site, self.participant.views.look(message, T0))

    def taken(self, name: str, start: int, end: int, units: int = 1, holder: str = "bob") -> None:
        """Hours from now."""
        self.calendars[name].book(
            booking(
                next(self.ids), T0 + start * H, T0 + end * H, units=units, state="locked", holder=holder
            )
        )  # fmt: skip

    async def find(self, text: str, *, hours: int = 8, explain: bool = True) -> calls.Found:
        request = parse_request(
            text, duration="2h", now_s=T0, zone="UTC", not_before=T0, not_after=T0 + hours * H
        )
        return await self.availability.find(ADA, calls.Find(request=request, explain=explain))


def two_machines() -> Site:
    return Site(
        ResourceInfo(name="lab/one", attributes={"kind": "x"}),
        ResourceInfo(name="lab/two", capacity=4, attributes={"kind": "x", "fast": True}),
    )


@pytest.fixture
def site() -> Site:
    return two_machines()


def hours(found: calls.Found) -> list[tuple[float, int, float]]:
    return [((each.start - T0) / H, each.alternative, each.weight) for each in found.candidates]


async def test_candidates_come_with_their_alternative_and_weight(site: Site) -> None:
    site.taken("lab/two", 0, 3, 4)
    found = await site.find("lab/one | {kind=x, fast=true weight 2}:2", hours=5, explain=False)
    assert hours(found) == [(3, 1, 2.0), (0, 0, 0.0), (2, 0, 0.0)]
    assert len(site.asked) == 1
    assert all(each.price is None for each in found.candidates)


async def test_each_start_is_priced_by_the_time_that_it_leaves_idle(site: Site) -> None:
    site.taken("lab/one", 0, 1)
    site.taken("lab/one", 4, 5)
    found = await site.find("lab/one")
    prices = [
        (start, each.price)
        for (start, _, _), each in zip(hours(found), found.candidates, strict=True)
    ]
    assert prices == [(1, calls.Price(idle_unit_s=H)), (5, calls.Price())]


async def test_what_is_longer_than_the_owner_lets_anybody_book_is_not_found(site: Site) -> None:
    short = Limit("short", "everyone", longest_s=H)
    site.calendars["lab/one"].rules = OwnerRules(Limits([short]))
    found = await site.find("lab/one | lab/two", explain=False)
    assert {claim.resource for each in found.candidates for claim in each.claims} == {"lab/two"}
    alone = await site.find("lab/one", explain=False)
    assert alone.candidates == ()
    assert [(each.where, each.code, each.rule) for each in alone.refusals] == [
        ("lab/one", RefusalCode.TOO_LONG, "short")
    ]


async def test_without_a_start_the_fewest_bookings_in_the_way_are_told(site: Site) -> None:
    for start in range(0, 8, 2):
        site.taken("lab/one", start, start + 1)
        site.taken("lab/one", start + 1, start + 2)
    site.taken("lab/two", 0, 8, 1, "ada")
    site.taken("lab/two", 0, 8, 3)
    found = await site.find("lab/one | lab/two:2")
    assert found.candidates == ()
    assert [(each.start, each.resource, each.slot.units) for each in found.obstacles] == [
        (T0, "lab/two", 3)
    ]
    assert found.fewest
    assert [each.detail.partition(":")[0] for each in found.refusals] == [
        "alternative 1", "alternative 2",
    ]  # fmt: skip
    plainly = await site.find("lab/one | lab/two:2", explain=False)
    assert plainly.obstacles == ()
    assert plainly.refusals == found.refusals


async def test_a_better_start_that_is_only_taken_is_told_beside_the_candidates(site: Site) -> None:
    site.taken("lab/one", 0, 1)
    found = await site.find("lab/one")
    assert hours(found)[0] == (1, 0, 0.0)
    assert [(each.start, each.slot.start) for each in found.obstacles] == [(T0, T0)]
    free = await two_machines().find("lab/one")
    assert free.obstacles == ()


async def test_a_users_own_windows_are_named_where_only_they_leave_no_start(site: Site) -> None:
    """It is eight o'clock in UTC. Only bookings in a window, or at a preferred time, are in the way."""
    site.taken("lab/one", 0, 3)
    found = await site.find("lab/one between 08:00 11:00")
    (refusal,) = found.refusals
    assert refusal.detail == "no start of lab/one lies in your 08:00-11:00 (UTC)"
    assert [(each.start, each.slot.start) for each in found.obstacles] == [(T0, T0)]
    found = await site.find("lab/one prefer 08:00 09:00 weight 2 | lab/two between 12:00 14:00")
    assert hours(found) == [(3, 0, 0.0), (4, 1, 0.0), (5, 0, 0.0)]
    assert [(each.start, each.slot.start) for each in found.obstacles] == [(T0, T0)]
    free = await site.find("lab/two between 12:00 14:00")
    assert (hours(free), free.obstacles) == ([(4, 0, 0.0)], ())


async def test_who_holds_a_booking_in_the_way_is_told_only_where_it_may_be_seen(site: Site) -> None:
    site.taken("lab/one", 0, 8)
    (obstacle,) = (await site.find("lab/one")).obstacles
    (view,) = (await site.queries.ask(ADA.principal, {"lab": site.asked[0].wants}, detail=True))[
        "lab"
    ]
    assert obstacle.slot == view.slots[0]


async def test_what_the_owner_never_allows_has_no_obstacles(site: Site) -> None:
    site.taken("lab/two", 0, 8, 4)
    found = await site.find("lab/two:5")
    assert (found.candidates, found.obstacles) == ((), ())
    assert [each.code for each in found.refusals] == [RefusalCode.TOO_MUCH]


async def test_an_alternative_at_a_site_that_is_down_leaves_the_others() -> None:
    found = await two_machines().find("far/one weight 3 | lab/one")
    assert hours(found)[0] == (0, 1, 0.0)
    busy = two_machines()
    busy.taken("lab/one", 0, 8)
    refusals = (await busy.find("far/one | lab/one")).refusals
    assert [each.code for each in refusals] == [RefusalCode.SITE_DOWN, RefusalCode.BUSY]


async def test_a_resource_that_nobody_has_is_an_error_only_where_no_alternative_is_left() -> None:
    site = two_machines()
    with pytest.raises(NotFound):
        await site.find("lab/nine | lab/ten")
    site.taken("lab/one", 0, 8)
    found = await site.find("lab/nine | lab/one")
    assert [each.code for each in found.refusals] == [
        RefusalCode.UNKNOWN_RESOURCE, RefusalCode.BUSY,
    ]  # fmt: skip


async def test_what_a_silent_site_may_hide_is_not_counted_among_the_candidates(site: Site) -> None:
    far = ResourceInfo(name="far/one", attributes={"kind": "x"})
    site.directory.greet(m.Hello(site="far", epoch=1, resources=(far,)))
    site.silent.add("far")
    (poll,) = (await site.find("{kind=x}")).polls
    assert poll.candidates == 2


async def test_the_state_of_a_site_tells_how_it_bids() -> None:
    site = Site()
    site.experience.bid("lab", 40.0, 600.0, site.now)
    site.experience.silent("far", 0.0, site.now)
    lab, far = (await site.availability.resources(ADA, calls.ListResources())).sites
    assert (lab.answer_ms, lab.rests_s) == (40, 0)
    assert 0 < lab.wait_s <= 600
    assert (far.answer_ms, far.wait_s, far.rests_s) == (0, 0, 30)


async def refused(site: Site, text: str, **window: int) -> list[tuple[str, str, str]]:
    found = await site.find(text, explain=False, **window)
    assert found.candidates == ()
    return [(each.where, each.code, each.rule) for each in found.refusals]


async def test_a_cap_of_the_owner_is_named_and_never_called_busy(site: Site) -> None:
    site.calendars["lab/two"].access = AccessList(
        [AccessRule("few", "everyone", ("see", "hold", "lock"), units_max=2)]
    )
    cap = ("lab/two", RefusalCode.NOT_ALLOWED, "few")
    assert await refused(site, "lab/two:3") == [cap]
    assert cap in await refused(site, "{kind=x, fast=true}:3")
    site.taken("lab/two", 0, 8, 4)
    assert await refused(site, "lab/two:3") == [cap]
    assert await refused(site, "lab/two:2") == [("lab/two", RefusalCode.BUSY, "")]


async def test_who_may_only_look_is_told_so(site: Site) -> None:
    site.calendars["lab/one"].access = AccessList([AccessRule("look", "everyone", ("see",))])
    assert await refused(site, "lab/one") == [("lab/one", RefusalCode.NOT_ALLOWED, "access-list")]


async def test_beyond_the_horizon_nothing_is_called_busy() -> None:
    near = ResourceInfo(name="lab/near", horizon_s=H)
    assert await refused(Site(near), "lab/near") == [("lab/near", RefusalCode.BEYOND_HORIZON, "")]


async def test_a_rule_of_each_alternative_is_named(site: Site) -> None:
    site.calendars["lab/two"].access = AccessList(
        [AccessRule("few", "everyone", ("see", "hold", "lock"), units_max=2)]
    )
    late = OwnerRules(Limits([Limit("late", "everyone", lead_s=7 * H)]))
    site.calendars["lab/one"].rules = late
    assert await refused(site, "lab/one | lab/two:3") == [
        ("lab/one", RefusalCode.LEAD_TIME, "late"),
        ("lab/two", RefusalCode.NOT_ALLOWED, "few"),
    ]


async def test_what_a_week_leaves_is_all_that_is_found_and_its_rule_is_named(site: Site) -> None:
    week = Limit("hours", "everyone", share=UsageShare(unit_s=3 * H))
    site.limit("lab/two", week)
    assert await refused(site, "lab/two:2") == [("lab/two", RefusalCode.SHARE, "hours")]
    found = await site.find("lab/two", explain=False)
    assert found.candidates


async def test_a_limit_on_what_stands_is_named_by_a_look_that_finds_nothing_for_it() -> None:
    site = two_machines()
    site.limit("lab/two", Limit("hours", "everyone", locked_unit_s=3 * H))
    assert await refused(site, "lab/two:2") == [("lab/two", RefusalCode.LIMIT, "hours")]
    found = await site.find("lab/two", explain=False)
    assert found.candidates


async def test_a_drained_site_says_so_and_still_lists_what_it_has(site: Site) -> None:
    site.participant.admission.draining = True
    assert await refused(site, "lab/one") == [("lab/one", RefusalCode.DRAINED, "")]
    assert len((await site.availability.resources(ADA, calls.ListResources())).resources) == 2


async def test_the_calendar_of_a_resource_comes_with_the_rules_that_hold_for_the_caller() -> None:
    site = two_machines()
    site.calendars["lab/two"].access = AccessList(
        [
            AccessRule("staff", "group:staff", ("see", "hold", "lock")),
            AccessRule("rest", "everyone", ("see", "hold", "lock"), units_max=2),
        ]
    )
    site.calendars["lab/two"].rules = OwnerRules(
        Limits(
            [
                Limit("theirs", "group:staff", longest_s=4 * H),
                Limit("long", "user:ada", longest_s=3 * H),
                Limit("all", "everyone", longest_s=H, lead_s=H),
            ]
        )
    )
    view = await site.availability.calendar(
        ADA, calls.ShowCalendar(resource="lab/two", start=T0, end=T0 + H)
    )
    assert view.rules == (
        "rest (everyone): you may hold and lock, at most 2 units at once",
        "long (user:ada): at most 3h long",
        "all (everyone): at least 1h before",
    )


async def test_a_site_that_does_not_trust_the_broker_is_not_one_to_ask_again_later() -> None:
    site = two_machines()
    site.directory.lose("lab", "it does not trust this broker's key", unusable=True)
    with pytest.raises(Conflict) as caught:
        await site.find("lab/one")
    assert [each.code for each in caught.value.refusals] == [RefusalCode.SITE_UNUSABLE]
    site.directory.lose("lab", "it does not answer")
    with pytest.raises(Unavailable):
        await site.find("lab/one")


async def test_what_is_hidden_and_what_is_not_there_take_the_same_way_to_the_same_answer() -> None:
    told = []
    for name in ("lab/hidden", "lab/absent"):
        site = Site(ResourceInfo(name="lab/one"), ResourceInfo(name="lab/hidden"))
        shown = calls.ShowCalendar(resource=name, start=T0, end=T0 + H)
        said = []
        for look in (site.find(name), site.availability.calendar(ADA, shown)):
            with pytest.raises(NotFound) as caught:
                await look
            said.append(str(caught.value).replace(name, "NAME"))
        asked = [(len(query.wants), query.detail, query.counting) for query in site.asked]
        told.append((said, asked))
    assert told[0] == told[1]
    assert len(told[0][1]) == 2
