"""Units that an owner has taken back for a time, while the rest of the resource can be booked.

They are booked for the owner as far as they are free, and what comes free later before anybody else is
offered it. What lacks still is what reservations have that stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kalends.calendars import profiles
from kalends.calendars.covers import Lack
from kalends.calendars.profiles import Step, combine, join, total
from kalends.contract.messages import Want
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.times import format_time
from kalends.resource_servers.participation.claims.claim_sets import Claim
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.earmarks import Stretch
from kalends.resource_servers.participation.claims.kept_room import KeptRoom
from kalends.resource_servers.participation.claims.occupancy import Piece


class OwnersShare(NamedTuple):
    """`piece` is the owner's; `reason` is for those who are refused.

    `known`: the queue of the machine knows of it otherwise.
    """

    piece: Piece
    reason: str
    known: bool = False


@dataclass(eq=False)
class OwnerRoom:
    """Partial reclaims of owners, by their keys.

    `kept` has nothing else in it. `unseen` is not told to queues.
    """

    book: ClaimTable
    kept: KeptRoom
    unseen: KeptRoom
    may_take: Callable[[], bool]
    """Whether what is free may be taken: not while what was locked may have to be locked again."""
    _shares: dict[str, OwnersShare] = field(default_factory=dict)
    _lacking: dict[str, list[Step]] = field(default_factory=dict)
    """For each reclaim that is not complete: the units that it lacks, over time."""
    _put_off: set[str] = field(default_factory=set)
    """Reclaims that have not taken the free units yet."""

    def take(self, key: str, share: OwnersShare) -> None:
        """From now on `share` is the owner's, as far as it is free, and as it comes free."""
        self._shares[key] = share
        self._keep_more(key)

    def give_up(self, key: str) -> None:
        """Nothing is the owner's by `key` any more."""
        share = self._shares.get(key)
        if share is not None:
            self._lacking.pop(key, None)
            self._put_off.discard(key)
            self._tell_moved(key)
            self._room(key).give_up(key)
            del self._shares[key]

    def catch(self, freed: Sequence[Stretch]) -> None:
        """Take of what came free what lacks, before it finds other takers."""
        if not self._lacking or not self.may_take():
            return
        for key in list(self._lacking):
            resource, start, end, _ = self._shares[key].piece
            if key in self._put_off or any(
                name == resource and begin < end and start < finish for name, begin, finish in freed
            ):
                self._keep_more(key)

    def lacking(self, key: str) -> Sequence[Step]:
        """Return when how many units of it lack: somebody has them."""
        return self._lacking.get(key, ())

    def lacks(self, key: str, holders: Sequence[tuple[int, Claim]]) -> list[Lack]:
        """Return what of the lack those have who hold some of it, by a number for each holder.

        What is held or promised there is not counted: it goes, or is decided, without anybody's being asked.
        """
        found = []
        borders = [(each.start, each.end, 1) for _, each in holders]
        for start, end, units in self._lacking_for_good(key):
            for begin, finish, _ in total(borders, start, end):
                held_by: dict[int, int] = {}
                for number, each in holders:
                    if each.start < finish and begin < each.end:
                        held_by[number] = held_by.get(number, 0) + each.units
                if held_by:
                    found.append(Lack(min(units, sum(held_by.values())), held_by))
        return found

    def _lacking_for_good(self, key: str) -> list[Step]:
        """Return what lacks beside all that is decided, and beside what has just come free."""
        if not self.lacking(key):
            return []
        resource, start, end, _ = self._shares[key].piece
        calendar = self.book.calendars[resource].calendar
        coming = [
            (each.start, each.end, each.units)
            for each in calendar.listing(start, end)
            if each.state != "locked"
        ]
        coming += calendar.walk(start, end)
        return [
            step
            for begin, finish, lack in self.lacking(key)
            for step in profiles.changed([(begin, finish, lack)], _less(coming), begin, finish)
            if step[2]
        ]

    def owed(self, claims: Iterable[Claim]) -> list[Piece]:
        """Return what of the room of `claims` the owner has first call on once they leave it."""
        return [
            (claim.resource, max(start, claim.start), min(end, claim.end), min(units, claim.units))
            for claim in claims
            for key, steps in self._lacking.items()
            if self._shares[key].piece[0] == claim.resource
            for start, end, units in steps
            if start < claim.end and claim.start < end
        ]

    def refusals(self, wants: Iterable[Want], own: Sequence[Claim]) -> Iterator[Refusal]:
        """Yield why `wants` cannot have room that lacks; `own` is booked for who wants them already."""
        for want in wants if self._lacking else ():
            for key, steps in self._lacking.items():
                if self._shares[key].piece[0] == want.resource and self._takes(want, steps, own):
                    yield self._refusal(key, want)
                    break

    def _takes(self, want: Want, steps: Sequence[Step], own: Sequence[Claim]) -> bool:
        """Whether `want` would leave less to the owner than comes free: all that is not booked is kept."""
        mine = [
            (each.start, each.end, each.units) for each in own if each.resource == want.resource
        ]
        return any(
            want.units + lack > units
            for start, end, lack in steps
            if start < want.end and want.start < end
            for _, _, units in total(mine, max(start, want.start), min(end, want.end))
        )

    def _refusal(self, key: str, want: Want) -> Refusal:
        (resource, start, end, units), reason, _ = self._shares[key]
        zone = self.book.calendars[resource].info.zone
        detail = (
            f"the owner has taken {units} units back between {format_time(start, zone)}"
            f" and {format_time(end, zone)}" + (f": {reason}" if reason else "")
        )
        return Refusal(
            where=want.resource, code=RefusalCode.BLACKOUT, detail=detail, rule="reclaim"
        )

    def _keep_more(self, key: str) -> None:
        resource, start, end, units = self._shares[key].piece
        calendar = self.book.calendars[resource].calendar
        missing = [(begin, finish, units - has) for begin, finish, has in self._kept(key)]
        if self.may_take():
            self._put_off.discard(key)
            more = combine(calendar.walk(start, end), total(missing, start, end), min)
            pieces = [(resource, *each) for each in join(more) if each[2]]
            self._room(key).keep_also(key, "", "reclaim", pieces)
            self._tell_moved(key)
        else:
            self._put_off.add(key)
        left = join((begin, finish, units - has) for begin, finish, has in self._kept(key))
        lacking = [step for step in left if step[2]]
        if lacking:
            self._lacking[key] = lacking
        else:
            self._lacking.pop(key, None)

    def _kept(self, key: str) -> Iterator[Step]:
        """Yield how many units are kept when, over all of its time."""
        _, start, end, _ = self._shares[key].piece
        spans = [(each.start, each.end, each.units) for each in self._room(key).kept(key)]
        return total(spans, start, end)

    def _tell_moved(self, key: str) -> None:
        """The queue of a machine hears of it as of any claim, and leaves it free."""
        if not self._shares[key].known:
            self.book.note_moved(self.kept.placed(key))

    def _room(self, key: str) -> KeptRoom:
        return self.unseen if self._shares[key].known else self.kept


def _less(steps: Iterable[Step]) -> list[Step]:
    return [(start, end, -units) for start, end, units in steps]
