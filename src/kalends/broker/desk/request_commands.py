"""Book, change, lock, release and cancel: from a call to the coordinator, and back with its answer.

Every call is idempotent: book and change by their key, the others by what they bring about. A call
has one deadline for all that it waits for, `until_s` (loop time); a request goes on without its caller.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

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
from kalends.broker.desk.request_queries import Records, SeenRequest, check_own, ended_by
from kalends.broker.desk.scripts import Scripts
from kalends.broker.planning.companions import accompanied
from kalends.broker.planning.leaving_sites import check_change, check_known, check_new
from kalends.broker.planning.local_days import fixed_in_days
from kalends.broker.planning.planner import executable
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.contract.fields import Want
from kalends.contract.notice_calls import ChangeByOthers
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
from kalends.core.requests import Request
from kalends.core.steps import Step
from kalends.serving.auth.callers import Caller

POLL_S_MIN: Final = 0.01
POLL_S_MAX: Final = 0.2
"""How often the register is looked at for what another replica, or a site, is about to settle."""

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")

Split = Callable[[Caller, Request, Collection[str]], Awaitable[Request | None]]
"""Gives a request with splits for what it asks of all members of virtual sites; None if it asks nothing."""

Finish = Callable[[UserCalls, Record, int, Moment], None]


class _OfAnother(Exception):
    """The reservation of `record` is of another user, who lets the caller change it."""

    def __init__(self, record: Record) -> None:
        self.record = record


class NewRequest(NamedTuple):
    """A request that is to begin; `source` is that of its script, `rid` its id if it is not a new one."""

    spec: Spec
    replaces: Record | None = None
    source: str = ""
    rid: str = ""


def digest_of(*asked: object) -> str:
    """Return the same text for the same call, in any process and version of Python."""
    return hashlib.blake2b(_ENCODER.encode(asked), digest_size=16).hexdigest()


def deadline_s(wait_ms: int) -> float:
    """Return when a call that begins now has waited `wait_ms`, in seconds of the event loop's clock."""
    return asyncio.get_running_loop().time() + wait_ms / 1000


@dataclass(frozen=True, eq=False)
class RequestCommands:
    """The calls that change something.

    `step_of` gives the jobs in step of a booking, `parts_known` tells whether all sites have numbered theirs.
    `split` is None without virtual sites.
    """

    service: BrokerService
    records: Records
    scripts: Scripts
    grants: PriorityGrants
    step_of: Callable[[calls.Book], Step | None]
    parts_known: Callable[[Record], bool]
    split: Split | None = None

    async def book(
        self, caller: Caller, body: calls.Book, deputy: str = "", rid: str = ""
    ) -> calls.RequestView:
        """Return the request of the caller; `deputy` asks for it in the caller's name, with the id `rid`."""
        request, until_s = body.request, deadline_s(body.wait_ms)
        request.check(from_wire=True)
        executable(request)
        step = self.step_of(body)
        spec = structs.replace(
            self.spec_of(caller, request),
            hold=body.hold,
            hold_s=body.hold_s if body.hold else 0,
            patience=body.patience,
            give_up_at=body.give_up_at,
            what=StepJob(step) if step is not None else None,
            deputy=deputy,
        )
        user = caller.principal.user

        async def asked() -> NewRequest:
            """A key that is known already finds its request, whatever became of the script since."""
            if body.give_up_at and body.give_up_at <= self.service.moment().wall_s:
                raise InvalidInput(
                    "the deadline has passed",
                    where="give_up_at",
                    remedy="give a later deadline, or leave it out",
                )
            booked = spec
            if self.split is not None:
                booked = await self._split_up(caller, body, spec)
            check_new(booked.request, self.service.directory.leaving())
            if not request.agent:
                return NewRequest(booked, rid=rid)
            found = await self.scripts.resolve(user, request.agent, "request.agent")
            scripted = structs.replace(booked, agent=found.agent, script=found.script)
            return NewRequest(scripted, source=found.source, rid=rid)

        in_step = (msgspec.to_builtins(step),) if step is not None else ()
        digest = digest_of(
            "book", request, body.hold, body.hold_s, body.patience, body.give_up_at, *in_step
        )
        view = await self.decided(caller, body.key, digest, until_s, asked)
        return view if step is None else await self._with_parts(caller, view, until_s)

    async def _split_up(self, caller: Caller, body: calls.Book, spec: Spec) -> Spec:
        """Return `spec` with splits for each term that names all members of a virtual site."""
        assert self.split is not None
        request = await self.split(caller, body.request, body.jobs)
        if request is None:
            return spec
        self.step_of(structs.replace(body, request=request))
        found = self.spec_of(caller, request)
        traffic = body.request.traffic_mb_per_s
        exchanging = f" exchanging {traffic:g} MB/s" if traffic else ""
        text = f"{spec.text}{exchanging}, split: {found.text}"
        return structs.replace(spec, request=found.request, wants=found.wants, text=text)

    def spec_of(self, caller: Caller, request: Request) -> Spec:
        """Return what is to be booked for `request`, with the priority that the caller may have."""
        priority = self.grants.granted(caller.principal, request.priority)
        infos = self.service.directory.resources
        asked_for, wants = fixed_in_days(accompanied(request, infos), infos)
        return Spec(
            request=structs.replace(asked_for, priority=priority),
            text=format_alternatives(request.alternatives),
            wants=wants or (),
        )

    async def _with_parts(
        self, caller: Caller, view: calls.RequestView, until_s: float
    ) -> calls.RequestView:
        """The request once all sites have said which jobs its parts are, or as it is at `until_s`."""
        if view.state != "reserved":
            return view
        seen = await self.records.of(caller, view.id)
        return self.records.view(await self._polled(seen, until_s, self.parts_known))

    async def change(self, caller: Caller, body: calls.Change) -> calls.RequestView:
        """The reservation after the change; raises what stood in the way, and the old stands.

        A repeated call finds its key, also when the change has made it senseless meanwhile. A participant
        changes in the name of the user, whose rights and limits count.
        """
        until_s = deadline_s(body.wait_ms)
        digest = digest_of("change", body.id, body.start, body.duration_s, body.units)
        by = ""

        async def made() -> NewRequest:
            seen = await self.confirmed(await self.records.of(caller, body.id), until_s)
            old = seen.record
            if old.user != caller.principal.user and await self.records.may_change(caller, seen):
                if not by:
                    raise _OfAnother(old)
            else:
                check_own(old, caller)
            return self.changed(seen, body, by)

        try:
            view = await self.decided(caller, body.key, digest, until_s, made)
        except _OfAnother as another:
            by = caller.principal.user
            key = f"by:{digest_of(by, body.key)}"
            holder = structs.replace(caller, principal=another.record.principal)
            view = await self.decided(holder, key, digest, until_s, made)
        if view.state == "failed" and view.problem is not None:
            raise error_from_problem(view.problem)
        return view

    def changed(self, seen: SeenRequest, body: calls.Change, by: str = "") -> NewRequest:
        """Return the request that changes a confirmed reservation, in the name of the participant `by`.

        Raises what stands in the way.
        """
        old = seen.record
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
        if (change := self.records.change_of(seen)) is not None:
            raise under_way(self.records.view(change))
        check_not_over(old, now_s := self.service.moment().wall_s)
        check_known(old.wants, self.service.directory.sites)
        wants, request = changed(old, body, now_s, self.service.directory.resources)
        check_change(wants, old.wants, self.service.directory.leaving())
        text = format_alternatives(request.alternatives)
        spec = Spec(
            request=request, text=text, wants=wants, series=old.spec.series, deputy=old.spec.deputy,
            by_others=_by_participant(old.wants, wants, by, now_s) if by else None,
            by_participant=bool(by),
        )  # fmt: skip
        return NewRequest(spec, replaces=old)

    async def lock(self, caller: Caller, body: calls.Finish) -> calls.RequestView:
        record = (await self.records.to_end(caller, body.id)).record
        if record.public_state in ("cancelled", "replaced"):
            raise Conflict(
                f"it is {record.public_state} and holds nothing",
                remedy="hold or book it again",
                request_id=record.reservation,
            )
        return await self._finished(record, deadline_s(body.wait_ms), UserCalls.lock)

    async def release(self, caller: Caller, body: calls.Finish) -> calls.RequestView:
        record = (await self.records.to_end(caller, body.id)).record
        check_not_over(record, self.service.moment().wall_s)
        if record.public_state == "reserved":
            raise Conflict(
                "it is reserved, not held",
                remedy="cancel it to free its slots",
                request_id=record.reservation,
            )
        return await self._ended(caller, record, deadline_s(body.wait_ms), UserCalls.release)

    async def cancel(self, caller: Caller, body: calls.Finish) -> calls.RequestView:
        """Answers once every site has freed its slots, or when the time to wait is over.

        What is not decided yet, or only held, is given up; if it is reserved before that, cancelled.
        A change of it that is under way is given up first, so that it leaves nothing held.
        """
        until_s = deadline_s(body.wait_ms)
        seen = await self.records.to_end(caller, body.id)
        record = seen.record
        if record.state == "commit" and (change := self.records.change_of(seen)) is not None:
            await self._ended(caller, change.record, until_s, UserCalls.release)
            record = (await self.records.to_end(caller, body.id)).record
        if record.state == "open":
            view = await self._ended(caller, record, until_s, UserCalls.release)
            if view.state != "reserved":
                return view
            record = (await self.records.to_end(caller, body.id)).record
        while True:
            view = await self._ended(caller, record, until_s, UserCalls.cancel)
            if view.state != "replaced":
                return view
            # It has another place, or time, since a moment ago: that is what is to be cancelled.
            standing = (await self.records.to_end(caller, body.id)).record
            if standing.rid == record.rid:
                return view
            record = standing

    async def give_up(self, caller: Caller, change: Record, until_s: float) -> None:
        """Give up a change that is under way; what it changes stands."""
        await self._ended(caller, change, until_s, UserCalls.release)

    async def _ended(
        self, caller: Caller, record: Record, until_s: float, end: Callable[..., None]
    ) -> calls.RequestView:
        by = ended_by(record, caller, self.service.moment().wall_s)
        return await self._finished(record, until_s, partial(end, by=by))

    async def decided(
        self,
        caller: Caller,
        key: str,
        digest: str,
        until_s: float,
        asked: Callable[[], Awaitable[NewRequest]],
    ) -> calls.RequestView:
        """The answer to the request of this key, which is begun unless it is known already.

        What is `asked` is looked at only where the key is not known: what was sound when it was asked
        first may have no sense any more, just because it was carried out.
        """
        service = self.service
        service.replica.check()
        current = service.replica.in_use()
        user = caller.principal.user
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        known = await self.of_key(user, key, digest)
        if known is None:
            try:
                new = await asked()
            except KalendsError:
                # Meanwhile it may have been begun, and be itself what is in the way.
                await service.settle()
                known = await self.of_key(user, key, digest)
                if known is None:
                    raise
        if known is not None:
            return await self.settled(known, until_s)
        service.replica.check_still(current)
        with service.tickets.new() as ticket:
            service.runner.asked(
                lambda coordinator: coordinator.calls.submit(
                    caller.principal,
                    key,
                    digest,
                    new.spec,
                    ticket.number,
                    service.moment(),
                    replaces=new.replaces,
                    source=new.source,
                    rid=new.rid,
                )
            )
            view = await ticket.answer(until_s)
        if view is not None and view.state != "open":
            service.measures.booking_seconds.observe(loop.time() - began_s)
            return view
        await service.settle()
        begun = await self.records.of_key(user, key)
        if begun is None:
            raise LostRace("it was cancelled before it began", remedy="try again")
        return await self.settled(begun, until_s)

    async def of_key(self, user: str, key: str, digest: str) -> SeenRequest | None:
        """Return the earlier request with `key`, on any replica; raises `KeyReused`."""
        service = self.service
        known = await self.records.of_key(user, key)
        if known is None and service.coordinator.table.working_on(user, key) is not None:
            await service.settle()
            known = await self.records.of_key(user, key)
        if known is None:
            return None
        if not known.record.is_asked_by(digest):
            raise key_reused(key)
        service.coordinator.table.notice(known.record)
        return known

    async def settled(self, seen: SeenRequest, until_s: float) -> calls.RequestView:
        """The request once it is decided, or at `until_s`; perhaps no replica works on it, or another one."""
        service, record = self.service, seen.record
        if record.public_state == "open" and asyncio.get_running_loop().time() < until_s:
            with service.tickets.new() as ticket:
                joined = service.coordinator.calls.join(record.rid, ticket.number)
                if joined:
                    service.stir()
                    view = await ticket.answer(until_s)
                    if view is not None:
                        return view
            if not joined:
                seen = await self._polled(seen, until_s, attrgetter("is_told"))
            seen = await self.records.again(record) or seen
        return self.records.view(self.records.standing(seen))

    async def confirmed(self, seen: SeenRequest, until_s: float) -> SeenRequest:
        """The request once all its sites have sent Done: only then can it be replaced."""
        if seen.record.state != "commit" or seen.record.done:
            return seen
        return await self._polled(
            seen, until_s, lambda record: record.done or record.state != "commit"
        )

    async def _polled(
        self, seen: SeenRequest, until_s: float, enough: Callable[[Record], bool]
    ) -> SeenRequest:
        """The request, read again until its record is `enough`, or until `until_s`."""
        loop = asyncio.get_running_loop()
        step_s = POLL_S_MIN
        while not enough(seen.record) and (left_s := until_s - loop.time()) > 0:
            await asyncio.sleep(min(step_s, left_s))
            step_s = min(step_s * 2, POLL_S_MAX)
            seen = await self.records.again(seen.record) or seen
        return seen

    async def _finished(self, record: Record, until_s: float, finish: Finish) -> calls.RequestView:
        """The answer to `finish`, or the request as it is at `until_s`."""
        service = self.service
        with service.tickets.new() as ticket:
            service.runner.asked(
                lambda this: finish(this.calls, record, ticket.number, service.moment())
            )
            view = await ticket.answer(until_s)
        if view is not None:
            return view
        await service.settle()
        now = await self.records.again(record)
        if now is None:
            raise NotFound("no such request, or not yours", where="id")
        return self.records.view(now)


def _by_participant(
    was: tuple[Want, ...], wants: tuple[Want, ...], by: str, now_s: int
) -> ChangeByOthers:
    within = all(
        old.start <= new.start and new.end <= old.end for old, new in zip(was, wants, strict=True)
    )
    return ChangeByOthers(made="shortened" if within else "moved", by=by, at=now_s, was=was)
