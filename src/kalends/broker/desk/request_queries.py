"""Reads of the register for users who may see a request: show, list, why, by key, audit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record, Unreadable
from kalends.broker.coordination.record.event_log import as_told
from kalends.broker.coordination.record.views import view_of
from kalends.broker.register import request_reads, request_rows
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.contract.notice_calls import ChangeByOthers
from kalends.core.errors import NotAllowed, NotFound
from kalends.core.identifiers import minted_ms
from kalends.core.steps import StepPart
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import Clock

AUDIT_PAGE: Final = 1_000

COMPARE_S_MAX: Final = 20.0
"""The wait of an audit for sites to be compared: shorter than the client's for an answer."""

_SEE_ALL: Final = frozenset({"audit", "admin"})
"""The scopes that may read other users' requests. Locking, releasing or cancelling them needs ``admin``."""


class Records:
    """Reads only; a request is visible to its owner, and to the scopes ``audit`` and ``admin``.

    `parts_of` gives the parts of a job in step.
    """

    def __init__(
        self,
        service: BrokerService,
        clock: Clock,
        parts_of: Callable[[Record], tuple[StepPart, ...]],
    ) -> None:
        self._service = service
        self._clock = clock
        self._parts_of = parts_of

    def of(self, caller: Caller, request_id: str) -> Record:
        """The record that stands for `request_id`; raises `NotFound` for one that is not visible.

        Raises `Unavailable` in its place while the register may have forgotten it.
        """
        store = self._service.store
        record = store.read(request_reads.current, request_id) or store.read(
            request_rows.row, request_id
        )
        if record is None or not may_see(caller, record.user):
            self._service.replica.check_whole()
            raise NotFound(
                "no such request, or not yours",
                where="id",
                remedy="see `kalends list` for your requests",
                request_id=request_id,
            )
        return request_rows.readable(record)

    def to_end(self, caller: Caller, request_id: str) -> Record:
        """Return the request as `of` does, for who may decide what becomes of it; raises `NotAllowed` too."""
        record = self.of(caller, request_id)
        if record.user != caller.principal.user and "admin" not in caller.scopes:
            raise NotAllowed(
                f"it belongs to {record.user}, and auditors can only read it",
                where="id",
                remedy="ask its user, or use a token with the scope admin",
            )
        return record

    def standing(self, record: Record) -> Record:
        """`record`, or what has replaced it."""
        if record.state != "replaced":
            return record
        current = self._service.store.read(request_reads.current, record.reservation)
        return request_rows.readable(current) if current is not None else record

    def change_of(self, record: Record) -> Record | None:
        """The move, extend or shrink of the reservation of `record` that is under way, if it can be read."""
        store = self._service.store
        changing = store.read(request_rows.changing, record.reservation)
        found = store.read(request_rows.row, changing) if changing else None
        return found if isinstance(found, Record) else None

    def view(self, record: Record) -> calls.RequestView:
        """`record` with what this replica knows of its sites, and with a change that is under way."""
        case = self._service.cases.get(record.rid)
        confirmed = None
        if case is not None and case.phase == "telling" and record.state == "commit":
            confirmed = frozenset(site for site, part in case.parts.items() if part.done)
        changing = self._service.store.read(request_rows.changing, record.reservation)
        view = view_of(record, confirmed=confirmed, changing=changing)
        if record.job.machines:
            view = structs.replace(view, parts=self._parts_of(record))
        if case is None or record.state != "open":
            return view
        waiting = self._service.coordinator.negotiation.waiting_of(
            record.rid, self._service.moment()
        )
        return structs.replace(view, waiting=waiting)

    def show(self, caller: Caller, body: calls.ById) -> calls.RequestView:
        return self.view(self.of(caller, body.id))

    def why(self, caller: Caller, body: calls.ById) -> calls.Story:
        """The whole story, with that of every change that was made or refused, as far as it can be read."""
        record = self.of(caller, body.id)
        history = self._service.store.read(request_rows.history, record.reservation)
        events = [
            as_told(each, event)
            for each in history
            if isinstance(each, Record)
            for event in (*each.trail, *_begins(each))
        ]
        return calls.Story(
            request=self.view(record),
            events=tuple(sorted(events, key=lambda event: event.number)),
        )

    def by_key(self, caller: Caller, body: calls.ByKey) -> calls.RequestView:
        record = self._service.store.read(request_reads.by_key, caller.principal.user, body.key)
        if record is None:
            self._service.replica.check_whole()
            raise NotFound(
                "no request of yours was made with this key",
                where="key",
                remedy="the request never arrived: send it again with the same key",
            )
        return self.view(self.standing(record))

    async def list(self, caller: Caller, body: calls.ListRequests) -> calls.Requests:
        if body.everyone:
            caller.require("audit", self._clock.wall_s())
        found = await self._service.store.read_slowly(
            lambda connection: _listed(connection, caller.principal.user, body)
        )
        views = (
            self.view(row) if isinstance(row, Record) else view_of_unreadable(row) for row in found
        )
        # What agents have left is for whoever asks about one request.
        return calls.Requests(requests=tuple(structs.replace(view, notes=()) for view in views))

    async def audit(self, caller: Caller, body: calls.Audit) -> calls.Audited:
        """A page of the register; problems are the alarms since the start that are not over, and what cannot
        be read on this page. With the first page also in what the sites differ from it.
        """
        differences: tuple[str, ...] = ()
        unreached: tuple[str, ...] = ()
        if not body.after:
            differences, unreached = await self._service.comparisons.differences(COMPARE_S_MAX)
        page = await self._service.store.read_slowly(
            lambda connection: request_reads.page(connection, body.after, AUDIT_PAGE)
        )
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
                *self._service.alarms.problems,
                *differences,
                *(f"{row.rid}: {row.reason}" for row in page if isinstance(row, Unreadable)),
            ),
            settled=self._service.alarms.settled,
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


def _listed(
    connection: sqlite3.Connection, user: str, body: calls.ListRequests
) -> list[request_rows.Row]:
    found: list[request_rows.Row] = []
    for first in request_reads.of_user(connection, user, body.before, body.everyone):
        row = request_reads.current(connection, first.reservation) or first
        if body.state in ("", row.public_state):
            found.append(row)
            if len(found) == body.count:
                break
    return found
