"""Choice of a virtual site's members to ask: by its manager, if it answers in time.

Each virtual site has a manager (Weissman and Grimshaw 1996, section 3), which knows its members by all that
brokers have asked of them. Its answer is an opinion. The broker asks the members itself, holds their places
and decides; where the manager is silent, or has no choice, it asks those that it would have chosen itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.wings import Ground
from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.core.limits import WINDOW_S_MAX
from kalends.federation.experience import Experience
from kalends.federation.site_choice import Bidder


class Referral(NamedTuple):
    """A `question` to the manager of `virtual`; its answer goes to `Solicitation.referred`."""

    virtual: str
    question: m.Refer


@dataclass(frozen=True, slots=True)
class OwnChoice:
    """Referral by the broker alone: ask the sites `own`, of those at the ends of the ways in `site_at`."""

    own: tuple[str, ...]
    site_at: Mapping[str, str]

    def named(self, ways: Sequence[str]) -> tuple[str, ...]:
        """Return the sites that a manager has named; none where it has named others, or too many."""
        if len(ways) > len(self.own) or not self.site_at.keys() >= set(ways):
            return ()
        return tuple(dict.fromkeys(self.site_at[way] for way in ways))


@dataclass(eq=False)
class SiteManagers:
    """The managers of all virtual sites. Like a site, one that did not answer is left alone for a while."""

    ground: Ground
    experience: Experience
    answer: Callable[[Referral, Sequence[str] | None, Moment], None]
    """Takes what a manager has answered."""

    def refer(
        self,
        case: Transaction,
        choices: dict[str, OwnChoice],
        asked: Sequence[str],
        homes: Collection[str],
        bidders: Mapping[str, Bidder],
        now: Moment,
    ) -> list[str]:
        """Leave it to managers which of their members are asked instead of those that are to be `asked`.

        Return whom of `asked` the broker asks at once: homes, sites that are no members, and members of
        managers who would have no choice, or rest.
        """
        virtual_of = {site: self.ground.directory.sites[site].virtual for site in bidders}
        left = list(asked)
        for virtual in dict.fromkeys(virtual_of[site] for site in asked):
            own = tuple(each for each in asked if virtual_of[each] == virtual and each not in homes)
            members = [
                each
                for site, each in bidders.items()
                if virtual_of[site] == virtual and site not in homes
            ]
            if virtual and 0 < len(own) < len(members) and not self.experience.rests(virtual, now):
                left = [site for site in left if site not in own]
                self._ask(case, choices, virtual, own, members, now)
        return left

    def _ask(
        self,
        case: Transaction,
        choices: dict[str, OwnChoice],
        virtual: str,
        own: tuple[str, ...],
        members: Sequence[Bidder],
        now: Moment,
    ) -> None:
        way_of = {each.site: self.ground.directory.sites[each.site].way for each in members}
        candidates = tuple(_candidate(way_of[each.site], each) for each in members)
        choices[virtual] = OwnChoice(own, {way: site for site, way in way_of.items()})
        self.experience.asked(virtual, now)
        record = case.record
        question = m.Refer(rid=record.rid, att=record.att, count=len(own), candidates=candidates)
        referral = Referral(virtual, question)
        self.ground.outbox.ask(referral, partial(self.answer, referral))

    def answered(
        self,
        case: Transaction,
        choices: dict[str, OwnChoice],
        referral: Referral,
        ways: Sequence[str] | None,
        now: Moment,
    ) -> Sequence[str]:
        """Return the sites to ask now that a manager has answered, or cannot be reached (None)."""
        virtual = referral.virtual
        if case.record.att != referral.question.att or virtual not in choices:
            return ()
        choice = choices.pop(virtual)
        if named := choice.named(ways or ()):
            self.experience.back(virtual)
            return named
        self.experience.silent(virtual, self.ground.jitter(), now)
        return choice.own

    def given_up(self, choices: dict[str, OwnChoice], now: Moment) -> list[str]:
        """Return the sites to ask instead of those that silent managers would have named."""
        for virtual in choices:
            self.experience.silent(virtual, self.ground.jitter(), now)
        own = [site for choice in choices.values() for site in choice.own]
        choices.clear()
        return own


def _candidate(way: str, bidder: Bidder) -> m.MemberBidder:
    most_s = float(WINDOW_S_MAX)
    return m.MemberBidder(way, min(bidder.preference_s, most_s), min(bidder.runs_s, most_s))
