"""What is known from outside of who waits at a site, and of what is taken there.

Two kinds of knowledge: what is *sure*, by which somebody may be accused, and what is *possible*, by
which somebody may be excused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kalends.contract import messages as m
from tests.simulation.listening import milliseconds

LEASE_MS = 60_000
"""A place in line lives so long after the visit was last repeated."""

SLOWEST, FASTEST = 0.9, 1.12
"""What a site's clock makes of that."""

PAUSE_MS = 61_000
"""A site that is paused takes note of nothing for so long."""

VISIT_MS = 25_000
"""An agent's run, and the visits that are passed on, end before."""

Span = tuple[str, int, int, int]
"""Resource, start, end, units."""


@dataclass(slots=True)
class Waiter:
    """A visit in line. `entered` is when it came; `sure` once the site has said that it waits.

    `yielded`: it has held, and lost, what it waits for; owners' head starts do not count any more.
    `length_s`: on a list, how much of its windows it needs.
    """

    visit: m.Visit
    entered: int
    asked_ms: int
    sure: bool = False
    yielded: bool = False
    room_since_ms: int | None = None
    length_s: int = 0

    @property
    def stamp(self) -> tuple[int, str]:
        return self.visit.stamp, self.visit.rid

    def surely_waits(self, now_ms: int) -> bool:
        return self.sure and now_ms < self.asked_ms + LEASE_MS * SLOWEST

    def perhaps_waits(self, now_ms: int) -> bool:
        return now_ms < self.asked_ms + LEASE_MS * FASTEST + PAUSE_MS


@dataclass(slots=True)
class Taken:
    """What a request holds, is promised or has locked, by hold id.

    `since` is when it last changed, `visit` how it was asked for. A hold runs out `hold_ms` after it
    was made or renewed, at `asked_ms`; `renewing` is a renewal that is not answered yet.
    """

    att: int
    state: str
    spans: dict[int, Span]
    since: int
    asked_ms: int
    hold_ms: int
    visit: m.Visit | None = None
    sure: bool = True
    recall_until_ms: int = 0
    renewing: tuple[int, int] | None = None
    overdue_ms: int = 0
    """When something was first heard of the site after the recall's deadline."""

    def surely(self, now_ms: int) -> bool:
        lasts = self.state != "held" or now_ms < self.asked_ms + self.hold_ms * SLOWEST
        return self.sure and lasts

    def perhaps(self, now_ms: int) -> bool:
        return self.state != "held" or now_ms < self.asked_ms + self.hold_ms * FASTEST + PAUSE_MS


@dataclass(slots=True)
class SiteBooks:
    waiters: dict[str, Waiter] = field(default_factory=dict)
    listed: dict[str, Waiter] = field(default_factory=dict)
    """Requests on waiting lists, for what a site may keep for them."""
    taken: dict[str, Taken] = field(default_factory=dict)
    aborted: dict[str, Taken] = field(default_factory=dict)
    """Promises whose abort has come, and may not be stored yet: a crash brings them back."""
    unheard: dict[str, m.Visit | m.Prepare] = field(default_factory=dict)
    """The same, of what was asked for and may have been promised, though nobody has heard so."""
    agents: dict[str, tuple[int, m.Dispatch]] = field(default_factory=dict)
    """When agents came of whom nothing is reported yet: what they ask for may be held."""
    recalled: set[int] = field(default_factory=set)
    """Hold ids that the site has asked back."""
    before_owners: set[str] = field(default_factory=set)
    """Requests that were put before the owner, who may have declined them when none could be told."""
    unlisted: dict[str, int] = field(default_factory=dict)
    """When requests left those lists."""
    left: dict[str, list[tuple[int, Waiter]]] = field(default_factory=dict)
    """Who waited until then: what is said of them may have been so before."""
    asked: dict[str, m.Visit | m.Prepare] = field(default_factory=dict)
    """Not answered yet: it may be taken."""

    def firmly_taken(self, *, but: str) -> list[Span]:
        """What surely is promised or locked by others than `but`: it does not come free for those before.

        A change and the reservation that it is to replace take the larger of the two.
        """
        firmly = {
            rid: list(taken.spans.values())
            for rid, taken in self.taken.items()
            if rid != but and taken.sure and taken.state != "held"
        }
        found: list[Span] = []
        for rid, spans in firmly.items():
            visit = self.taken[rid].visit
            old = firmly.get(visit.replaces, []) if visit is not None else []
            found += (more for span in spans for more in _beyond(span, old))
        return found

    def perhaps_taken(self, now_ms: int) -> list[Span]:
        """All that may be taken."""
        found = [
            span
            for rid, taken in self.taken.items()
            # A promise that was asked for may be stored, though a crash has kept the vote from being heard.
            if taken.perhaps(now_ms) or isinstance(self.asked.get(rid), m.Prepare)
            for span in taken.spans.values()
        ]
        for came_ms, dispatch in self.agents.values():
            if now_ms < came_ms + VISIT_MS:
                found += _all_of(dispatch)
        for rid, visit in self.asked.items():
            waiter = self.waiters.get(rid)
            again = waiter is not None and waiter.sure and waiter.visit.att == visit.att
            if isinstance(visit, m.Visit) and not again:
                found += spans_of(visit.wants)
        return found

    def leave(self, rid: str, att: int, moment: int) -> None:
        """Attempts up to `att` do not wait any more."""
        waiter = self.waiters.get(rid)
        if waiter is not None and waiter.visit.att <= att:
            del self.waiters[rid]
            self.left.setdefault(rid, []).append((moment, waiter))

    def answered(self, rid: str, att: int, asked: int, moment: int) -> None:
        """A visit that came at `asked` does not wait; one that came after may wait nevertheless."""
        waiter = self.waiters.get(rid)
        if waiter is not None and waiter.visit.att == att and waiter.entered > asked:
            waiter.sure = False
        else:
            self.leave(rid, att, moment)

    def waited(self, rid: str, since: int) -> list[Waiter]:
        """The places that `rid` has, or had after `since`."""
        now = [self.waiters[rid]] if rid in self.waiters else []
        return now + [waiter for moment, waiter in self.left.get(rid, ()) if moment >= since]

    def drop(self, rid: str, att: int, *states: str) -> None:
        """What attempts up to `att` have in `states` is free."""
        taken = self.taken.get(rid)
        if taken is not None and taken.att <= att and taken.state in states:
            del self.taken[rid]

    def end_hold(self, rid: str, att: int, moment: int) -> None:
        """What attempts up to `att` hold is free; it may have been taken back, and granted again, before."""
        taken = self.taken.get(rid)
        if taken is None or taken.att > att or taken.state != "held":
            return
        if taken.visit is not None and taken.visit.queue:
            waited = Waiter(taken.visit, taken.since, milliseconds(moment), yielded=True)
            self.left.setdefault(rid, []).append((moment, waited))
        del self.taken[rid]

    def enter(self, visit: m.Visit, moment: int) -> None:
        """A visit that may wait has come, or come again."""
        known = self.waiters.get(visit.rid)
        now_ms = milliseconds(moment)
        if known is not None and known.visit.att > visit.att:
            return
        if known is not None and known.visit.att == visit.att and known.surely_waits(now_ms):
            known.asked_ms = now_ms
            return
        yielded = known is not None and known.yielded
        self.leave(visit.rid, visit.att, moment)
        self.waiters[visit.rid] = Waiter(visit, moment, now_ms, yielded=yielded)

    def forgotten(self, rid: str, att: int, asked: int) -> bool:
        """A site that lets a visit of `asked` wait has let a newer attempt of before run out."""
        waiter, taken = self.waiters.get(rid), self.taken.get(rid)
        newer = (waiter is not None and waiter.visit.att > att and waiter.entered < asked) or (
            taken is not None and taken.att > att and taken.since < asked
        )
        if newer:
            self.waiters.pop(rid, None)
            self.taken.pop(rid, None)
        return newer

    def enter_again(self, rid: str, moment: int) -> None:
        """What `rid` held is taken back: it waits again, if it would have waited before."""
        taken = self.taken.pop(rid, None)
        if taken is not None and taken.visit is not None and taken.visit.queue:
            now_ms = milliseconds(moment)
            self.waiters[rid] = Waiter(taken.visit, moment, now_ms, yielded=True)


def spans_of(wants: Iterable[m.Want]) -> list[Span]:
    return [(want.resource, want.start, want.end, want.units) for want in wants]


def _beyond(span: Span, old: Sequence[Span]) -> Iterator[Span]:
    """What `span` takes where `old` does not take as much already."""
    resource, start, end, units = span
    mine = [each for each in old if each[0] == resource]
    cuts = {at for _, first, last, _ in mine for at in (first, last) if start < at < end}
    for since, until in pairwise(sorted({start, end} | cuts)):
        more = units - sum(each[3] for each in mine if each[1] <= since < each[2])
        if more > 0:
            yield resource, since, until, more


def _all_of(dispatch: m.Dispatch) -> Iterator[Span]:
    """Wherever the agent may choose."""
    for ask in dispatch.asks:
        first = dispatch.starts.first + ask.offset_s
        yield ask.resource, first, dispatch.starts.last + ask.offset_s + ask.length_s, ask.units


def overlapping(first: Sequence[Span], second: Sequence[Span]) -> bool:
    return any(
        one[0] == two[0] and one[1] < two[2] and two[1] < one[2] for one in first for two in second
    )


def lacking(
    capacities: dict[str, int], taken: Sequence[Span], wanted: Sequence[Span]
) -> Iterator[Span]:
    """Those of `wanted` that have no room, all together, beside `taken`, each at one instant."""
    for resource, start, end, units in wanted:
        times = {start} | {
            at for name, at, _, _ in (*taken, *wanted) if name == resource and start <= at < end
        }
        for at in sorted(times):
            used = sum(
                each[3] for each in (*taken, *wanted)
                if each[0] == resource and each[1] <= at < each[2]
            )  # fmt: skip
            if used > capacities[resource]:
                yield resource, at, at + 1, units
                break
