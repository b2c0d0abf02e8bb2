"""The client's calls about notices: the addresses for changes of requests by others."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from kalends.client.inputs.request_builder import Duration, length_s
from kalends.client.transports.call_line import CallLine
from kalends.contract.notice_calls import (
    AddNoticeAddress,
    ListNoticeAddresses,
    NoticeAddresses,
    NoticeAddressRef,
    NoticeAddressView,
)
from kalends.core.limits import REMIND_S_MAX


class NoticeCalls:
    """The part of `kalends.Client` about notices."""

    def __init__(self, line: CallLine) -> None:
        self._line = line
        self._settings = line.settings

    async def notice_addresses(self) -> tuple[NoticeAddressView, ...]:
        """Return the caller's addresses for notices."""
        body = ListNoticeAddresses()
        return (await self._line.call(body, "notify_list", NoticeAddresses)).addresses

    async def add_notice_address(
        self, to: str = "", *, zone: str | ZoneInfo | None = None, remind: Duration | None = None
    ) -> NoticeAddressView:
        """Add `to` for notices: a mail address ("": the caller's own), or a webhook's URL.

        Times in notices are in `zone` (None: this client's). A reminder comes `remind` before each
        reservation begins (None: there are no reminders). The answer for a webhook has its `secret`, which
        is shown only once; repeating the call makes a new one. Raises `NotAllowed` for an address that the
        broker's operator does not allow.
        """
        remind_s = 0
        if remind is not None:
            remind_s = length_s(remind, where="remind", longest_s=REMIND_S_MAX)
        body = AddNoticeAddress(to=to, zone=str(zone or self._settings.zone), remind_s=remind_s)
        return await self._line.call(body, "notify_add", NoticeAddressView)

    async def remove_notice_address(self, to: str = "") -> NoticeAddressView:
        """Remove the address `to`; raises `NotFound` if it is not one of the caller's."""
        return await self._line.call(NoticeAddressRef(to=to), "notify_remove", NoticeAddressView)

    async def test_notice_address(self, to: str = "") -> NoticeAddressView:
        """Send a test notice to `to`; it may take some seconds to arrive."""
        return await self._line.call(NoticeAddressRef(to=to), "notify_test", NoticeAddressView)
