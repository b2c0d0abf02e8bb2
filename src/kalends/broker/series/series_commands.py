"""Series: book, show, try again what was missed, cancel.

Each occurrence is a request of its own, with a key made of that of the series and its name. So a repeated
call, on whatever replica, finds what there is and books the rest. As many as possible are booked in waves: a
site promises so much at once, and others have their turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    COMMITTED,
    Record,
    SeriesPart,
    Spec,
)
from kalends.broker.desk.request_commands import (
    NewRequest,
    RequestCommands,
    deadline_s,
    digest_of,
)
from kalends.broker.desk.request_queries import Records, SeenRequest
from kalends.broker.planning.horizons import BookingHorizon
from kalends.broker.planning.leaving_sites import check_new
from kalends.broker.planning.planner import fixed_start
from kalends.broker.register.contract import Row
from kalends.broker.series.hour_queries import HourQueries
from kalends.broker.series.joint_commits import JointCommits
from kalends.broker.series.occurrence_changes import no_such
from kalends.broker.series.series_ids import member, number_of, series_of
from kalends.broker.series.series_reads import SeriesReads, not_yours
from kalends.broker.series.series_records import Series, by_name, series_in
from kalends.broker.series.series_tasks import SeriesTasks, waves
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.core.errors import (
    InvalidInput,
    NoCommonTime,
    NotAllowed,
    Refusal,
    RefusalCode,
)
from kalends.core.limits import SERIES_MAX
from kalends.core.requests import span
from kalends.core.series import Occurrence
from kalends.core.times import format_time, zone_named
from kalends.serving.auth.callers import Caller


class Attempted(NamedTuple):
    """One occurrence that is to be booked, or if it is `later`, once an owner's horizon allows."""

    occurrence: Occurrence
    rid: str
    key: str
    later: bool = False


class SeriesCommands:
    """The calls about series."""

    def __init__(
        self,
        service: BrokerService,
        records: Records,
        commands: RequestCommands,
        hours: HourQueries,
        reads: SeriesReads,
        tasks: SeriesTasks,
    ) -> None:
        self._service = service
        self._hours = hours
        self._records = records
        self._commands = commands
        self._reads = reads
        self._tasks = tasks

    async def book(self, caller: Caller, body: calls.BookSeries) -> calls.SeriesView:
        """The series once all is decided, or as it is when the time to wait is over."""
        until_s = deadline_s(body.wait_ms)
        user = caller.principal.user
        more = (body.give_s, body.keep_going) if body.give_s or body.keep_going else ()
        digest = digest_of(
            "series", body.request, body.rule, body.zone, body.mode, tuple(sorted(body.skip)), *more
        )
        known = await self._commands.of_key(user, body.key, digest)
        series = self._new(user, digest, body, known.record if known is not None else None)
        found = series.occurrences()
        if known is None:
            reach = await self._hours.reach(caller, series.request)
            within = self._within(series, found, reach)
            goes_on = body.keep_going and (within or body.mode == "as-many")
            if reach is not None and within < len(found) and not goes_on:
                raise self._beyond(series, reach, within, len(found))
            if later := len(found) - within:
                service = self._service
                service.coordinator.calls.check_may_begin(user, service.moment(), later)
            series = series._replace(part=structs.replace(series.part, count=within))
        asked = [
            Attempted(
                each, member(series.part.id, number), series.key_of(each, number, 0),
                number > series.part.count,
            )
            for number, each in enumerate(found, start=1)
        ]  # fmt: skip
        if series.part.together:
            together = found[: series.part.count]
            if not await self._book_together(caller, series, together, known, until_s):
                return await self._reads.missed(
                    caller, await self._reads.view(caller, series.part.id)
                )
            alone = structs.replace(series.part, together=False)
            series, asked = series._replace(part=alone), asked[series.part.count :]
        else:
            # Stored before the answer, however short the caller waits: a series is what its requests say.
            await self._book_one(caller, series, asked[0], deadline_s(0))
        await self._tasks.run(
            series.part.id, self._book_many(caller, series, asked, until_s), until_s
        )
        return await self._reads.missed(caller, await self._reads.view(caller, series.part.id))

    async def show(self, caller: Caller, body: calls.SeriesRef) -> calls.SeriesView:
        return await self._reads.missed(caller, await self._reads.view(caller, body.id))

    async def retry(self, caller: Caller, body: calls.RetrySeries) -> calls.SeriesView:
        """Ask again for the occurrences to come that were refused, or not asked for."""
        until_s = deadline_s(body.wait_ms)
        tries = await self._reads.tries(caller, body.id)
        found = series_in(tries)
        if found.user != caller.principal.user:
            raise not_yours(found.user)
        # What is asked for again stands alone: the others have been decided.
        series = found._replace(part=structs.replace(found.part, together=False))
        now_s = self._service.moment().wall_s
        tried = by_name(tries)
        asked, all_of_it = [], series.occurrences()
        reach = await self._hours.reach(caller, series.request)
        within = self._within(series, all_of_it, reach)
        for place, each in enumerate(all_of_it, start=1):
            before = tried.get(each.name, [])
            if each.start <= now_s or any(
                whole.current.public_state != "failed" for whole in before
            ):
                continue
            # By place and try, as the key: whoever asks for this one at the same time asks by the same id.
            number = place + len(before) * SERIES_MAX
            rid = member(series.part.id, number)
            key = series.key_of(each, number, len(before))
            asked.append(Attempted(each, rid, key, series.part.keeps_going and place > within))
        await self._tasks.run(
            series.part.id, self._book_many(caller, series, asked, until_s), until_s
        )
        return await self._reads.missed(caller, await self._reads.view(caller, series.part.id))

    async def cancel(self, caller: Caller, body: calls.CancelSeries) -> calls.SeriesView:
        until_s = deadline_s(body.wait_ms)
        tries = await self._reads.tries(caller, body.id)
        series = series_in(tries)
        if series.user != caller.principal.user and "admin" not in caller.scopes:
            raise NotAllowed(
                f"the series belongs to {series.user}, and auditors can only read it",
                where="id",
                remedy="ask its user, or use a token with the scope admin",
            )
        names = [each.name for each in series.occurrences()]
        if body.occurrence and body.occurrence not in names:
            raise no_such(body.occurrence)
        if body.occurrence:
            place = names.index(body.occurrence)
            names = names[place:] if body.following else [body.occurrence]
        if not body.occurrence or body.following:
            # What has not been asked for yet is not booked after the cancel.
            await self._tasks.stop(body.id)
            await self._service.settle()
            tries = await self._reads.tries(caller, body.id)
        tried = by_name(tries)
        now_s = self._service.moment().wall_s
        ids = [
            whole.id
            for name in names
            for whole in tried.get(name, ())
            if whole.current.user == series.user
            and whole.current.public_state in ("open", "held", "reserved")
            and not _is_over(whole.current, now_s)
        ]
        loop = asyncio.get_running_loop()
        for wave in waves(ids):
            wait_ms = max(int((until_s - loop.time()) * 1_000), 0)
            ends = [calls.Finish(id=rid, wait_ms=wait_ms) for rid in wave]
            await asyncio.gather(*(self._commands.cancel(caller, each) for each in ends))
        return await self._reads.view(caller, body.id)

    # Booking

    def _new(self, user: str, digest: str, body: calls.BookSeries, known: Record | None) -> Series:
        """Return the series that a call describes, which is `known` if it was made before.

        Raises `InvalidInput`.
        """
        request = body.request
        request.check(from_wire=True)
        begins = fixed_start(request)
        if begins is None:
            raise InvalidInput(
                "a series needs an exact start",
                where="request.not_after",
                remedy="give the start of the first occurrence (--at)",
            )
        self._hours.check(request)
        if known is not None and known.spec.series is not None:
            return Series(user, body.key, digest, known.spec.series, request, begins)
        check_new(request, self._service.directory.leaving())
        zone = zone_named(body.zone)
        first = datetime.fromtimestamp(begins, zone).replace(tzinfo=None, fold=0)
        service = self._service
        new_rid = service.coordinator.calls.new_rid(service.moment())
        part = SeriesPart(
            id=series_of(new_rid), name="", rule=body.rule, zone=zone.key, first=first.isoformat(),
            skip=tuple(sorted({*body.skip})), together=body.mode == "all", give_s=body.give_s,
            keeps_going=body.keep_going,
        )  # fmt: skip
        series = Series(user, body.key, digest, part, request, begins)
        found = series.occurrences()
        if found[0].start <= service.moment().wall_s:
            raise InvalidInput(
                f"the first occurrence, {found[0].name}, has begun already",
                where="request.not_before",
                remedy="give a later start",
            )
        return series

    def _within(
        self, series: Series, found: Sequence[Occurrence], reach: BookingHorizon | None
    ) -> int:
        """Return how many occurrences, from the first on, lie within the horizons of the owners."""
        if reach is None:
            return len(found)
        begin_s, _ = span(series.request)
        ends_s = begin_s + series.length_s + series.part.give_s
        until = self._service.moment().wall_s + reach.seconds
        return sum(each.start + ends_s <= until for each in found)

    def _beyond(self, series: Series, reach: BookingHorizon, within: int, of: int) -> NoCommonTime:
        until = self._service.moment().wall_s + reach.seconds
        refusal = Refusal(
            where=reach.resource,
            code=RefusalCode.BEYOND_HORIZON,
            detail=f"{within} of {of} occurrences lie within its horizon, which ends"
            f" {format_time(until, series.zone)}",
        )
        ways = f"end the series by {datetime.fromtimestamp(until, series.zone):%Y-%m-%d}"
        if within and not series.part.keeps_going:
            ways += ", or let it keep going (--keep-going)"
        return NoCommonTime(
            f"{of - within} of {of} occurrences lie beyond an owner's horizon, so nothing was booked",
            refusals=(refusal,),
            remedy=ways,
        )

    def _spec(
        self, caller: Caller, series: Series, occurrence: Occurrence, later: bool = False
    ) -> Spec:
        return structs.replace(
            self._commands.spec_of(caller, series.request_at(occurrence)),
            patience="held" if later else "none",
            give_up_at=occurrence.start if later else 0,
            series=structs.replace(series.part, name=occurrence.name),
        )

    async def _book_together(
        self, caller: Caller, series: Series, found: Sequence[Occurrence], known: SeenRequest | None,
        until_s: float,
    ) -> bool:  # fmt: skip
        """Book all of them or none, and return whether they are; a repeated call waits for the first one."""
        if known is None:
            service = self._service
            service.replica.check()
            rids = [member(series.part.id, number) for number in range(1, len(found) + 1)]
            specs = {
                rid: self._spec(caller, series, each) for rid, each in zip(rids, found, strict=True)
            }
            keys = {
                rid: series.key_of(each, number, 0)
                for number, (rid, each) in enumerate(zip(rids, found, strict=True), start=1)
            }
            with ExitStack() as stack:
                tickets = {rid: stack.enter_context(service.tickets.new()) for rid in rids}
                numbers = {rid: ticket.number for rid, ticket in tickets.items()}
                service.runner.asked(
                    lambda coordinator: coordinator.wing(JointCommits).begin(
                        caller.principal, keys, series.digest, specs, numbers, service.moment()
                    )
                )
                answers = await asyncio.gather(
                    *(ticket.answer(until_s) for ticket in tickets.values()),
                    return_exceptions=True,
                )
            raised = [each for each in answers if isinstance(each, BaseException)]
            if raised:
                raise raised[0]
        else:
            for whole in await self._reads.tries(caller, series.part.id):
                current = whole.current
                if number_of(whole.id) <= len(found) and isinstance(current, Record):
                    await self._commands.settled(SeenRequest(current, whole), until_s)
        await self._service.settle()
        first = (await self._reads.tries(caller, series.part.id))[0].rows[0]
        return isinstance(first, Record) and first.state in COMMITTED

    async def _book_many(
        self, caller: Caller, series: Series, asked: Sequence[Attempted], until_s: float
    ) -> None:
        for wave in waves(asked):
            answers = await asyncio.gather(
                *(self._book_one(caller, series, each, until_s) for each in wave),
                return_exceptions=True,
            )
            raised = [each for each in answers if isinstance(each, BaseException)]
            if raised:
                raise raised[0]

    async def _book_one(
        self, caller: Caller, series: Series, asked: Attempted, until_s: float
    ) -> None:
        async def new() -> NewRequest:
            spec = self._spec(caller, series, asked.occurrence, asked.later)
            return NewRequest(spec, rid=asked.rid)

        wait_s = deadline_s(0) if asked.later else until_s
        await self._commands.decided(caller, asked.key, series.digest, wait_s, new)


def _is_over(row: Row, now_s: int) -> bool:
    wants = row.wants if isinstance(row, Record) else ()
    return bool(wants) and max(want.end for want in wants) <= now_s
