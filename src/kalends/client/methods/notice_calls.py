"""The client's calls about notices: where the caller is told what others make of requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from zoneinfo import ZoneInfo

from kalends.client.calls import CallSender
from kalends.client.client_settings import ClientSettings
from kalends.contract.notice_calls import (
    AddNoticeAddress,
    ListNoticeAddresses,
    NoticeAddresses,
    NoticeAddressRef,
    NoticeAddressView,
)


class NoticeCalls(ABC):
    """The part of `kalends.Client` about notices; subclasses provide the caller and settings."""

    @property
    @abstractmethod
    def _caller(self) -> CallSender:
        """Makes the calls."""

    settings: ClientSettings
    """Their zone is the one in which times are told unless another is named."""

    async def notice_addresses(self) -> tuple[NoticeAddressView, ...]:
        """Return where the caller is told."""
        body = ListNoticeAddresses()
        return (await self._caller.call(body, "notify_list", NoticeAddresses)).addresses

    async def add_notice_address(
        self, to: str = "", *, zone: str | ZoneInfo | None = None
    ) -> NoticeAddressView:
        """Have the caller told at `to` too: a mail address ("": the caller's own), or a webhook's URL.

        Times are told in `zone` (None: this client's). The answer for a webhook has its `secret`, which is
        told this once; repeating the call makes a new one. Raises `NotAllowed` for what the broker's operator
        does not allow.
        """
        body = AddNoticeAddress(to=to, zone=str(zone or self.settings.zone))
        return await self._caller.call(body, "notify_add", NoticeAddressView)

    async def remove_notice_address(self, to: str = "") -> NoticeAddressView:
        """Have the caller told no more at `to`; raises `NotFound` where that is so already."""
        return await self._caller.call(NoticeAddressRef(to=to), "notify_remove", NoticeAddressView)

    async def test_notice_address(self, to: str = "") -> NoticeAddressView:
        """Have a test notice sent to `to`; it may take some seconds to come."""
        return await self._caller.call(NoticeAddressRef(to=to), "notify_test", NoticeAddressView)
