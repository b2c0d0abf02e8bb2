"""Links for guests: one request at a secret address, without notes, names and contacts.

Only the hash of the secret is stored. Who has the address can read the request until its user makes another,
or revokes it, and nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.record.views import view_of
from kalends.broker.desk.feeds import SECRET, SECRET_BYTES, SecretDoor, hash_of
from kalends.broker.register.contract import WholeReservation
from kalends.broker.register.writes import ForgetShare, ShareRow
from kalends.broker.service import BrokerService
from kalends.broker.sharing.share_commands import ShareCommands
from kalends.contract.fields import Want
from kalends.contract.paths import LINKS_PATH
from kalends.contract.sharing_calls import AddLink, GuestView, LinkView, RevokeLink
from kalends.core.errors import NotFound
from kalends.core.times import format_time
from kalends.serving.auth.callers import Caller

_HEADERS: Final = {"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}


class GuestLinks:
    """`url` is this server's public one, or ""."""

    def __init__(
        self, service: BrokerService, monotonic_s: Callable[[], float], url: str = ""
    ) -> None:
        self._service = service
        self._url = url.rstrip("/")
        self._door = SecretDoor(monotonic_s)

    def routes(self) -> list[web.AbstractRouteDef]:
        path = f"{LINKS_PATH}/{{secret:{SECRET}}}"
        return [
            web.get(path, self._text, allow_head=False),
            web.get(f"{path}.json", self._json, allow_head=False),
        ]

    async def add(self, caller: Caller, body: AddLink, commands: ShareCommands) -> LinkView:
        record = (await commands.of_user(caller, body.id)).record
        secret = secrets.token_urlsafe(SECRET_BYTES)
        party, now_s = f"link:{hash_of(secret)}", self._service.moment().wall_s
        await commands.keep(ShareRow(record.reservation, party, "read", record.user, now_s))
        return LinkView(id=record.reservation, address=f"{self._url}{LINKS_PATH}/{secret}")

    async def revoke(self, caller: Caller, body: RevokeLink, commands: ShareCommands) -> LinkView:
        id = (await commands.of_user(caller, body.id)).record.reservation
        shares = await self._service.replica.read(lambda store: store.shares((id,)))
        links = [ForgetShare(id, each.party) for each in shares if each.may == "read"]
        if not links:
            raise NotFound(
                "the request has no link", where="id", remedy="make one: kalends share ID --link"
            )
        await self._service.runner.stored(links)
        return LinkView(id=id)

    async def _text(self, request: web.Request) -> web.Response:
        shown = await self._shown(request)
        lines = [f"{shown.state}: {shown.request}"]
        for slot in shown.slots:
            start, end = format_time(slot.start, "UTC"), format_time(slot.end, "UTC")
            lines.append(f"  {slot.resource}: {slot.units}, {start} to {end}")
        text = "\n".join((*lines, ""))
        return web.Response(text=text, content_type="text/plain", headers=_HEADERS)

    async def _json(self, request: web.Request) -> web.Response:
        body = msgspec.json.encode(await self._shown(request))
        return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    async def _shown(self, request: web.Request) -> GuestView:
        if (doubt := self._service.replica.doubt()) is not None:
            raise doubt
        whole = await self._found(request.match_info["secret"])
        record = whole.current if whole is not None else None
        if not isinstance(record, Record):
            raise self._door.unknown(request, "there is no reservation at this address")
        self._door.opened(record.reservation)
        return shown_to_guests(record)

    async def _found(self, secret: str) -> WholeReservation | None:
        party = f"link:{hash_of(secret)}"
        found = await self._service.replica.read(lambda store: store.shares_with((party,), "", 1))
        if not found:
            return None
        id = found[0].reservation
        return await self._service.replica.read(lambda store: store.reservation(id))


def shown_to_guests(record: Record) -> GuestView:
    view = view_of(record)
    slots = tuple(Want(each.resource, each.start, each.end, each.units) for each in view.claims)
    return GuestView(id=view.id, state=view.state, request=view.text, slots=slots)
