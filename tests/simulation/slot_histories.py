"""From the messages of a whole site to the history of each of its slots.

A slot is an instant: whatever is claimed covers it or does not. Of each resource those instants are
looked at that most requests wanted. A message concerns every slot that its request ever wanted there:
a visit of a new attempt, say, ends what an older one had elsewhere. What cannot be told of one slot
alone (which of three wants had no room?) is left open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kalends.core import messages as m
from kalends.core.errors import RefusalCode
from tests.simulation.linearizability import Operation
from tests.simulation.listening import TICK_BITS, milliseconds
from tests.simulation.slot_register import Action

SLOWEST: Final = 0.9
"""A clock that is fast by a tenth ends a hold that early."""

RUN_MS_MAX: Final = 25_000
"""An agent's run, and the visits that are passed on, end before."""

HOLD_MS_MAX: Final = 3_600_000
"""A site holds for no longer, whatever it is asked."""

LATE_MS: Final = 700
"""An answer that takes longer than a disk has waited for other requests."""

LINE_MS: Final = 150_000
"""A place in a line, and room that is kept for it, last no longer after they were last asked for."""

INSTANTS_MAX: Final = 6
"""Slots of one resource that are looked at."""

FREEDOM: Final = frozenset((RefusalCode.BUSY, RefusalCode.HELD))


@dataclass(slots=True)
class Exchange:
    """A message that reached a site, and its answer. A stale one is answered, but by no time."""

    site: str
    invoked: int
    message: Any
    answer: Any = None
    responded: int = -1


class Push(NamedTuple):
    """Said by the site unasked, of what it did after `since`."""

    site: str
    since: int
    moment: int
    message: Any


class Crash(NamedTuple):
    site: str
    moment: int


class Slot(NamedTuple):
    """An instant of a resource of capacity 1."""

    resource: str
    at: int

    def within(self, resource: str, start: int, end: int) -> bool:
        return resource == self.resource and start <= self.at < end


class SlotHistories:
    """`singles` are the resources to look at; `barred` are users who may not do all with some."""

    def __init__(
        self,
        log: Sequence[Exchange | Push | Crash],
        singles: frozenset[str],
        barred: frozenset[tuple[str, str]],
        surely_future: Callable[[int, int], bool],
    ) -> None:
        self._log = log
        self._singles = singles
        self._barred = barred
        self._surely_future = surely_future
        self._spans: dict[str, dict[tuple[str, str, int, int], None]] = defaultdict(dict)
        """By resource: site, request, start and end of all that was ever wanted."""
        self._slots: dict[tuple[str, str], list[Slot]] = defaultdict(list)
        """By site and request."""
        self._site_slots: dict[str, dict[Slot, None]] = defaultdict(dict)
        self._by_resource: dict[str, list[Slot]] = defaultdict(list)
        self._ids: dict[tuple[str, int], tuple[str, int, int]] = {}
        """By site and hold id: its resource, start and end."""
        self._visits: dict[tuple[str, str, int], m.Visit] = {}
        self._unreported: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """When agents may have been held something that is not reported, by resource."""
        self._replaces: dict[str, str] = {}
        self._waits: dict[str, list[int]] = defaultdict(list)
        self._found: dict[Slot, list[Operation]] = defaultdict(list)

    def histories(self) -> dict[Slot, list[Operation]]:
        """The operations of every slot that anybody ever wanted."""
        for entry in self._log:
            self._learn(entry)
        for resource, spans in sorted(self._spans.items()):
            self._choose(resource, spans)
        for entry in self._log:
            if isinstance(entry, Crash):
                for slot in self._site_slots[entry.site]:
                    self._add(slot, entry.moment, entry.moment, Action("crash"))
            elif isinstance(entry, Push):
                self._pushed(entry)
            elif not isinstance(entry.answer, m.Stale):
                self._exchanged(entry)
        return dict(self._found)

    # What was wanted, and which id is what

    def _learn(self, entry: Exchange | Push | Crash) -> None:
        if isinstance(entry, Crash):
            return
        site = entry.site
        match entry.message:
            case m.Visit() as visit:
                self._visits[site, visit.rid, visit.att] = visit
                if visit.replaces:
                    self._replaces[visit.rid] = visit.replaces
                for want in visit.wants:
                    self._wanted(site, visit.rid, want.resource, want.start, want.end)
                if visit.queue:
                    self._note_waits(entry.invoked, visit.wants)
            case m.Dispatch() as dispatch:
                told = isinstance(entry, Exchange) and entry.answer is not None
                until = entry.responded if told else entry.invoked + (RUN_MS_MAX << TICK_BITS)
                for resource in {ask.resource for ask in dispatch.asks}:
                    self._unreported[resource].append((entry.invoked, until))
            case m.Await() as waits:
                self._note_waits(entry.invoked, waits.wants)
            case m.Grant() | m.Visited() as told:
                self._learn_held(site, told)
        if isinstance(entry, Exchange):
            if isinstance(entry.answer, m.Visited):
                self._learn_held(site, entry.answer)
            elif isinstance(entry.answer, m.Report):
                self._learn_chosen(site, entry.answer)
        elif isinstance(entry.message, m.Report):
            self._learn_chosen(site, entry.message)

    def _learn_held(self, site: str, told: m.Grant | m.Visited) -> None:
        visit = self._visits.get((site, told.rid, told.att))
        for held in told.held if visit is not None else ():
            want = visit.wants[held.index]
            self._ids[site, held.hold_id] = (want.resource, want.start, want.end)

    def _learn_chosen(self, site: str, report: m.Report) -> None:
        for held in _own_report(site, report):
            self._wanted(site, report.rid, held.resource, held.start, held.end)
            self._ids[site, held.hold_id] = (held.resource, held.start, held.end)

    def _wanted(self, site: str, rid: str, resource: str, start: int, end: int) -> None:
        if resource in self._singles:
            self._spans[resource][site, rid, start, end] = None

    def _choose(self, resource: str, spans: Iterable[tuple[str, str, int, int]]) -> None:
        """The instants that most requests wanted; most are wanted where some span begins."""
        wanted: dict[frozenset[tuple[str, str, int, int]], int] = {}
        for at in sorted({start for _, _, start, _ in spans}):
            covering = frozenset(span for span in spans if span[2] <= at < span[3])
            wanted.setdefault(covering, at)
        ranked = sorted(
            wanted, key=lambda all_: (-len({rid for _, rid, _, _ in all_}), wanted[all_])
        )
        for covering in ranked[:INSTANTS_MAX]:
            slot = Slot(resource, wanted[covering])
            self._by_resource[resource].append(slot)
            for site, rid in sorted({(site, rid) for site, rid, _, _ in covering}):
                self._slots[site, rid].append(slot)
                self._site_slots[site][slot] = None

    def _note_waits(self, moment: int, wants: Iterable[m.Want]) -> None:
        for want in wants:
            self._waits[want.resource].append(moment)

    # Operations

    def _add(
        self, slot: Slot, invoked: int, responded: int, action: Action, *, sure: bool = True
    ) -> None:
        self._found[slot].append(Operation(invoked, responded, action, sure))

    def _exchanged(self, entry: Exchange) -> None:
        sure = entry.answer is not None
        responded = entry.responded if sure else entry.invoked
        if isinstance(entry.message, m.Query):
            self._looked(entry)
            return
        if isinstance(entry.message, m.Release):
            sure = True
        for slot, action in self._actions(entry.site, entry):
            self._add(slot, entry.invoked, responded, action, sure=sure)
            late = milliseconds(responded) > milliseconds(entry.invoked) + LATE_MS
            if action.kind == "visit" and (late or action.mode == "agent"):
                # What an earlier attempt had ends when the visit comes, not when it is answered.
                ends = action._replace(said="", wanted=False, mode="", bare=False)
                self._add(slot, entry.invoked, entry.invoked, ends, sure=False)

    def _actions(self, site: str, entry: Exchange) -> Iterator[tuple[Slot, Action]]:
        message = entry.message
        rid = getattr(message, "rid", "")
        slots = self._slots.get((site, rid), ())
        match message:
            case m.Visit():
                for slot in slots:
                    yield slot, self._visit(slot, entry)
            case m.Dispatch():
                for slot in slots:
                    yield slot, self._dispatch(slot, entry)
            case m.Prepare():
                said = _vote(entry.answer)
                for slot in slots:
                    ids = self._ids_in(slot, site, message.hold_ids)
                    yield slot, Action("prepare", rid, message.att, said, ids)
            case m.Decide() | m.Outcome() | m.PeerSays():
                yield from self._decided(site, message, "done" if entry.answer else "")
            case m.PeerAsk():
                if entry.answer is None or entry.answer.says == "never":
                    for slot in slots:
                        said = "refuse" if entry.answer else ""
                        yield slot, Action("abort", rid, message.att, said)
            case m.Cancel():
                for slot in slots:
                    yield slot, Action("cancel", rid, message.att, "done" if entry.answer else "")
            case m.Release() | m.Give():
                for slot in slots:
                    ids = self._ids_in(slot, site, message.hold_ids)
                    give = "give" if isinstance(message, m.Give) else "some"
                    mode = give if message.hold_ids or give == "give" else ""
                    if ids or not mode:
                        yield slot, Action("release", rid, message.att, ids=ids, mode=mode)
            case m.Renew() if entry.answer is not None:
                yield from self._renewed(site, entry)

    def _visit(self, slot: Slot, entry: Exchange) -> Action:
        visit, answer = entry.message, entry.answer
        wanted = any(slot.within(want.resource, want.start, want.end) for want in visit.wants)
        ids = self._ids_in(
            slot, entry.site, [held.hold_id for held in answer.held] if answer else ()
        )
        said, bare = "", False
        if answer is not None:
            said = _said(answer)
            bare = said == "refused" and wanted and self._only_for_others(slot, entry)
        return Action(
            "visit", visit.rid, visit.att, said, ids, mode=visit.mode, replaces=visit.replaces,
            wanted=wanted, until_ms=_until_ms(entry.invoked, visit.hold_ms), bare=bare,
        )  # fmt: skip

    def _only_for_others(self, slot: Slot, entry: Exchange) -> bool:
        """Whether the refusal says that `slot` was taken: all that can stand in the way covers it."""
        visit = entry.message
        [want, *more] = visit.wants
        return (
            not more
            and not visit.replaces
            and {refusal.code for refusal in entry.answer.refusals} <= FREEDOM
            and not self._for_others(want.resource, entry)
            and all(
                start <= slot.at < end
                for _, _, start, end in self._spans[want.resource]
                if start < want.end and want.start < end
            )
        )

    def _for_others(self, resource: str, entry: Exchange) -> bool:
        """Whether room may be kept for who waits, or held for an agent that has not reported yet."""
        waits = self._waits[resource]
        first = bisect_left(waits, entry.invoked - (LINE_MS << TICK_BITS))
        if first < len(waits) and waits[first] <= entry.responded:
            return True
        return any(
            since <= entry.responded and entry.invoked <= until
            for since, until in self._unreported[resource]
        )

    def _dispatch(self, slot: Slot, entry: Exchange) -> Action:
        dispatch, answer = entry.message, entry.answer
        held = _own_report(entry.site, answer) if answer is not None else ()
        ids = self._ids_in(slot, entry.site, [each.hold_id for each in held])
        said = "" if answer is None else "held" if ids else "refused"
        return Action(
            "visit", dispatch.rid, dispatch.att, said, ids, mode="agent", wanted=bool(ids),
            until_ms=_until_ms(entry.invoked, dispatch.hold_ms),
        )  # fmt: skip

    def _decided(
        self, site: str, message: m.Decide | m.Outcome | m.PeerSays, said: str
    ) -> Iterator[tuple[Slot, Action]]:
        rid, att = message.rid, message.att
        outcome = _outcome(message)
        if outcome == "commit":
            old = self._replaces.get(rid, "")
            slots = [*self._slots.get((site, rid), ()), *self._slots.get((site, old), ())]
            for slot in dict.fromkeys(slots):
                ids = self._ids_in(slot, site, message.chosen.get(site, ()))
                yield slot, Action("commit", rid, att, said, ids, replaces=old)
        elif outcome == "abort":
            for slot in self._slots.get((site, rid), ()):
                yield slot, Action("abort", rid, att, said)

    def _renewed(self, site: str, entry: Exchange) -> Iterator[tuple[Slot, Action]]:
        renew, answer = entry.message, entry.answer
        for slot in self._slots.get((site, renew.rid), ()):
            kept = self._ids_in(slot, site, answer.kept)
            lost = self._ids_in(slot, site, answer.lost)
            until_ms = _until_ms(entry.invoked, renew.hold_ms)
            yield (
                slot,
                Action("renew", renew.rid, renew.att, ids=kept, lost=lost, until_ms=until_ms),
            )
        if answer.recall_ms:
            for slot in self._slots.get((site, renew.rid), ()):
                yield slot, Action("recall", renew.rid, renew.att)

    # Looks

    def _looked(self, entry: Exchange) -> None:
        query, answer = entry.message, entry.answer
        if answer is None or query.counting == "none":
            return
        for want, view in zip(query.wants, answer.views, strict=True):
            if view.refusal is not None:
                continue
            seen = (query.principal.user, want.resource) not in self._barred
            bare = seen and not (query.counting == "all" and self._for_others(want.resource, entry))
            for slot in self._by_resource.get(want.resource, ()):
                if want.start <= slot.at < min(want.end, view.until):
                    self._looked_at(slot, entry, view.steps, bare=bare)

    def _looked_at(
        self, slot: Slot, entry: Exchange, steps: Sequence[tuple[int, int, int]], *, bare: bool
    ) -> None:
        query = entry.message
        free = any(first <= slot.at < last for first, last, _ in steps)
        if free or (bare and self._surely_future(slot.at, entry.responded)):
            look = Action(
                "look", said="free" if free else "taken", mode=query.counting,
                replaces=query.replaces, bare=not free,
            )  # fmt: skip
            self._add(slot, entry.invoked, entry.responded, look)

    # What a site does by itself

    def _pushed(self, push: Push) -> None:
        message, site = push.message, push.site
        rid = getattr(message, "rid", "")
        for slot in self._slots.get((site, rid), ()):
            action = self._done_alone(slot, push)
            if action is not None:
                # A recall only opens a possibility, of which nothing is said before it.
                since = push.moment if action.kind == "recall" else push.since
                self._add(slot, since, push.moment, action)

    def _done_alone(self, slot: Slot, push: Push) -> Action | None:
        site = push.site
        match push.message:
            case m.Grant() as grant:
                ids = self._ids_in(slot, site, [held.hold_id for held in grant.held])
                visit = self._visits.get((site, grant.rid, grant.att))
                if not ids or visit is None:
                    return None
                until_ms = _until_ms(push.since, visit.hold_ms)
                return Action(
                    "grant", grant.rid, grant.att, "held", ids, until_ms=until_ms,
                    replaces=visit.replaces,
                )  # fmt: skip
            case m.Recall() as recall:
                return Action("recall", recall.rid, recall.att)
            case m.Renewed() as renewed:
                lost = self._ids_in(slot, site, renewed.lost)
                return (
                    Action("taken", renewed.rid, renewed.att, "back", lost=lost) if lost else None
                )
        return None

    def _ids_in(self, slot: Slot, site: str, hold_ids: Iterable[int]) -> frozenset[int]:
        return frozenset(
            hold_id
            for hold_id in hold_ids
            if (span := self._ids.get((site, hold_id))) is not None and slot.within(*span)
        )


def _own_report(site: str, report: m.Report) -> tuple[Any, ...]:
    return next((each.held for each in report.sites if each.site == site), ())


def _said(visited: m.Visited) -> str:
    if visited.vote == "yes":
        return "promised"
    if visited.held:
        return "held"
    return "waiting" if visited.ahead >= 0 else "refused"


def _vote(voted: m.Voted | None) -> str:
    if voted is None:
        return ""
    return "yes" if voted.vote == "yes" else "no"


def _outcome(message: m.Decide | m.Outcome | m.PeerSays) -> str:
    if isinstance(message, m.PeerSays):
        return {"locked": "commit", "never": "abort", "prepared": ""}[message.says]
    return message.outcome


def _until_ms(moment: int, hold_ms: int) -> int:
    return int(milliseconds(moment) + min(hold_ms, HOLD_MS_MAX) * SLOWEST)
