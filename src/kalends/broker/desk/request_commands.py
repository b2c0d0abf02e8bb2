"""Book, change, lock, release and cancel: from a call to the coordinator, and back with its answer.

Every call is idempotent: book and change by their key, the others by what they bring about. A call
has one deadline for all that it waits for, `until_s` (loop time); a request goes on without its caller.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record, Spec, StepJob
from kalends.broker.coordination.record.refusal_errors import (
    check_not_over,
    key_reused,
    under_way,
)
from kalends.broker.coordination.user_calls import UserCalls
from kalends.broker.desk.changes import changed
from kalends.broker.desk.priorities import PriorityGrants
from kalends.broker.desk.request_queries import Records, check_own, ended_by
from kalends.broker.desk.scripts import Scripts
from kalends.broker.planning.local_days import fixed_in_days
from kalends.broker.planning.planner import executable
from kalends.broker.register import request_reads
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    LostRace,
    NotFound,
    error_from_problem,
)
from kalends.core.intervals import Moment
from kalends.core.language import format_alternatives
from kalends.core.steps import Step
from kalends.serving.auth.callers import Caller

POLL_S_MIN: Final = 0.01
POLL_S_MAX: Final = 0.2
"""How often the register is looked at for what another replica, or a site, is about to settle."""

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")

Finish = Callable[[Record, int, Moment], None]


def digest_of(*asked: object) -> str:
    """Return the same text for the same call, in any process and version of Python."""
    return hashlib.blake2b(_ENCODER.encode(asked), digest_size=16).hexdigest()


def deadline_s(wait_ms: int) -> float:
    """Return when a call that begins now has waited `wait_ms`, in seconds of the event loop's clock."""
    return asyncio.get_running_loop().time() + wait_ms / 1000


class RequestCommands:
    """The calls that change something.

    `step_of` gives the jobs in step of a booking, `parts_known` tells whether all sites have numbered theirs.
    """

    def __init__(
        self,
        service: BrokerService,
        records: Records,
        scripts: Scripts,
        grants: PriorityGrants,
        step_of: Callable[[calls.Book], Step | None],
        parts_known: Callable[[Record], bool],
    ) -> None:
        self._service = service
        self._records = records
        self._scripts = scripts
        self._grants = grants
        self._step_of = step_of
        self._parts_known = parts_known

    async def book(self, caller: Caller, body: calls.Book) -> calls.RequestView:
        request, until_s = body.request, deadline_s(body.wait_ms)
        request.check(from_wire=True)
        executable(request)
        step = self._step_of(body)
        priority = self._grants.granted(caller.principal, request.priority)
        asked_for, wants = fixed_in_days(request, self._service.directory.resources)
        spec = Spec(
            request=structs.replace(asked_for, priority=priority),
            text=format_alternatives(request.alternatives),
            hold=body.hold,
            hold_s=body.hold_s if body.hold else 0,
            wants=wants or (),
            patience=body.patience,
            give_up_at=body.give_up_at,
            what=StepJob(step) if step is not None else None,
        )
        user = caller.principal.user

        async def asked() -> tuple[Spec, None]:
            """A key that is known already finds its request, whatever became of the script since."""
            if body.give_up_at and body.give_up_at <= self._service.moment().wall_s:
                raise InvalidInput(
                    "the deadline has passed",
                    where="give_up_at",
                    remedy="give a later deadline, or leave it out",
                )
            if not request.agent:
                return spec, None
            found = self._scripts.resolve(user, request.agent, "request.agent")
            return structs.replace(spec, agent=found.agent, script=found.script), None

        in_step = (msgspec.to_builtins(step),) if step is not None else ()
        digest = digest_of(
            "book", request, body.hold, body.hold_s, body.patience, body.give_up_at, *in_step
        )
        view = await self.decided(caller, body.key, digest, until_s, asked)
        return view if step is None else await self._with_parts(caller, view, until_s)

    async def _with_parts(
        self, caller: Caller, view: calls.RequestView, until_s: float
    ) -> calls.RequestView:
        """The request once all sites have said which jobs its parts are, or as it is at `until_s`."""
        if view.state != "reserved":
            return view
        record = self._records.of(caller, view.id)
        return self._records.view(await self._polled(record, until_s, self._parts_known))

    async def change(self, caller: Caller, body: calls.Change) -> calls.RequestView:
        """The reservation after the change; raises what stood in the way, and the old stands.

        A repeated call finds its key, also when the change has made it senseless meanwhile.
        """
        until_s = deadline_s(body.wait_ms)
        digest = digest_of("change", body.id, body.start, body.duration_s, body.units)

        async def made() -> tuple[Spec, Record]:
            old = await self._confirmed(self._records.of(caller, body.id), until_s)
            check_own(old, caller)
            if old.state != "commit":
                raise Conflict(
                    f"it is {old.public_state}, but only a reservation can be changed",
                    request_id=old.reservation,
                )
            if old.spec.placement is not None:
                raise Conflict(
                    "it is a job that waits in a queue, so it has no slot to change",
                    remedy="cancel it, and submit it again",
                    request_id=old.reservation,
                )
            if (change := self._records.change_of(old)) is not None:
                raise under_way(self._records.view(change))
            check_not_over(old, now_s := self._service.moment().wall_s)
            wants, request = changed(old, body, now_s, self._service.directory.resources)
            text = format_alternatives(request.alternatives)
            return Spec(request=request, text=text, wants=wants), old

        view = await self.decided(caller, body.key, digest, until_s, made)
        if view.state == "failed" and view.problem is not None:
            raise error_from_problem(view.problem)
        return view

    async def lock(self, caller: Caller, body: calls.Finish) -> calls.RequestView:
        record = self._records.to_end(caller, body.id)
        if record.public_state in ("cancelled", "replaced"):
            raise Conflict(
                f"it is {record.public_state} and holds nothing",
                remedy="hold or book it again",
                request_id=record.reservation,
            )
        return await self._finished(record, deadline_s(body.wait_ms), self._users.lock)

    async def release(self, caller: Caller, body: calls.Finish) -> calls.RequestView:
        record = self._records.to_end(caller, body.id)
        check_not_over(record, self._service.moment().wall_s)
        if record.public_state == "reserved":
            raise Conflict(
                "it is reserved, not held",
                remedy="cancel it to free its slots",
                request_id=record.reservation,
            )
        return await self._ended(caller, record, deadline_s(body.wait_ms), self._users.release)

    async def cancel(self, caller: Caller, body: calls.Finish) -> calls.RequestView:
        """Answers once every site has freed its slots, or when the time to wait is over.

        What is not decided yet, or only held, is given up; if it is reserved before that, cancelled.
        A change of it that is under way is given up first, so that it leaves nothing held.
        """
        until_s = deadline_s(body.wait_ms)
        record = self._records.to_end(caller, body.id)
        if record.state == "commit" and (change := self._records.change_of(record)) is not None:
            await self._ended(caller, change, until_s, self._users.release)
            record = self._records.to_end(caller, body.id)
        if record.state == "open":
            view = await self._ended(caller, record, until_s, self._users.release)
            if view.state != "reserved":
                return view
            record = self._records.to_end(caller, body.id)
        while True:
            view = await self._ended(caller, record, until_s, self._users.cancel)
            if view.state != "replaced":
                return view
            # It has another place, or time, since a moment ago: that is what is to be cancelled.
            standing = self._records.to_end(caller, body.id)
            if standing.rid == record.rid:
                return view
            record = standing

    @property
    def _users(self) -> UserCalls:
        return self._service.coordinator.calls

    async def _ended(
        self, caller: Caller, record: Record, until_s: float, end: Callable[..., None]
    ) -> calls.RequestView:
        by = ended_by(record, caller, self._service.moment().wall_s)
        return await self._finished(record, until_s, partial(end, by=by))

    async def decided(
        self,
        caller: Caller,
        key: str,
        digest: str,
        until_s: float,
        asked: Callable[[], Awaitable[tuple[Spec, Record | None]]],
    ) -> calls.RequestView:
        """The answer to the request of this key, which is begun unless it is known already.

        What is `asked` is looked at only where the key is not known: what was sound when it was asked
        first may have no sense any more, just because it was carried out.
        """
        service = self._service
        service.replica.check()
        user = caller.principal.user
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        known = await self._of_key(user, key, digest)
        if known is None:
            try:
                spec, replaces = await asked()
            except KalendsError:
                # Meanwhile it may have been begun, and be itself what is in the way.
                await service.settle()
                known = await self._of_key(user, key, digest)
                if known is None:
                    raise
        if known is not None:
            return await self._elsewhere(known, until_s)
        with service.tickets.new() as ticket:
            service.runner.asked(
                lambda coordinator: coordinator.calls.submit(
                    caller.principal,
                    key,
                    digest,
                    spec,
                    ticket.number,
                    service.moment(),
                    replaces=replaces,
                )
            )
            view = await ticket.answer(until_s)
        if view is not None and view.state != "open":
            service.measures.booking_seconds.observe(loop.time() - began_s)
            return view
        await service.settle()
        record = service.store.read(request_reads.by_key, user, key)
        if record is None:
            raise LostRace("it was cancelled before it began", remedy="try again")
        return await self._elsewhere(record, until_s)

    async def _of_key(self, user: str, key: str, digest: str) -> Record | None:
        """Return the earlier request with `key`, on any replica; raises `KeyReused`."""
        service = self._service
        known = service.store.read(request_reads.by_key, user, key)
        if known is None and service.coordinator.table.working_on(user, key) is not None:
            await service.settle()
            known = service.store.read(request_reads.by_key, user, key)
        if known is None:
            return None
        if known.digest != digest:
            raise key_reused(key)
        service.coordinator.table.notice(known)
        return known

    async def _elsewhere(self, record: Record, until_s: float) -> calls.RequestView:
        """`record` once it is decided, or at `until_s`; others, or nobody, may be working on it."""
        service = self._service
        if record.public_state == "open" and asyncio.get_running_loop().time() < until_s:
            with service.tickets.new() as ticket:
                joined = service.coordinator.calls.join(record.rid, ticket.number)
                if joined:
                    service.stir()
                    view = await ticket.answer(until_s)
                    if view is not None:
                        return view
            if not joined:
                record = await self._polled(record, until_s, attrgetter("is_told"))
            record = service.store.read(request_reads.read, record.rid) or record
        return self._records.view(self._records.standing(record))

    async def _confirmed(self, record: Record, until_s: float) -> Record:
        """`record` once all its sites have said Done: only then can it be replaced."""
        if record.state != "commit" or record.done:
            return record
        return await self._polled(
            record, until_s, lambda record: record.done or record.state != "commit"
        )

    async def _polled(
        self, record: Record, until_s: float, enough: Callable[[Record], bool]
    ) -> Record:
        """`record` from the register once it is `enough`, or at `until_s`."""
        loop = asyncio.get_running_loop()
        step_s = POLL_S_MIN
        while not enough(record) and (left_s := until_s - loop.time()) > 0:
            await asyncio.sleep(min(step_s, left_s))
            step_s = min(step_s * 2, POLL_S_MAX)
            record = self._service.store.read(request_reads.read, record.rid) or record
        return record

    async def _finished(self, record: Record, until_s: float, finish: Finish) -> calls.RequestView:
        """The answer to `finish`, or the request as it is at `until_s`."""
        service = self._service
        with service.tickets.new() as ticket:
            service.runner.asked(lambda _: finish(record, ticket.number, service.moment()))
            view = await ticket.answer(until_s)
        if view is not None:
            return view
        await service.settle()
        now = service.store.read(request_reads.read, record.rid)
        if now is None:
            raise NotFound("no such request, or not yours", where="id")
        return self._records.view(now)
