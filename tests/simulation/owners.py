"""Owners who approve bookings, decline them, or forget about them, while everything else goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kalends.calendars import Limit, Limits, OwnerRules, ResourceCalendar
from kalends.contract.owner_calls import DecideApproval
from kalends.core.errors import Conflict, Unavailable
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.claims.claim_sets import Stake
from tests.simulation.nodes import SiteNode
from tests.simulation.owners_words import OwnersWords
from tests.simulation.shipped_site import SHIPPED

if TYPE_CHECKING:
    from tests.simulation.world import World

WORD: Final = Limit("word", "everyone", approval="needed")
WITHIN_S: Final = 40
THINKS_MS: Final = 8_000
"""How long an owner thinks before the next look at the queue, at most."""


class AnsweredSoon(OwnerApproval):
    """Owners have so little time that some requests end without a word."""

    def within_s(self) -> int:
        return WITHIN_S


Guarded = partial(SHIPPED, consent=AnsweredSoon)
"""The shipped code, whose owners have less time."""


def owners_think(world: World) -> None:
    """Some owners approve each booking of theirs; every fault strikes."""
    _guard(world, nothing_fails=False)


def owners_answer(world: World) -> None:
    """The same, and nothing else goes wrong."""
    _guard(world, nothing_fails=True)


def _guard(world: World, *, nothing_fails: bool) -> None:
    OwnersWords(nothing_fails=nothing_fails).attach(world)
    random = world.kernel.random
    guarded = [site for site in world.sites if random.random() < 0.6] or world.sites[:1]
    for site in guarded:
        site._calendars = _with_word(site._calendars)
        world.auditor.guarded |= {f"{site.name}/x", f"{site.name}/n"}
        look_again(world, site)


def _with_word(
    make: Callable[[], dict[str, ResourceCalendar]],
) -> Callable[[], dict[str, ResourceCalendar]]:
    def guarded() -> dict[str, ResourceCalendar]:
        return {
            name: ResourceCalendar(each.info, each.access, (), OwnerRules(Limits([WORD])))
            for name, each in make().items()
        }

    return guarded


def look_again(world: World, site: SiteNode) -> None:
    """Let the owner of `site` look at its queue, now and then."""

    def look() -> None:
        site.enter(_decide, world, site)
        look_again(world, site)

    world.kernel.after(world.kernel.random.randrange(1, THINKS_MS), look)


def _decide(world: World, site: SiteNode) -> None:
    """Say a word about some of those who wait; a repeat, as of an answer that was lost, does no harm."""
    random = world.kernel.random
    for stake, petition in list(site.participant.wing(OwnerApproval).pending()):
        if not _may_be_decided(site, stake, petition.revision):
            continue
        choice = random.choices(("approve", "decline", "forget"), (60, 15, 25))[0]
        if choice == "forget":
            continue
        approve = choice == "approve"
        if petition.until_s <= site.now().wall_s:
            _say_too_late(site, stake.rid, petition.revision, approve=approve)
            continue
        if approve:
            world.auditor.approved.setdefault((site.name, stake.rid), []).append(petition)
        body = DecideApproval(
            id=stake.rid, approve=approve, revision=petition.revision, word=choice
        )
        for _ in range(random.choice((1, 1, 2))):
            site.participant.wing(OwnerApproval).decide(body, "owner", site.now())
        other = DecideApproval(id=stake.rid, approve=not approve, revision=petition.revision)
        try:
            site.participant.wing(OwnerApproval).decide(other, "owner", site.now())
        except Conflict:
            continue
        raise AssertionError(f"{site.name}: {stake.rid} was approved and declined")
    site._carry_out()


def _may_be_decided(site: SiteNode, stake: Stake, revision: int) -> bool:
    """Whether its broker has come in this life of the site; until then no word is taken."""
    if stake.register in site.participant.registers.welcomed():
        return site.participant.recovery.refusal() is None
    for approve in (True, False):
        body = DecideApproval(id=stake.rid, approve=approve, revision=revision)
        try:
            site.participant.wing(OwnerApproval).decide(body, "owner", site.now())
        except Unavailable:
            continue
        raise AssertionError(
            f"{site.name}: a word about {stake.rid} was taken before its broker came"
        )
    return False


def _say_too_late(site: SiteNode, rid: str, revision: int, *, approve: bool) -> None:
    """Its time is over, though the site has not noticed yet: no word counts any more."""
    body = DecideApproval(id=rid, approve=approve, revision=revision)
    try:
        site.participant.wing(OwnerApproval).decide(body, "owner", site.now())
    except Conflict:
        return
    raise AssertionError(f"{site.name}: a word about {rid} was taken after its time")
