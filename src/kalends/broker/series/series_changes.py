"""Move, extend and shrink occurrences of a series: all or none, or each by itself, as it was booked.

Each change is one of a reservation, with a key made of that of the call and the name of its occurrence. So a
repeated call, on whatever replica, finds what there is. What waits for an owner's horizon has no slots to
change: its request is written anew, at its next attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record, SeriesChange
from kalends.broker.coordination.record.refusal_errors import key_reused
from kalends.broker.desk.request_commands import (
    NewRequest,
    RequestCommands,
    deadline_s,
    digest_of,
)
from kalends.broker.desk.request_queries import SeenRequest
from kalends.broker.register.contract import WholeReservation
from kalends.broker.series import occurrence_changes as changing
from kalends.broker.series.joint_commits import JointCommits
from kalends.broker.series.occurrence_changes import StandingOccurrence
from kalends.broker.series.series_reads import SeriesReads, not_yours
from kalends.broker.series.series_records import Series, series_in
from kalends.broker.series.series_tasks import SeriesTasks, waves
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.core.errors import Conflict, InvalidInput, KalendsError, Problem
from kalends.core.limits import TIME_S_MAX
from kalends.core.times import format_time
from kalends.serving.auth.callers import Caller


class SeriesCall(NamedTuple):
    """A call that changes a series; `change` is the mark of its requests."""

    caller: Caller
    series: Series
    body: calls.ChangeSeries
    change: SeriesChange
    until_s: float


class SeriesChanges:
    """The call that changes occurrences of a series."""

    def __init__(
        self,
        service: BrokerService,
        commands: RequestCommands,
        reads: SeriesReads,
        tasks: SeriesTasks,
    ) -> None:
        self._service = service
        self._commands = commands
        self._reads = reads
        self._tasks = tasks

    async def change(self, caller: Caller, body: calls.ChangeSeries) -> calls.SeriesView:
        """The series once all is decided, or as it is when the time to wait is over.

        Raises what stands in the way before anything is asked of a site; then nothing has happened. What
        sites refuse is in the answer.
        """
        until_s, user = deadline_s(body.wait_ms), caller.principal.user
        changing.check(body)
        digest = digest_of(
            "series_change", body.id, body.what, body.occurrence, body.following, body.start, body.by_s,
            body.duration_s, body.units,
        )  # fmt: skip
        await self._commands.of_key(user, body.key, digest)
        tries = await self._reads.tries(caller, body.id)
        series = series_in(tries)
        if series.user != user:
            raise not_yours(series.user)
        made = changing.made_by(tries, user, body.key)
        if made is not None and made.digest != digest:
            raise key_reused(body.key)
        found = changing.in_scope(series, tries, body, self._now_s())
        if made is None:
            changing.check_left(found, body)
        later_s = made.later_s if made is not None else changing.later_s(body, series, found)
        id = self._service.coordinator.calls.new_rid(self._service.moment())
        change = SeriesChange(id, body.key, digest, later_s)
        asked = SeriesCall(caller, series, body, change, until_s)
        unchanged: dict[str, Problem] = {}
        if made is not None and (made.count or series.part.together):
            await self._settled(asked)
        elif series.part.together:
            await self._change_together(asked, found)
        else:
            anchor = changing.anchor_of(tries, user, body.key)
            work = self._change_each(asked, found, anchor, unchanged)
            await self._tasks.run(body.id, work, until_s)
        return await self._answer(asked, unchanged)

    def _now_s(self) -> int:
        return self._service.moment().wall_s

    # All or none

    async def _change_together(
        self, asked: SeriesCall, found: Sequence[StandingOccurrence]
    ) -> None:
        """Change all of them or none: one is refused before any is asked for, if that is known here."""
        service, body = self._service, asked.body
        current = service.replica.in_use()
        news: dict[str, NewRequest] = {}
        waiting: list[tuple[StandingOccurrence, Record]] = []
        for each in found:
            try:
                if each.waits:
                    record = self._waiting(asked, each)
                    waiting += [(each, record)] if record is not None else []
                elif (new := await self._reserved(asked, each)) is not None:
                    news[each.name] = new
            except KalendsError as error:
                error.detail = f"{each.name}: {error.detail}"
                raise
        if not news and not waiting:
            raise InvalidInput(
                "nothing would change", remedy="give another time, length or number of units"
            )
        service.replica.check_still(current)
        change = structs.replace(asked.change, count=len(news))
        now, anchor = service.moment(), next(iter(news), "")
        rids = {name: service.coordinator.calls.new_rid(now) for name in news}
        keys = {rids[name]: changing.key_of(body.key, anchor, name) for name in news}
        specs = {rids[name]: structs.replace(new.spec, change=change) for name, new in news.items()}
        replaced = {rids[name]: new.replaces for name, new in news.items() if new.replaces}
        moved = [
            structs.replace(record, changed_by=(*record.changed_by[:-1], change))
            for _, record in waiting
        ]
        with ExitStack() as stack:
            tickets = {rid: stack.enter_context(service.tickets.new()) for rid in specs}
            numbers = {rid: ticket.number for rid, ticket in tickets.items()}

            def begin(joint: JointCommits) -> None:
                joint.begin(
                    asked.caller.principal, keys, change.digest, specs, numbers, now, replaced
                )
                joint.move(change, moved, now)

            service.runner.asked(lambda coordinator: begin(coordinator.wing(JointCommits)))
            answers = await asyncio.gather(
                *(ticket.answer(asked.until_s) for ticket in tickets.values()),
                return_exceptions=True,
            )
        raised = [each for each in answers if isinstance(each, BaseException)]
        if raised:
            raise raised[0]
        await service.settle()
        if not news:
            self._check_moved(await self._tries(asked), change)

    def _check_moved(self, tries: Sequence[WholeReservation], change: SeriesChange) -> None:
        """Raise `Conflict` if what waits was not moved: it is being asked for."""
        user = tries[0].rows[0].user
        if changing.made_by(tries, user, change.key) is None:
            raise _asked_for()

    async def _settled(self, asked: SeriesCall) -> None:
        """Wait for what an earlier call has begun."""
        begun = [
            SeenRequest(row, whole)
            for whole in await self._tries(asked)
            for row in whole.rows
            if isinstance(row, Record) and row.spec.change is not None
            if row.spec.change.key == asked.body.key
        ]
        for each in begun:
            await self._commands.settled(each, asked.until_s)

    # Each by itself

    async def _change_each(
        self,
        asked: SeriesCall,
        found: Sequence[StandingOccurrence],
        anchor: str,
        unchanged: dict[str, Problem],
    ) -> None:
        """Change each occurrence that can be changed; `unchanged` says of others why they cannot."""
        in_turn = changing.in_turn(found, asked.change.later_s)
        names = [each.name for each in in_turn if not each.waits]
        anchor = anchor or next(iter(names), "")
        alone = abs(asked.change.later_s) + asked.series.length_s > _apart_s(found)
        groups = [(each,) for each in in_turn] if alone else waves(in_turn)
        for group in groups:
            answers = await asyncio.gather(
                *(self._change_one(asked, each, anchor) for each in group), return_exceptions=True
            )
            for each, answer in zip(group, answers, strict=True):
                if isinstance(answer, KalendsError):
                    unchanged[each.name] = answer.to_problem()
                elif isinstance(answer, BaseException):
                    raise answer

    async def _change_one(self, asked: SeriesCall, each: StandingOccurrence, anchor: str) -> None:
        if each.waits:
            await self._move_waiting(asked, each)
            return
        key = changing.key_of(asked.body.key, anchor, each.name)

        async def new() -> NewRequest:
            found = await self._reserved(asked, each)
            if found is None:
                raise _AsItIs
            return found._replace(spec=structs.replace(found.spec, change=asked.change))

        try:
            await self._commands.decided(asked.caller, key, asked.change.digest, asked.until_s, new)
        except _AsItIs:
            return

    async def _move_waiting(self, asked: SeriesCall, each: StandingOccurrence) -> None:
        if any(change.key == asked.body.key for change in each.record.changed_by):
            return
        record, service = self._waiting(asked, each), self._service
        if record is None:
            return
        service.runner.asked(
            lambda coordinator: coordinator.wing(JointCommits).move(
                asked.change, (record,), service.moment()
            )
        )
        await service.settle()
        after = [whole for whole in await self._tries(asked) if whole.id == each.whole.id]
        self._check_moved(after, asked.change)

    # One occurrence

    async def _reserved(self, asked: SeriesCall, each: StandingOccurrence) -> NewRequest | None:
        """Return the change of an occurrence once all its sites know it; None if it is as it is to be."""
        if each.record.state == "open":
            raise Conflict(
                "the occurrence is still being decided",
                remedy="try again once it is reserved",
                request_id=each.record.reservation,
            )
        seen = await self._commands.confirmed(SeenRequest(each.record, each.whole), asked.until_s)
        change = changing.change_of(
            each._replace(record=seen.record), asked.body, asked.change.later_s, asked.series.zone
        )
        if change is None:
            return None
        new = self._commands.changed(seen, change)
        # It waits for nothing: what others hold refuses it, as when the series was booked. What came back
        # from its sites does not say which occurrence it is; the first request of its reservation does.
        first = each.whole.rows[0]
        part = first.spec.series if isinstance(first, Record) else None
        return new._replace(spec=structs.replace(new.spec, patience="none", series=part))

    def _waiting(self, asked: SeriesCall, each: StandingOccurrence) -> Record | None:
        """Return an occurrence that waits for a horizon as it is to be; None if it is so already."""
        found = changing.later_request(each, asked.series, asked.body, asked.change.later_s)
        if found is None:
            return None
        request, start = found
        if start <= self._now_s():
            raise InvalidInput(
                f"the occurrence would begin {format_time(start, asked.series.zone)}, which is over",
                where="by_s",
                remedy="move it by less",
            )
        spec = self._commands.spec_of(asked.caller, request)
        return changing.waiting_changed(each.record, spec, start, asked.change)

    # The answer

    async def _tries(self, asked: SeriesCall) -> list[WholeReservation]:
        return await self._reads.tries(asked.caller, asked.body.id)

    async def _answer(self, asked: SeriesCall, unchanged: dict[str, Problem]) -> calls.SeriesView:
        user, key = asked.caller.principal.user, asked.body.key
        refused = {**unchanged, **changing.refusals_of(await self._tries(asked), user, key)}
        view = await self._reads.view(asked.caller, asked.body.id)
        found = (
            structs.replace(each, unchanged=refused.get(each.name)) for each in view.occurrences
        )
        return structs.replace(view, occurrences=tuple(found))


class _AsItIs(Exception):
    """An occurrence is as it is to be: there is nothing to ask for."""


def _apart_s(found: Sequence[StandingOccurrence]) -> int:
    """Return the least time between the starts of two occurrences."""
    starts = sorted(each.start for each in found)
    return min((later - each for each, later in pairwise(starts)), default=TIME_S_MAX)


def _asked_for() -> Conflict:
    return Conflict("the occurrence is just being asked for", remedy="try again once it is decided")
