"""Ownership of requests at a site: whether a message about one comes from its owner.

A claim, a place in line or on a list, and an agent's visit belong to the register that made them. Every
message about one proves that it is of that register: by the session that it comes on, and by the secret
that only this site and that broker know. What proves neither changes nothing and is told nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kalends.calendars import unknown_resource
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.errors import RefusalCode
from kalends.core.scripts import asked_for
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.registers import (
    NO_BADGE,
    Badge,
    Registers,
    stored_register,
)
from kalends.resource_servers.participation.this_site import ThisSite

ABOUT_A_REQUEST: Final = (
    m.Visit, m.Solicit, m.Dispatch, m.Prepare, m.Decide, m.Forget, m.Cancel, m.Release, m.Renew, m.Give,
    m.OwnerAsk, m.Await, m.Outcome, m.StartSays, m.ReadyAsk, m.EndNoted,
    m.LossNoted,
)  # fmt: skip
"""Messages that only the request's own register may send."""

WITH_ADDRESSES: Final = (m.Visit, m.Solicit, m.Dispatch, m.Relock)
"""Messages that say where a broker can be asked what was decided."""


@dataclass(eq=False)
class Ownership:
    """Judges which source may speak about which request, and for which user.

    `secrets` find the secret of a request in the parts where it may be before it claims anything.
    """

    here: ThisSite
    stakes: Stakes
    claims: Claims
    registers: Registers
    outbox: ParticipantOutbox
    secrets: Sequence[Callable[[str], str | None]]

    def welcome(
        self, source: str, welcome: m.Welcome, badge: Badge = NO_BADGE, name: str = ""
    ) -> None:
        """Admit `source` as the voice of a register; raises `NotAllowed` as `Registers.admit` does."""
        changed = self.registers.admit(source, welcome, badge, name)
        if changed is not None:
            self.outbox.store(stored_register(changed))

    def proven(self, source: str, message: m.Message) -> m.Message | None:
        """Return `message` if `source` may send it, or None; a relayed visit as its broker sent it."""
        if isinstance(message, m.Dispatch) and message.way:
            passed_on = self.as_passed_on(message)
            if passed_on is None or not self.is_its_owners(source, passed_on):
                stale = m.Stale(rid=message.rid, att=message.att, seen=message.att)
                self.outbox.send(source, stale)
                return None
            message = passed_on
        if not self.is_its_owners(source, message):
            return None
        detail = self._beyond_its_key(source, message)
        if isinstance(message, WITH_ADDRESSES) and message.coords:
            coords = tuple(url for url in message.coords if url in self.here.addresses)
            if not coords and not detail:
                detail = f"the owner here does not let this site ask at {message.coords[0]}"
            message = msgspec.structs.replace(message, coords=coords)
        if detail and self._refuse(source, message, detail):
            return None
        return message

    def is_its_owners(self, source: str, message: m.Message) -> bool:
        """Whether `message` comes from the owner of its request, if that is known here."""
        if not isinstance(message, ABOUT_A_REQUEST):
            return True
        register = self.registers.of(source)
        stake = self.stakes.get(message.rid)
        if stake is not None:
            strange = register and stake.register and register != stake.register
            if strange or not proofs.same(message.secret, stake.secret):
                return self._turned_down(source, message)
            self.claims.adopt(stake, register)
            return True
        true = self._secret_of_soft(message.rid)
        return not true or proofs.same(message.secret, true) or self._turned_down(source, message)

    def _beyond_its_key(self, source: str, message: m.Message) -> str:
        """Return for whom the key behind `source` may not speak, in words; "" where it may."""
        if not isinstance(message, m.Query | m.Visit | m.Solicit | m.Dispatch | m.Await):
            return ""
        register = message.register if isinstance(message, m.Dispatch) and message.way else ""
        badge = self.registers.badge(register or self.registers.of(source))
        beyond = badge.vouching.beyond(message.principal)
        return f"its key may not vouch here for {beyond}" if beyond else ""

    def _refuse(self, source: str, message: m.Message, detail: str) -> bool:
        """Refuse everything that `message` asks; False for one that asks nothing that could be refused."""
        refusals = (self.here.refusal(RefusalCode.NOT_ALLOWED, detail),)
        match message:
            case m.Query():
                views = tuple(
                    m.FreeSteps(
                        resource=want.resource,
                        until=want.end,
                        refusal=unknown_resource(want.resource),
                    )
                    for want in message.wants
                )
                view = m.View(query_id=message.query_id, epoch=self.here.epoch, views=views)
                self.outbox.send(source, view)
            case m.Visit():
                self.outbox.send(source, self.here.turned_down(message, refusals))
            case m.Solicit():
                self.outbox.send(source, self.here.no_bid(message, refusals))
            case m.Dispatch():
                own = m.SiteReport(
                    self.here.name, self.here.epoch, detail=detail, refusals=refusals
                )
                self.outbox.send(source, m.Report(rid=message.rid, att=message.att, sites=(own,)))
            case m.Await():
                locked = m.Locked(rid=message.rid, att=message.att, refusals=refusals)
                self.outbox.send(source, locked)
            case _:
                return False
        return True

    def _secret_of_soft(self, rid: str) -> str:
        """Return the secret of a request that claims nothing here yet; "" for an unknown one."""
        known = (secret_of(rid) for secret_of in self.secrets)
        return next((secret for secret in known if secret is not None), "")

    def _turned_down(self, source: str, message: m.Message) -> bool:
        self.outbox.alarm(
            f"{type(message).__name__} from {source} is about a request of another broker"
        )
        return False

    def as_passed_on(self, dispatch: m.Dispatch) -> m.Dispatch | None:
        """Return a relayed visit as its broker sent it, or None if it proves none."""
        key = self.registers.secret(dispatch.register)
        principal = dispatch.principal
        true = proofs.of_visit(
            key, dispatch.rid, dispatch.att, dispatch.way,
            asked_for(dispatch.starts, dispatch.asks), str(dispatch.stamp), principal.user, *principal.groups,
        )  # fmt: skip
        if not key or not proofs.same(dispatch.secret, true):
            return None
        return msgspec.structs.replace(dispatch, secret=proofs.of_request(key, dispatch.rid))
