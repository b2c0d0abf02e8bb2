"""Users' addresses for notices: the calls that list, add, remove and test them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from kalends.broker.register.writes import ForgetAddress, KeepAddress, NoticeAddress, PostNotice
from kalends.broker.service import BrokerService
from kalends.contract.notice_calls import (
    AddNoticeAddress,
    ListNoticeAddresses,
    NoticeAddresses,
    NoticeAddressRef,
    NoticeAddressView,
)
from kalends.core.errors import KalendsError, LimitExceeded, NotFound
from kalends.core.zone_names import given_zone
from kalends.notices.notifier import Notifier
from kalends.notices.request_notice import RequestNotice
from kalends.rim.webhook_signatures import secret_text
from kalends.serving.auth.callers import Caller

ADDRESSES_MAX: Final = 8
"""The most addresses a user may have; each notice goes to all of them."""

SECRET_BYTES: Final = 32


class NoticeCommands:
    """Each user has addresses of their own, and sees no others; what is allowed the `notifier` says."""

    def __init__(self, service: BrokerService, notifier: Notifier) -> None:
        self._service = service
        self._notifier = notifier

    async def list(self, caller: Caller, body: ListNoticeAddresses) -> NoticeAddresses:
        found = await self._of(caller)
        return NoticeAddresses(addresses=tuple(self._view(each) for each in found))

    async def add(self, caller: Caller, body: AddNoticeAddress) -> NoticeAddressView:
        """Add an address, or give a webhook another secret; raises what the operator does not allow."""
        user = caller.principal.user
        to = self._notifier.address_of(user, body.to)
        zone = given_zone(body.zone).key
        webhook = "://" in to
        secret = secrets.token_bytes(SECRET_BYTES) if webhook else b""
        receiver = to if webhook else body.to
        now_s = self._service.moment().wall_s
        address = NoticeAddress(user, receiver, zone, now_s, secret, body.remind_s, now_s)
        (kept,) = await self._service.runner.stored((KeepAddress(address, ADDRESSES_MAX),))
        if not kept:
            raise LimitExceeded(
                f"you have {ADDRESSES_MAX} addresses for notices, the maximum",
                where="to",
                remedy="remove an address first: kalends notify remove",
            )
        return self._view(address, secret_text(secret) if webhook else "")

    async def remove(self, caller: Caller, body: NoticeAddressRef) -> NoticeAddressView:
        address = await self._named(caller, body)
        await self._service.runner.stored((ForgetAddress(address.user, address.receiver),))
        return self._view(address)

    async def test(self, caller: Caller, body: NoticeAddressRef) -> NoticeAddressView:
        """Answers when the test is stored: it is sent as any other notice."""
        address = await self._named(caller, body)
        self._notifier.address_of(address.user, address.receiver)
        notice = RequestNotice(
            id=f"test-{secrets.token_hex(8)}", user=address.user, occasion="test",
            at_s=self._service.moment().wall_s, to=address.receiver,
        )  # fmt: skip
        await self._service.runner.stored((PostNotice(notice),))
        self._service.notices.beat()
        return self._view(address)

    async def _of(self, caller: Caller) -> Sequence[NoticeAddress]:
        user = caller.principal.user
        return await self._service.replica.read(lambda store: store.addresses(user))

    async def _named(self, caller: Caller, body: NoticeAddressRef) -> NoticeAddress:
        """Return the caller's address; raises `NotFound`."""
        addresses = await self._of(caller)
        for address in addresses:
            if body.to in (address.receiver, self._view(address).to):
                return address
        if not addresses:
            raise NotFound(
                "you have no address for notices yet",
                where="to",
                remedy="add an address first: kalends notify add",
            )
        raise NotFound(
            f"no notices go to {body.to or 'your own address'}",
            where="to",
            remedy="`kalends notify list` shows your addresses: name one of these",
        )

    def _view(self, address: NoticeAddress, secret: str = "") -> NoticeAddressView:
        to, problem = address.receiver, ""
        try:
            to = self._notifier.address_of(address.user, address.receiver)
        except KalendsError as error:
            problem = error.detail
        return NoticeAddressView(
            to=to, kind="webhook" if address.secret else "mail", zone=address.zone,
            added_at=address.added_at, remind_s=address.remind_s, secret=secret, problem=problem,
        )  # fmt: skip
