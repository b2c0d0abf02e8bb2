"""Reads of the register for users who may see a request: show, list, why, by key, audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record, Unreadable
from kalends.broker.coordination.record.event_log import as_told
from kalends.broker.coordination.record.views import view_of
from kalends.broker.register.contract import WholeReservation, readable
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.contract.notice_calls import ChangeByOthers
from kalends.core.errors import NotAllowed, NotFound
from kalends.core.identifiers import minted_ms
from kalends.core.limits import LISTING_MAX
from kalends.core.steps import StepPart
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import Clock

AUDIT_PAGE: Final = 1_000

COMPARE_S_MAX: Final = 20.0
"""The wait of an audit for sites to be compared: shorter than the client's for an answer."""

_SEE_ALL: Final = frozenset({"audit", "admin"})
"""The scopes that may read other users' requests. Locking, releasing or cancelling them needs ``admin``."""


Right = Literal["", "look", "change", "take"]
"""What a reservation that is shared lets a user do who does not hold it."""

Shared = Callable[[Caller, WholeReservation], Awaitable[Right]]


class SeenRequest(NamedTuple):
    """A record, `among` all of its reservation as it was at the same moment."""

    record: Record
    among: WholeReservation


@dataclass(frozen=True, eq=False)
class Records:
    """Reads only; users see their requests, and what is shared with them; ``audit`` and ``admin`` see all.

    `parts_of` gives the parts of a job in step; `shared` is asked for requests of others alone.
    """

    service: BrokerService
    clock: Clock
    parts_of: Callable[[Record], tuple[StepPart, ...]]
    shared: Shared

    async def of(self, caller: Caller, request_id: str) -> SeenRequest:
        """The record that stands for `request_id`; raises `NotFound` for one that is not visible.

        Raises `Unavailable` in its place while the register may have forgotten it.
        """
        doubt = self.service.replica.doubt()
        found = await self._reservation(request_id)
        if found is not None:
            found = await self._visible(caller, found)
        if found is None:
            if doubt is not None:
                raise doubt
            raise NotFound(
                "no such request, or not yours",
                where="id",
                remedy="see `kalends list` for your requests",
                request_id=request_id,
            )
        return SeenRequest(readable(found.meant_by(request_id)), found)

    async def _visible(self, caller: Caller, found: WholeReservation) -> WholeReservation | None:
        """Return what the caller may see of `found`: all, or what was of the caller, or nothing."""
        if may_see(caller, found.current.user) or await self.shared(caller, found):
            return found
        return was_of(caller.principal.user, found)

    async def may_change(self, caller: Caller, seen: SeenRequest) -> bool:
        """Whether the user of a request lets the caller change it."""
        return await self.shared(caller, seen.among) == "change"

    async def to_end(self, caller: Caller, request_id: str) -> SeenRequest:
        """Return the request as `of` does, for who may decide what becomes of it; raises `NotAllowed` too."""
        seen = await self.of(caller, request_id)
        record = seen.record
        if (
            record.user != caller.principal.user
            and "admin" not in caller.scopes
            and not await self.may_change(caller, seen)
        ):
            raise NotAllowed(
                f"it belongs to {record.user}, and you may only look at it",
                where="id",
                remedy="ask its user for the right to change it, or use a token with the scope admin",
            )
        return seen

    async def of_key(self, user: str, key: str) -> SeenRequest | None:
        """The request that `user` made with this key, on any replica."""
        found = await self.service.replica.read(lambda store: store.by_key(user, key))
        row = found.of_key(user, key) if found is not None else None
        if found is None or row is None:
            return None
        return SeenRequest(readable(row), was_of(user, found) or found)

    async def again(self, record: Record) -> SeenRequest | None:
        found = await self._reservation(record.rid)
        row = found.row(record.rid) if found is not None else None
        if found is None or row is None:
            return None
        return SeenRequest(readable(row), was_of(record.user, found) or found)

    async def _reservation(self, rid: str) -> WholeReservation | None:
        return await self.service.replica.read(lambda store: store.reservation(rid))

    def standing(self, seen: SeenRequest) -> SeenRequest:
        """`seen`, or what has replaced it."""
        if seen.record.state != "replaced":
            return seen
        return SeenRequest(readable(seen.among.current), seen.among)

    def change_of(self, seen: SeenRequest) -> SeenRequest | None:
        """The move, extend or shrink of the reservation that is under way, if it can be read."""
        found = seen.among.row(seen.among.changing)
        return SeenRequest(found, seen.among) if isinstance(found, Record) else None

    def view(self, seen: SeenRequest) -> calls.RequestView:
        """A view of the request, with the news of its sites and with a change that is under way."""
        record = seen.record
        case = self.service.cases.get(record.rid)
        confirmed = None
        if case is not None and case.phase == "telling" and record.state == "commit":
            confirmed = frozenset(site for site, part in case.parts.items() if part.done)
        view = view_of(record, confirmed=confirmed, changing=seen.among.changing)
        if record.job.machines:
            view = structs.replace(view, parts=self.parts_of(record))
        if case is None or record.state != "open":
            return view
        waiting = self.service.coordinator.negotiation.waiting_of(record.rid, self.service.moment())
        return structs.replace(view, waiting=waiting)

    async def show(self, caller: Caller, body: calls.ById) -> calls.RequestView:
        return self.view(await self.of(caller, body.id))

    async def ids(self, caller: Caller, body: calls.FindIds) -> calls.Ids:
        """The ids that may be meant; raises `Unavailable` for none if the register may have forgotten one."""
        doubt = self.service.replica.doubt()
        user = caller.principal.user
        found = await self.service.replica.read(
            lambda store: store.ids(user, body.part, LISTING_MAX)
        )
        if not found and doubt is not None:
            raise doubt
        return calls.Ids(ids=tuple(found))

    async def why(self, caller: Caller, body: calls.ById) -> calls.Story:
        """The whole story, with that of every change that was made or refused, as far as it can be read.

        What was refused to another user than the present one is for that user alone: it tells their limits.
        """
        seen = await self.of(caller, body.id)
        events = [
            as_told(each, event)
            for each in seen.among.rows
            if isinstance(each, Record)
            and (
                each.user == seen.record.user
                or each.state in ("commit", "cancelled", "replaced")
                or may_see(caller, each.user)
            )
            for event in (*each.trail, *_begins(each))
        ]
        return calls.Story(
            request=self.view(seen),
            events=tuple(sorted(events, key=lambda event: event.number)),
        )

    async def by_key(self, caller: Caller, body: calls.ByKey) -> calls.RequestView:
        doubt = self.service.replica.doubt()
        seen = await self.of_key(caller.principal.user, body.key)
        if seen is None:
            if doubt is not None:
                raise doubt
            raise NotFound(
                "no request of yours was made with this key",
                where="key",
                remedy="the request never arrived: send it again with the same key",
            )
        return self.view(self.standing(seen))

    async def list(self, caller: Caller, body: calls.ListRequests) -> calls.Requests:
        if body.everyone:
            caller.require("audit", self.clock.wall_s())
        user = "" if body.everyone else caller.principal.user
        views: list[calls.RequestView] = []
        before, more = body.before, True
        while more and len(views) < body.count:
            page = await self.service.replica.read(
                lambda store, before=before: store.listed(user, before, body.state, body.count)  # type: ignore[misc]
            )
            found = [was_of(user, each) or each for each in page] if user else page
            views += (
                self.view(SeenRequest(each.current, each))
                if isinstance(each.current, Record)
                else view_of_unreadable(each.current)
                for each in found
                # What was handed over is in another state for its former holder than in the register.
                if body.state in ("", each.current.public_state)
            )
            more = len(page) == body.count
            before = page[-1].id if page else ""
        # What agents have left is for whoever asks about one request.
        return calls.Requests(
            requests=tuple(structs.replace(view, notes=()) for view in views[: body.count])
        )

    async def audit(self, caller: Caller, body: calls.Audit) -> calls.Audited:
        """A page of the register; problems are the alarms since the start that are not over, and what cannot
        be read on this page. With the first page also in what the sites differ from it.
        """
        differences: tuple[str, ...] = ()
        unreached: tuple[str, ...] = ()
        if not body.after:
            differences, unreached = await self.service.comparisons.differences(COMPARE_S_MAX)
        page = await self.service.replica.read(lambda store: store.page(body.after, AUDIT_PAGE))
        return calls.Audited(
            records=tuple(
                calls.AuditRecord(
                    id=row.rid,
                    att=row.att,
                    state=row.state,
                    chosen=row.chosen if isinstance(row, Record) else {},
                )
                for row in page
            ),
            problems=(
                *self.service.alarms.problems,
                *differences,
                *(f"{row.rid}: {row.reason}" for row in page if isinstance(row, Unreadable)),
            ),
            settled=self.service.alarms.settled,
            unreached=unreached,
            more=len(page) == AUDIT_PAGE,
        )


def _begins(record: Record) -> list[calls.Event]:
    """Return when each part of a job in step began, by the clock of its site."""
    return [
        calls.Event(
            number=part.began_at * 1_000,
            at_ms=part.began_at * 1_000,
            id=record.reservation,
            kind="began",
            detail=f"{part.machine}/{part.job}",
        )
        for part in record.job.parts
        if part.began_at
    ]


def may_see(caller: Caller, user: str) -> bool:
    return caller.principal.user == user or bool(_SEE_ALL & caller.scopes)


def was_of(user: str, whole: WholeReservation) -> WholeReservation | None:
    """Return all of a reservation of `user`; of another's, the last state that it had with them, or None."""
    if whole.current.user == user:
        return whole
    own = [row for row in whole.rows if row.user == user]
    own = [row for row in own if row.state == "replaced"] or own
    return WholeReservation((own[-1],)) if own else None


def check_own(record: Record, caller: Caller) -> None:
    """Raise `NotAllowed` for what would become the caller's by a change: whoever audits sees all requests."""
    if record.user != caller.principal.user:
        raise NotAllowed(
            f"it belongs to {record.user}, and would become yours",
            where="id",
            remedy="ask its user to change it; owners reclaim time with kalends admin reclaim, and have"
            " waiting jobs placed elsewhere with kalends admin drain",
        )


def ended_by(record: Record, caller: Caller, now_s: int) -> ChangeByOthers | None:
    """Return the name of who ends `record`, for its user to be told; None for its user, who knows."""
    user = caller.principal.user
    if user == record.user:
        return None
    return ChangeByOthers(made="cancelled", by=user, at=now_s, was=record.wants)


def view_of_unreadable(row: Unreadable) -> calls.RequestView:
    """What the columns of `row` say, and that there is no more."""
    return calls.RequestView(
        id=row.reservation,
        state=row.public_state,
        user=row.user,
        text="",
        created_at=minted_ms(row.rid) // 1000,
        attempts=row.att,
        problem=row.error().to_problem(),
    )
