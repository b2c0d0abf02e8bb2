"""Jobs that a user leaves to the broker: to be placed, or to get another place."""

from __future__ import annotations

import math
from typing import Final

import msgspec
from msgspec import structs

from kalends.broker.coordination.record.decision_record import Placement, Spec
from kalends.broker.coordination.record.views import text_of_job
from kalends.broker.desk.request_commands import NewRequest, RequestCommands, deadline_s, digest_of
from kalends.broker.desk.request_queries import Records, check_own
from kalends.broker.desk.scripts import Scripts
from kalends.broker.jobs.parts.places_elsewhere import check_may_leave, elsewhere
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput, error_from_problem
from kalends.core.implementations import check_implementations
from kalends.core.requests import Alternative, Request, Term
from kalends.serving.auth.callers import Caller

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


class JobCommands:
    """The calls about such jobs."""

    def __init__(
        self,
        service: BrokerService,
        records: Records,
        scripts: Scripts,
        commands: RequestCommands,
    ) -> None:
        self._service = service
        self._records = records
        self._scripts = scripts
        self._commands = commands

    async def place(self, caller: Caller, body: calls.PlaceJob) -> calls.RequestView:
        """Answers once a site has the job, or no site can be found for it."""
        until_s = deadline_s(body.wait_ms)
        once = body.job.at_most_once or (body.redundant and not body.job.rerun)
        job = structs.replace(body.job, at_most_once=once)
        job.check(from_wire=True)
        job.check_offered()
        if job.machine:
            raise InvalidInput(
                f"the job names {job.machine}",
                where="job.machine",
                remedy="leave it out, or submit the job to that machine's site",
            )
        check_implementations(job, body.implementations, body.rank)
        if len(_ENCODER.encode((job, body.implementations))) > limits.PLACED_JOB_BYTES_MAX:
            raise InvalidInput(
                f"script, arguments and environment of more than {limits.PLACED_JOB_BYTES_MAX} bytes",
                where="job",
                remedy="keep them in a file on the machines, or name a machine",
            )
        self._service.directory.check_homes(body.homes)
        self._service.directory.check_homes((each.site for each in body.data), "data")
        wishes = (
            body.on, body.end_by, body.prefer, body.homes, body.implementations, body.pick,
            *filter(None, (body.rank, body.data)),
        )  # fmt: skip
        named = tuple(name for name in ("redundant", "by_limits") if getattr(body, name))
        digest = digest_of("place", msgspec.to_builtins(job), *wishes, *named)

        async def asked() -> NewRequest:
            if body.pick:
                await self._scripts.check_order(caller.principal.user, body.pick, "pick")
            if body.rank:
                await self._scripts.check_order(caller.principal.user, body.rank, "rank")
            now_s = self._service.moment().wall_s
            # How long an implementation runs, hangs on the machine.
            shortest_s = 1 if body.implementations else job.limit_s
            if body.end_by and body.end_by < max(now_s, job.not_before) + shortest_s:
                raise InvalidInput(
                    f"its time limit of {format_duration(job.limit_s)} ends after that time",
                    where="end_by",
                    remedy="give a later time, or a shorter time limit",
                )
            nodes = math.prod(job.shape) if job.shape else job.nodes
            term = Term(attributes=body.on, units=nodes)
            request = Request(
                alternatives=(Alternative(terms=(term,)),), duration_s=job.limit_s,
                not_before=now_s, not_after=body.end_by,
            )  # fmt: skip
            text = text_of_job(term, [each.name for each in body.implementations])
            spec = Spec(
                request=request, text=text, what=Placement(job=job, prefer=body.prefer, homes=body.homes,
                implementations=body.implementations, pick=body.pick, rank=body.rank,
                data=body.data,
                redundant=body.redundant, by_limits=body.by_limits),
            )  # fmt: skip
            return NewRequest(spec)

        return await self._commands.decided(caller, body.key, digest, until_s, asked)

    async def place_elsewhere(
        self, caller: Caller, body: calls.PlaceElsewhere
    ) -> calls.RequestView:
        """Answers once another site has the job; then it is not at the one before any more.

        Raises why it stays where it is.
        """

        async def moved() -> NewRequest:
            old = (await self._records.of(caller, body.id)).record
            check_own(old, caller)
            check_may_leave(old)
            return NewRequest(elsewhere(old), replaces=old)

        digest, until_s = digest_of("place elsewhere", body.id), deadline_s(body.wait_ms)
        view = await self._commands.decided(caller, body.key, digest, until_s, moved)
        if view.state == "failed" and view.problem is not None:
            raise error_from_problem(view.problem)
        return view
