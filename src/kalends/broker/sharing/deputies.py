"""Deputies: users who book in the name of others, whose rights, limits and credit count.

The operator of the broker says who may, and for whom. The request keeps the name of its deputy, who is a
participant in it from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from kalends.broker.desk.request_commands import RequestCommands, digest_of
from kalends.broker.desk.request_queries import Records
from kalends.broker.desk.scripts import READY
from kalends.broker.register.writes import KeepShare, ShareRow
from kalends.broker.service import BrokerService
from kalends.broker.sharing.share_commands import PARTIES_MAX
from kalends.calendars import is_meant
from kalends.contract import calls
from kalends.contract.sharing_calls import BookFor
from kalends.core.errors import InvalidInput, NotAllowed
from kalends.core.principals import Principal
from kalends.serving.auth.callers import Caller
from kalends.serving.configuration import DeputyConfiguration


class Deputies:
    """In whose name each user may book."""

    def __init__(self, configured: Sequence[DeputyConfiguration] = ()) -> None:
        self.configure(configured)

    def configure(self, configured: Sequence[DeputyConfiguration]) -> None:
        """Replace all that was configured: the operator can change that at any time."""
        self._configured = tuple(configured)

    def holder(self, deputy: Principal, user: str) -> Principal:
        """Return the principal in whose name `deputy` books; raises `NotAllowed`.

        The first entry that means the deputy and names the user says the user's groups.
        Raises `InvalidInput` for the deputy's own name.
        """
        if user == deputy.user:
            raise InvalidInput(
                "that is your own name", where="user", remedy="leave out on whose behalf you book"
            )
        for each in self._configured:
            if user in each.users and is_meant(each.who, deputy):
                return Principal(user, each.users[user])
        raise NotAllowed(
            f"this broker does not let you book in the name of {user}",
            where="user",
            remedy="ask its operator; or book it for yourself, and hand it over: kalends give ID USER",
        )


@dataclass(frozen=True, eq=False)
class NamedBookings:
    """The call of deputies."""

    service: BrokerService
    records: Records
    commands: RequestCommands
    deputies: Deputies

    async def book(self, caller: Caller, body: BookFor) -> calls.RequestView:
        """Return the request of the user, which the caller may look at and change until the user ends that.

        Raises `NotFound` for a repeated call after that. The share is stored before the request, so that no
        crash leaves the deputy without it.
        """
        deputy, service = caller.principal.user, self.service
        holder = self.deputies.holder(caller.principal, body.user)
        _check_slots_alone(body)
        key, rid = f"for:{digest_of(deputy, body.key)}", ""
        known = await self.records.of_key(holder.user, key)
        if known is not None:
            await self.records.of(caller, known.record.reservation)
        else:
            rid = service.coordinator.calls.new_rid(service.moment())
            share = ShareRow(rid, f"user:{deputy}", "change", holder.user, service.moment().wall_s)
            await service.runner.stored((KeepShare(share, PARTIES_MAX),))
        return await self.commands.book(
            structs.replace(caller, principal=holder), structs.replace(body, key=key), deputy, rid
        )


def _check_slots_alone(body: BookFor) -> None:
    """Raise `InvalidInput` if a program of the deputy would run as the user."""
    if body.job is not None or body.jobs:
        raise InvalidInput(
            "a job cannot be submitted in the name of another user",
            where="job",
            remedy="book the slots alone; the user submits jobs to them with --reservation",
        )
    if body.request.agent and not body.request.agent.startswith(READY):
        raise InvalidInput(
            "a script cannot be used in the name of another user",
            where="request.agent",
            remedy="use a ready agent, or leave it out",
        )
