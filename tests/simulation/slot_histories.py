"""From the messages of a whole site to the history of each of its slots.

A message concerns every slot that its request ever wanted there: a visit of a new attempt, say, ends
what an older one had elsewhere. What cannot be told of one slot alone (which of three wants had no
room?) is left open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from tests.simulation.linearizability import Operation
from tests.simulation.listening import milliseconds
from tests.simulation.slot_knowledge import Crash, Exchange, Knowledge, Push, Slot, own_report
from tests.simulation.slot_register import Action

SLOWEST: Final = 0.9
"""A clock that is fast by a tenth ends a hold that early."""

HOLD_MS_MAX: Final = 3_600_000
"""A site holds for no longer, whatever it is asked."""

LATE_MS: Final = 700
"""An answer that takes longer than a disk has waited for other requests."""

FREEDOM: Final = frozenset((RefusalCode.BUSY, RefusalCode.HELD))


class SlotHistories:
    """`singles` are the resources to look at; `barred` are users who may not do all with some.

    Owners approve what is booked of those that are `guarded`.
    """

    def __init__(
        self,
        log: Sequence[Exchange | Push | Crash],
        singles: frozenset[str],
        barred: frozenset[tuple[str, str]],
        surely_future: Callable[[int, int], bool],
        guarded: Collection[str] = (),
    ) -> None:
        self._log = log
        self._barred = barred
        self._guarded = guarded
        self._surely_future = surely_future
        self._known = Knowledge(log, singles)
        self._found: dict[Slot, list[Operation]] = defaultdict(list)

    def histories(self) -> dict[Slot, list[Operation]]:
        """The operations of every slot that anybody ever wanted."""
        for entry in self._log:
            if isinstance(entry, Crash):
                for slot in self._known.site_slots[entry.site]:
                    said = "durable" if slot.resource in self._guarded else ""
                    crash = Action("crash", said=said)
                    self._add(slot, entry.moment, entry.moment, crash)
            elif isinstance(entry, Push):
                self._pushed(entry)
            elif not isinstance(entry.answer, m.Stale):
                self._exchanged(entry)
        return dict(self._found)

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
        slots = self._known.slots.get((site, rid), ())
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
                    ids = self._known.ids_in(slot, site, message.hold_ids)
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
                    ids = self._known.ids_in(slot, site, message.hold_ids)
                    give = "give" if isinstance(message, m.Give) else "some"
                    mode = give if message.hold_ids or give == "give" else ""
                    if ids or not mode:
                        yield slot, Action("release", rid, message.att, ids=ids, mode=mode)
            case m.OwnerAsk():
                for slot in slots:
                    ids = self._known.ids_in(slot, site, message.hold_ids)
                    yield slot, Action("ask", rid, message.att, ids=ids)
            case m.Renew() if entry.answer is not None:
                yield from self._renewed(site, entry)

    def _visit(self, slot: Slot, entry: Exchange) -> Action:
        visit, answer = entry.message, entry.answer
        wanted = any(slot.within(want.resource, want.start, want.end) for want in visit.wants)
        ids = self._known.ids_in(
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
            and not self._known.for_others(want.resource, entry)
            and all(
                start <= slot.at < end
                for _, _, start, end in self._known.spans[want.resource]
                if start < want.end and want.start < end
            )
        )

    def _dispatch(self, slot: Slot, entry: Exchange) -> Action:
        dispatch, answer = entry.message, entry.answer
        held = own_report(entry.site, answer, entry.message.asks) if answer is not None else ()
        ids = self._known.ids_in(slot, entry.site, [each.hold_id for each in held])
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
            old = self._known.replaces.get(rid, "")
            slots = [
                *self._known.slots.get((site, rid), ()),
                *self._known.slots.get((site, old), ()),
            ]
            for slot in dict.fromkeys(slots):
                ids = self._known.ids_in(slot, site, message.chosen.get(site, ()))
                yield slot, Action("commit", rid, att, said, ids, replaces=old)
        elif outcome == "abort":
            for slot in self._known.slots.get((site, rid), ()):
                yield slot, Action("abort", rid, att, said)

    def _renewed(self, site: str, entry: Exchange) -> Iterator[tuple[Slot, Action]]:
        renew, answer = entry.message, entry.answer
        for slot in self._known.slots.get((site, renew.rid), ()):
            kept = self._known.ids_in(slot, site, answer.kept)
            lost = self._known.ids_in(slot, site, answer.lost)
            until_ms = _until_ms(entry.invoked, renew.hold_ms)
            yield (
                slot,
                Action("renew", renew.rid, renew.att, ids=kept, lost=lost, until_ms=until_ms),
            )
        if answer.recall_ms:
            for slot in self._known.slots.get((site, renew.rid), ()):
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
            bare = seen and not (
                query.counting == "all" and self._known.for_others(want.resource, entry)
            )
            for slot in self._known.by_resource.get(want.resource, ()):
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
        for slot in self._known.slots.get((site, rid), ()):
            action = self._done_alone(slot, push)
            if action is not None:
                # A recall only opens a possibility, of which nothing is said before it.
                since = push.moment if action.kind == "recall" else push.since
                if isinstance(message, m.OwnerSays):
                    since = min(since, self._held_since(site, message))
                self._add(slot, since, push.moment, action)

    def _held_since(self, site: str, says: m.OwnerSays) -> int:
        """When what an owner has declined was held last: a broker that has not asked yet hears it later."""
        held = (
            each.responded
            for each in self._log
            if isinstance(each, Exchange)
            and each.site == site
            and isinstance(each.message, m.Visit)
            if (each.message.rid, each.message.att) == (says.rid, says.att)
            and each.answer is not None
        )
        return max(held, default=0)

    def _done_alone(self, slot: Slot, push: Push) -> Action | None:
        site = push.site
        match push.message:
            case m.Grant() as grant:
                ids = self._known.ids_in(slot, site, [held.hold_id for held in grant.held])
                visit = self._known.visits.get((site, grant.rid, grant.att))
                if not ids or visit is None:
                    return None
                until_ms = _until_ms(push.since, visit.hold_ms)
                return Action(
                    "grant", grant.rid, grant.att, "held", ids, until_ms=until_ms,
                    replaces=visit.replaces,
                )  # fmt: skip
            case m.Recall() as recall:
                return Action("recall", recall.rid, recall.att)
            case m.OwnerSays(state="declined" | "lapsed") as says:
                return Action("abort", says.rid, says.att)
            case m.Renewed() as renewed:
                lost = self._known.ids_in(slot, site, renewed.lost)
                return (
                    Action("taken", renewed.rid, renewed.att, "back", lost=lost) if lost else None
                )
        return None


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
