"""The calls that share a request, and that hand a reservation over to another user.

An offer is a share. The new holder accepts by a change of the reservation in their own name: owners check it
as a booking of theirs, all sites agree or none, and the write that commits it needs the offer and ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record, Spec
from kalends.broker.coordination.record.refusal_errors import under_way
from kalends.broker.desk.changes import changed_request
from kalends.broker.desk.request_commands import (
    NewRequest,
    RequestCommands,
    deadline_s,
    digest_of,
)
from kalends.broker.desk.request_queries import Records, SeenRequest
from kalends.broker.planning.leaving_sites import check_change, check_known
from kalends.broker.register.writes import ForgetShare, KeepShare, PostNotice, ShareRow
from kalends.broker.service import BrokerService
from kalends.broker.sharing.share_rights import stands
from kalends.broker.sharing.shared_requests import SharedRequests
from kalends.contract import calls
from kalends.contract.sharing_calls import Accept, Decline, OfferTo, ShareWith, Unshare
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    LimitExceeded,
    NotAllowed,
    NotFound,
    error_from_problem,
)
from kalends.core.language import format_alternatives
from kalends.notices.request_notice import Occasion, RequestNotice
from kalends.serving.auth.callers import Caller

PARTIES_MAX: Final = 32
"""Parties of one reservation: for more people there are groups."""

END_MS: Final = 5_000
"""The wait for an acceptance to be given up, which goes on without its caller."""

_DAY_S: Final = 86_400


@dataclass(frozen=True, eq=False)
class ShareCommands:
    service: BrokerService
    records: Records
    commands: RequestCommands
    shared: SharedRequests

    async def share(self, caller: Caller, body: ShareWith) -> calls.RequestView:
        seen = await self.of_user(caller, body.id)
        record = seen.record
        if record.public_state not in ("open", "held", "reserved"):
            raise Conflict(
                f"the request is {record.public_state}, and there is nothing to share",
                request_id=record.reservation,
            )
        if body.party == f"user:{record.user}":
            raise InvalidInput(
                "the request is yours already", where="party", remedy="name another user"
            )
        may: Literal["look", "change"] = "change" if body.may_change else "look"
        await self.keep(
            ShareRow(record.reservation, body.party, may, record.user, self.service.moment().wall_s)
        )
        return await self._view(caller, seen)

    async def unshare(self, caller: Caller, body: Unshare) -> calls.RequestView:
        seen = await self.records.of(caller, body.id)
        view = self.records.view(seen)
        if body.party != f"user:{caller.principal.user}":
            await self._check_holder(seen, caller)
        (gone,) = await self.service.runner.stored((ForgetShare(view.id, body.party),))
        if not gone:
            raise NotFound(
                f"the request is not shared with {body.party}",
                where="party",
                remedy="see `kalends show` for whom it is shared with",
                request_id=view.id,
            )
        return await self._view(caller, seen) if view.user == caller.principal.user else view

    async def give(self, caller: Caller, body: OfferTo) -> calls.RequestView:
        """Offer it; the offer ends when the first slot begins, at the latest."""
        seen = await self.of_user(caller, body.id)
        record, now_s = seen.record, self.service.moment().wall_s
        _check_can_be_given(record, now_s)
        if body.to == record.user:
            raise InvalidInput(
                "the reservation is yours already", where="to", remedy="name another user"
            )
        until = min(now_s + body.days * _DAY_S, min(want.start for want in record.wants))
        party = f"heir:{body.to}"
        shares = await self.shared.shares((record.reservation,))
        again = any(each.party == party and stands(each, now_s) for each in shares)
        await self.keep(ShareRow(record.reservation, party, "take", record.user, now_s, until))
        await self._end_acceptance(caller, seen, but=body.to)
        if not again:
            await self._tell(record, body.to, "offered", record.user, until)
        return await self._view(caller, seen)

    async def accept(self, caller: Caller, body: Accept) -> calls.RequestView:
        """The reservation of the caller; raises what stood in the way, and then nothing has changed."""
        until_s = deadline_s(body.wait_ms)
        user = caller.principal.user

        async def asked() -> NewRequest:
            seen = await self.commands.confirmed(await self.records.of(caller, body.id), until_s)
            old, now_s = seen.record, self.service.moment().wall_s
            await self._check_offered(old, user, now_s)
            _check_can_be_given(old, now_s)
            if (change := self.records.change_of(seen)) is not None:
                raise under_way(self.records.view(change))
            check_known(old.wants, self.service.directory.sites)
            check_change(old.wants, (), self.service.directory.leaving())
            nothing = calls.Change(id=old.reservation, key=body.key)
            request = changed_request(old, old.wants, nothing)
            # What its user may spend, and from whose credit, is not for the new one.
            request = structs.replace(request, at_most={}, projects={}, priority=0)
            spec = Spec(
                request=request,
                text=format_alternatives(request.alternatives),
                wants=old.wants,
                heir_of=old.user,
            )
            return NewRequest(spec, replaces=old)

        digest = digest_of("accept", body.id)
        view = await self.commands.decided(caller, body.key, digest, until_s, asked)
        if view.state == "failed" and view.problem is not None:
            raise error_from_problem(view.problem)
        return view

    async def decline(self, caller: Caller, body: Decline) -> calls.RequestView:
        """End an offer: by whom it was made to, or who has made it."""
        seen = await self.records.of(caller, body.id)
        record, now_s = seen.record, self.service.moment().wall_s
        shares = await self.shared.shares((record.reservation,))
        user = caller.principal.user
        offer = next((each for each in shares if each.may == "take" and stands(each, now_s)), None)
        if offer is None or user not in (offer.user, offer.party.partition(":")[2]):
            raise _not_offered(record.reservation)
        view = self.records.view(seen)
        (gone,) = await self.service.runner.stored((ForgetShare(offer.reservation, offer.party),))
        if not gone:
            raise _not_offered(record.reservation)
        await self._end_acceptance(caller, seen)
        if user != offer.user:
            await self._tell(record, offer.user, "declined", user)
        return view

    async def of_user(self, caller: Caller, id: str) -> SeenRequest:
        """Return a request of the caller; raises `NotFound` and `NotAllowed`."""
        seen = await self.records.of(caller, id)
        await self._check_holder(seen, caller)
        return seen

    async def _check_holder(self, seen: SeenRequest, caller: Caller) -> None:
        """Raise `NotAllowed` for all but the present holder: who saw it once may see a state of then."""
        record = seen.record
        if record.user != caller.principal.user:
            raise NotAllowed(
                f"the request belongs to {record.user}, who alone may share it or hand it over",
                where="id",
                remedy="ask its user",
                request_id=record.reservation,
            )
        whole = await self.service.replica.read(lambda store: store.reservation(record.reservation))
        if whole is None or whole.current.user != record.user:
            raise _not_yours(record.reservation)

    async def keep(self, share: ShareRow) -> None:
        (kept,) = await self.service.runner.stored((KeepShare(share, PARTIES_MAX),))
        if kept == -1:
            raise _not_yours(share.reservation)
        if not kept:
            raise LimitExceeded(
                f"the request is shared with {PARTIES_MAX} parties, the maximum",
                where="party",
                remedy="share it with a group, or stop sharing it with others first",
            )

    async def _end_acceptance(self, caller: Caller, seen: SeenRequest, but: str = "") -> None:
        """Give up what waits for owners by an offer that has ended: it is in the way of other changes."""
        change = self.records.change_of(seen)
        if change is not None and change.record.spec.heir_of and change.record.user != but:
            await self.commands.give_up(caller, change.record, deadline_s(END_MS))

    async def _check_offered(self, record: Record, user: str, now_s: int) -> None:
        for each in await self.shared.shares((record.reservation,)):
            if each.party == f"heir:{user}" and stands(each, now_s):
                return
        raise _not_offered(record.reservation)

    async def _view(self, caller: Caller, seen: SeenRequest) -> calls.RequestView:
        view = self.records.view(seen)
        return self.shared.marked(view, await self.shared.shares((view.id,)), caller.principal)

    async def _tell(
        self, record: Record, user: str, occasion: Occasion, by: str, until: int = 0
    ) -> None:
        """Send a notice about the offer; each call makes a new one."""
        now_s = self.service.moment().wall_s
        notice = RequestNotice(
            id=f"{record.rid}-{occasion}-{user}-{now_s}", user=user, occasion=occasion, at_s=now_s, by=by,
            request=record.reservation, asked=record.spec.text, slots=record.wants, until=until,
        )  # fmt: skip
        await self.service.runner.stored((PostNotice(notice),))


def _check_can_be_given(record: Record, now_s: int) -> None:
    """Raise `Conflict` for a request without slots to come, and for slots of jobs."""
    why = ""
    if record.state != "commit":
        why = f"it is {record.public_state}, but only a reservation can be handed over"
    elif record.spec.placement is not None or record.job.machines:
        why = "it is for jobs of its user, which another user cannot run"
    elif any(want.start <= now_s for want in record.wants):
        why = "it has begun"
    if why:
        raise Conflict(why, request_id=record.reservation)


def _not_yours(id: str) -> NotAllowed:
    return NotAllowed(
        "the reservation is another user's, who alone may share it or hand it over",
        where="id",
        remedy="ask its present user",
        request_id=id,
    )


def _not_offered(id: str) -> NotAllowed:
    return NotAllowed(
        "the reservation is not offered to you, or no longer",
        where="id",
        remedy="its user offers it with kalends give ID USER",
        request_id=id,
    )
