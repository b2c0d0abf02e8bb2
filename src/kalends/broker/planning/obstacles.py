"""The fewest bookings that would have to move so that a request could start at some time.

From what the owners' rules alone allow, and the bookings as far as the asker may see them. At one start
the fewest of one resource are those that cover its lack of units at every time of the stage
(`kalends.calendars.covers`). Who serves attribute terms with the fewest moves is an assignment
(`kalends.broker.planning.assignment`). The starts that need to be tried are those of
`kalends.broker.planning.best_first_search`, for whichever bookings move, a piece of starts begins where the
rules or the user's windows begin to allow it, or where a booking that stays ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from kalends.broker.planning.assignment import Shortage, heaviest
from kalends.broker.planning.demand import (
    Catalogue,
    Demand,
    Free,
    Infos,
    demand_of,
    start_window,
    within_windows,
)
from kalends.broker.planning.search_budget import TooMuchWork, Work
from kalends.broker.planning.start_ranges import added
from kalends.broker.planning.sweep import joint_beats
from kalends.calendars.covers import Lack, fewest
from kalends.core.requests import Request
from kalends.core.resources import Slot
from kalends.core.spans import Stage, Step, meetings

Slots = Mapping[str, Sequence[Slot]]

TRIES_MAX: Final = 20_000
"""Resources looked at, over all starts: beyond it only some of the starts are tried."""


class Move(NamedTuple):
    """A booking that would have to move."""

    resource: str
    slot: Slot


class Moves(NamedTuple):
    """The moves for one start; `exact`: no start needs fewer.

    If not, the search had a limit: these are enough, and perhaps fewer would be.
    """

    start: int
    alternative: int
    moves: tuple[Move, ...]
    exact: bool


def fewest_to_move(
    request: Request,
    infos: Infos,
    allowed: Free,
    slots: Slots,
    only: tuple[int, int] | None = None,
) -> Moves | None:
    """Return the start for which the fewest bookings would have to move, then the earliest.

    `allowed` is what the asker could book if there were no bookings, `slots` are the bookings. With
    `only` (an alternative, and a start) just that one is tried. None when the owners' rules, or the
    size of the resources, allow no start whatever moves.

    Where there is more to try than one search may do, the answer is the best of what was tried, and
    not exact; without any moves where nothing was found by then.
    """
    work = Work()
    best: Moves | None = None
    exact = True
    try:
        for found, certain in _each_tried(request, infos, allowed, slots, only, work):
            exact = exact and certain
            if found is not None and (
                best is None or (len(found.moves), found.start) < (len(best.moves), best.start)
            ):
                best = found
    except TooMuchWork:
        return (best or Moves(0, 0, (), False))._replace(exact=False)
    return None if best is None else best._replace(exact=exact)


def _each_tried(
    request: Request,
    infos: Infos,
    allowed: Free,
    slots: Slots,
    only: tuple[int, int] | None,
    work: Work,
) -> Iterator[tuple[Moves | None, bool]]:
    """Yield the moves for each start that needs to be tried, and whether they are fewest."""
    catalogue = Catalogue(infos, work)
    for number in range(len(request.alternatives)):
        if only is not None and number != only[0]:
            continue
        demand = demand_of(request, infos, number, catalogue)
        demand = within_windows(demand, request, number, allowed, work)
        tried = _Tried(request, number, demand, infos, allowed, slots, work)
        starts = tried.starts() if only is None else [only[1]]
        most = max(1, TRIES_MAX // max(1, tried.number))
        certain = not tried.shared and len(starts) <= most
        if len(starts) > most:
            starts = [starts[place * len(starts) // most] for place in range(most)]
        for start in starts:
            found = tried.at(start)
            if found is not None:
                moves, exact = found
                yield Moves(start, number, moves, True), exact and certain
        yield None, certain


class _Tried:
    """One alternative with its needs by resource."""

    def __init__(
        self,
        request: Request,
        number: int,
        demand: Demand,
        infos: Infos,
        allowed: Free,
        slots: Slots,
        work: Work,
    ) -> None:
        self._work = work
        self._demand = demand
        self._window = start_window(request, number)
        used = {*demand.named, *(name for pick in demand.picks for name in pick.names)}
        self._calendars = {
            name: _Calendar(allowed.get(name, ()), slots.get(name, ()), work) for name in used
        }
        self._beats = {
            (pick.number, name): pick.beat(infos[name])
            for pick in demand.picks
            for name in pick.names
        }
        groups = {pick.group for pick in demand.picks}
        self._groups = [[p for p in demand.picks if p.group == group] for group in sorted(groups)]
        parts = [set(demand.named), *({n for p in g for n in p.names} for g in self._groups)]
        self.shared = sum(len(part) for part in parts) > len(set().union(*parts))
        """One booking may be in the way of several stages: it is then counted for each."""
        self.number = len(demand.named) + sum(len(pick.names) for pick in demand.picks)

    def starts(self) -> list[int]:
        """Return the starts that need to be tried, in order."""
        first, last = self._window
        beat = self._demand.beat
        if beat is None or first > last:
            return []
        permitted = self._demand.permitted
        if permitted is None:
            permitted = [(first, last)]
        begins = {begin for begin, _ in permitted}
        self._work.spend(10 * sum(calendar.size for calendar in self._calendars.values()))
        for name, stages in self._demand.named.items():
            for stage in added(stages):
                begins |= self._calendars[name].begins(stage)
        for pick in self._demand.picks:
            for name in pick.names:
                begins |= self._calendars[name].begins(pick.stage)
        self._work.spend(10 * len(begins))
        joint = joint_beats(first, last, beat, set(self._beats.values()))
        later = {max(begin, first) for begin in begins}
        starts = sorted({t for begin in later for each in joint if (t := each.next(begin)) <= last})
        return [first for first, _, _, _ in meetings(zip(starts, starts, strict=True), permitted)]

    def at(self, start: int) -> tuple[tuple[Move, ...], bool] | None:
        """Return the fewest moves for `start`, and whether certain; None when no moves help."""
        moves: dict[Move, None] = {}
        exact = True
        for name, stages in self._demand.named.items():
            cover = self._calendars[name].fewest(added(stages), start)
            if cover is None:
                return None
            exact = exact and cover.exact
            moves.update(dict.fromkeys(Move(name, slot) for slot in cover.slots))
        for group in self._groups:
            covers = [
                dict(self._covers(pick.number, pick.names, pick.stage, start)) for pick in group
            ]
            worths = [{name: -len(cover.slots) for name, cover in each.items()} for each in covers]
            answer = heaviest([pick.wanted for pick in group], worths, self._work)
            if isinstance(answer, Shortage):
                return None
            exact = exact and all(cover.exact for each in covers for cover in each.values())
            for of_pick, names in zip(covers, answer.picked, strict=True):
                for name in names:
                    moves.update(dict.fromkeys(Move(name, slot) for slot in of_pick[name].slots))
        return tuple(sorted(moves, key=lambda move: (move.resource, move.slot.start))), exact

    def _covers(
        self, number: int, names: Sequence[str], stage: Stage, start: int
    ) -> Iterator[tuple[str, _Cover]]:
        for name in names:
            if self._beats[number, name].hits(start):
                cover = self._calendars[name].fewest([stage], start)
                if cover is not None:
                    yield name, cover


class _Cover(NamedTuple):
    """Bookings that would have to move; `exact`: no fewer would do."""

    slots: tuple[Slot, ...]
    exact: bool


class _Calendar:
    """The bookings of one resource, and what its rules allow."""

    def __init__(self, allowed: Sequence[Step], slots: Sequence[Slot], work: Work) -> None:
        self._work = work
        work.spend(20 * (len(allowed) + len(slots)))
        self.size = len(allowed) + len(slots)
        self._allowed = allowed
        self._slots = sorted(slots, key=lambda slot: (slot.start, slot.end))
        self._starts = [slot.start for slot in self._slots]
        self._reach = list(accumulate((slot.end for slot in self._slots), max))
        """The latest end of all slots up to each: it rises, so that it can be searched."""

    def begins(self, stage: Stage) -> set[int]:
        """Return where pieces of starts for `stage` may begin, whichever bookings move."""
        starts = {step[0] for step in self._allowed} | {slot.end for slot in self._slots}
        return {start - stage.offset_s for start in starts}

    def fewest(self, stages: Sequence[Stage], start: int) -> _Cover | None:
        """Return the fewest bookings that make room for `stages`; None when the rules forbid it."""
        self._work.spend(100)
        lacks: list[Lack] = []
        for stage in stages:
            begin, end = start + stage.offset_s, start + stage.end_s
            crossing = [
                place
                for place in range(bisect_right(self._reach, begin), bisect_left(self._starts, end))
                if self._slots[place].end > begin
            ]
            for moment in self._moments(crossing, begin, end):
                self._work.spend(5 + 2 * len(crossing))
                over = [p for p in crossing if self._slots[p].start <= moment < self._slots[p].end]
                allowed = self._allowed_at(moment)
                if allowed < stage.units:
                    return None
                lack = stage.units + sum(self._slots[p].units for p in over) - allowed
                if lack > 0:
                    lacks.append(Lack(lack, {p: self._slots[p].units for p in over}))
        if not lacks:
            return _Cover((), True)
        places, exact = fewest(lacks, self._work.spend)
        return _Cover(tuple(self._slots[place] for place in sorted(places)), exact)

    def _moments(self, crossing: Sequence[int], begin: int, end: int) -> list[int]:
        """Return the times of all changes between `begin` and `end`."""
        moments = {begin}
        for place in crossing:
            moments |= {self._slots[place].start, self._slots[place].end}
        first = bisect_right(self._allowed, begin, key=lambda step: step[1])
        for step_start, step_end, _ in self._allowed[first:]:
            if step_start >= end:
                break
            moments |= {step_start, step_end}
        return sorted(moment for moment in moments if begin <= moment < end)

    def _allowed_at(self, moment: int) -> int:
        place = bisect_right(self._allowed, moment, key=lambda step: step[1])
        if place == len(self._allowed) or self._allowed[place][0] > moment:
            return 0
        return self._allowed[place][2]
