"""Ownership of requests at a site: whether a message about one comes from its owner.

A claim, a place in line or on a list, and an agent's visit belong to the register that made them. Every
message about one proves that it is of that register: by the session that it comes on, and by the secret
that only this site and that broker know. What proves neither changes nothing and is told nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.errors import RefusalCode
from kalends.core.principals import Principal
from kalends.core.scripts import asked_for
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Taken
from kalends.resource_servers.participation.registers import (
    NO_BADGE,
    Badge,
    Registers,
    stored_register,
)
from kalends.resource_servers.participation.this_site import ThisSite


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

    def proven(self, source: str, message: m.Message, taken: Taken) -> m.Message | None:
        """Return `message` if `source` may send it, or None; a relayed visit as its broker sent it."""
        if isinstance(message, m.Dispatch) and message.way:
            passed_on = self.as_passed_on(message)
            if passed_on is None or not self.is_its_owners(source, passed_on):
                stale = m.Stale(rid=message.rid, att=message.att, seen=message.att)
                self.outbox.send(source, stale)
                return None
            message = passed_on
        if taken.owned and not self.is_its_owners(source, message):
            return None
        detail = ""
        if taken.refuse is not None:
            register = message.register if isinstance(message, m.Dispatch) and message.way else ""
            detail = self._beyond_its_key(register or self.registers.of(source), message)
        if coords := getattr(message, "coords", ()):
            allowed = tuple(url for url in coords if url in self.here.addresses)
            if not allowed and not detail:
                detail = f"the owner here does not let this site ask at {coords[0]}"
            message = msgspec.structs.replace(message, coords=allowed)
        if detail and taken.refuse is not None:
            taken.refuse(source, message, (self.here.refusal(RefusalCode.NOT_ALLOWED, detail),))
            return None
        return message

    def is_its_owners(self, source: str, message: Any) -> bool:
        """Whether `message`, about a request, comes from the owner of that, if it is known here."""
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

    def _beyond_its_key(self, register: str, message: Any) -> str:
        """Return for whom the key behind `register` may not speak, in words; "" where it may."""
        principal: Principal = message.principal
        beyond = self.registers.badge(register).vouching.beyond(principal)
        return f"its key may not vouch here for {beyond}" if beyond else ""

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
