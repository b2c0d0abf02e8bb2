"""A slot for which nobody came is given back at all sites; one whose user came, or may have come, never."""

from __future__ import annotations

import random
from typing import Final

import pytest
from tests.protocol_broker import START
from tests.protocol_support import Site
from tests.reclaim_world import ReclaimWorld

from kalends.contract import messages as m
from kalends.contract.owner_calls import CheckedIn, CheckIn
from kalends.core.errors import Conflict, NotFound
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.attendance.attendance import EARLY_S, Attendance
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.kernel import Kernel
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs

WAITS_S: Final = 900
BOTH: Final = "here/one + there/one"
SEEDS: Final = 40
STEP_S: Final = 60


class OwnersSite(Site):
    """A site whose owner gives back what nobody came for within a quarter of an hour."""

    attendance: type[Attendance] = Attendance

    @property
    def wings(self) -> tuple[type, ...]:  # type: ignore[override]  # a test chooses the class
        return (PlacedJobs, self.attendance)

    def restart(self, *, come_back: bool = True) -> None:
        super().restart(come_back=come_back)
        for calendar in self.participant.book.calendars.values():
            calendar.rules.no_show_s = WAITS_S

    def check_in(self, rid: str, user: str = "") -> CheckedIn:
        return self.call(
            lambda participant, now: participant.wing(Attendance).check_in(
                CheckIn(id=rid), user, now
            )
        )


class World(ReclaimWorld):
    site_type = OwnersSite

    def __init__(self) -> None:
        super().__init__()
        self.reclaimed_by: set[str] = set()

    def site(self, name: str) -> OwnersSite:
        site = self.sites[name]
        assert isinstance(site, OwnersSite)
        return site

    def until(self, seconds: int) -> None:
        """Until so many seconds after the start of a reservation that begins in an hour."""
        left = START + 3_600 + seconds - self.site("here").now.wall_s
        if left > 1_200 and seconds < -EARLY_S:
            self.leap(left - 600)
            left = 600
        self.steps(left)

    def leap(self, seconds: int) -> None:
        """All sleep."""
        for each in (*self.sites.values(), *self.brokers.values()):
            each.ms += seconds * 1_000

    def steps(self, seconds: int) -> None:
        """As `wait`, in steps that a site which is there looks in."""
        for _ in range(-(-max(0, seconds) // STEP_S)):
            for broker in self.brokers.values():
                broker.advance(STEP_S * 1_000)
            for name, site in self.sites.items():
                found = site.advance(STEP_S * 1_000).sends
                asks = [e for e in found if isinstance(e.message, m.Reclaim) and e.message.cancel]
                self.reclaimed_by |= {name} if asks else set()
                site.unsent += found
            self.deliver()

    def state(self, rid: str) -> str:
        return self.standing(rid).state


def test_what_nobody_came_for_is_given_back_at_all_sites_and_its_user_told_why() -> None:
    world = World()
    rid = world.book(BOTH, at=1)
    world.until(WAITS_S - 60)
    assert world.state(rid) == "reserved"
    world.until(WAITS_S + 120)
    assert world.state(rid) == "cancelled"
    assert world.locked("here") == world.locked("there") == []
    assert "no check-in within 15m" in dict(world.story(rid))["reclaimed"]
    (absence,) = world.site("here").reminders.absences()
    assert [(each.user, each.state) for each in absence.reservations] == [("ann", "cancelled")]
    assert world.reclaims("here") == []


@pytest.mark.parametrize("came_s", [-EARLY_S, 0, WAITS_S - 60])
def test_a_reservation_whose_user_came_stays(came_s: int) -> None:
    world = World()
    rid = world.book(BOTH, at=1)
    world.until(came_s)
    for name in world.sites:
        first = world.site(name).check_in(rid, "ann")
        assert world.site(name).check_in(rid[-8:], "ann") == first
    world.until(3_000)
    assert world.state(rid) == "reserved"
    assert not world.reclaimed_by


def test_nobody_checks_in_too_early_or_for_another_user_or_too_late() -> None:
    world = World()
    rid = world.book(BOTH, at=1)
    here = world.site("here")
    world.until(-EARLY_S - 60)
    with pytest.raises(NotFound):
        here.check_in(rid, "ann")
    world.until(0)
    with pytest.raises(NotFound):
        here.check_in(rid, "bob")
    world.lost = {m.Reclaim}
    world.until(WAITS_S + 120)
    with pytest.raises(Conflict):
        here.check_in(rid, "ann")
    here.restart()
    with pytest.raises(Conflict):
        here.check_in(rid, "ann")


def test_a_check_in_holds_over_a_restart_and_for_what_takes_the_place_of_the_slot() -> None:
    world = World()
    rid = world.book("here/one", at=1)
    world.until(60)
    came = world.site("here").check_in(rid).came_at
    world.site("here").restart()
    stake = world.site("here").participant.book.stakes.peek(rid)
    assert stake is not None
    assert stake.came_at == came


@pytest.mark.parametrize("at_s", [-EARLY_S + 60, 60, WAITS_S - 60])
def test_a_site_that_was_down_in_the_window_gives_nothing_back(at_s: int) -> None:
    world = World()
    rid = world.book("here/one", at=1)
    world.until(at_s)
    world.site("here").restart()
    world.deliver()
    world.until(3_000)
    assert world.state(rid) == "reserved"


def test_a_site_that_slept_in_the_window_gives_nothing_back() -> None:
    world = World()
    rid = world.book("here/one", at=1)
    world.until(0)
    world.leap(1_200)
    world.until(3_000)
    assert world.state(rid) == "reserved"


def test_a_site_without_the_rule_never_looks() -> None:
    site = Site()
    wing = Attendance.__new__(Attendance)
    wing._book = site.participant.book
    assert wing.next_deadline_ms() is None


# Random schedules, and broken sites that they catch


def play(seed: int) -> None:
    """Check-ins, restarts, lost messages and replicas that begin anew, at random times."""
    draw = random.Random(seed)
    world = World()
    rid = world.book(BOTH, at=1)
    world.until(-2_700)
    acts = sorted((draw.randrange(-2_400, 1_800, STEP_S), draw.random()) for _ in range(4))
    came: set[str] = set()
    down: set[str] = set()
    for at_s, kind in acts:
        world.until(at_s)
        name = draw.choice(["here", "there"])
        if kind < 0.4:
            try:
                world.site(name).check_in(rid, "ann")
            except (Conflict, NotFound):
                pass
            else:
                came.add(name)
                assert name not in world.reclaimed_by, "a check-in counts, and the slot goes"
        elif kind < 0.7:
            world.site(name).restart()
            if -EARLY_S < at_s < WAITS_S:
                down.add(name)
        elif kind < 0.85:
            world.lost = {m.Reclaim} ^ world.lost
        else:
            world.start(draw.choice("ab"))
        world.deliver()
    world.lost = set()
    world.until(2_700)
    asked = world.reclaimed_by
    assert not asked & came, "given back by the site where somebody came"
    assert not asked & down, "given back by a site that was down"
    if {"here", "there"} <= came | down:
        assert world.state(rid) == "reserved"
    else:
        assert world.state(rid) == "cancelled"
        assert world.locked("here") == world.locked("there") == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_nothing_is_given_back_whose_user_came(seed: int) -> None:
    play(seed)


class FreesThoughSomebodyCame(Attendance):
    def _nobody_came(self, stake: Stake, claim: Claim, waits_s: int, now_s: int) -> bool:
        stake = type(stake)(**{f: getattr(stake, f) for f in stake.__struct_fields__})
        stake.came_at = 0
        return super()._nobody_came(stake, claim, waits_s, now_s)


class FreesAfterAnOutage(Attendance):
    def advance(self, now: Moment) -> None:
        self._up_since_s = 0
        super().advance(now)


class ForgetsWhoCame(Attendance):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._claims = _NothingIsNoted()  # type: ignore[assignment]


class _NothingIsNoted:
    def note_came(self, stake: Stake, came_at: int) -> None:
        """Store nothing."""


class TakesLateCheckIns(Attendance):
    def check_in(self, body: CheckIn, user: str, now: Moment) -> CheckedIn:
        prior, self._prior = self._prior, _NothingGoes()  # type: ignore[assignment]
        try:
            return super().check_in(body, user, now)
        finally:
            self._prior = prior


class _NothingGoes:
    def is_given_back(self, rid: str) -> bool:
        return False


BROKEN: Final[tuple[type[Attendance], ...]] = (
    FreesThoughSomebodyCame, FreesAfterAnOutage, ForgetsWhoCame, TakesLateCheckIns,
)  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_site_is_caught_within_a_few_schedules(
    broken: type[Attendance], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnersSite, "attendance", broken)
    caught: list[int] = []
    for seed in range(4 * SEEDS):
        try:
            play(seed)
        except AssertionError:
            caught.append(seed)
            break
    assert caught, broken.__name__
