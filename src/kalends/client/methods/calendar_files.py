"""The client's part about calendar files (iCalendar): reservations as files, and as feeds at the broker."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kalends.client.inputs.given_values import every
from kalends.client.transports.call_line import CallLine
from kalends.contract.calendar_files import calendar_text, entries_of
from kalends.contract.feed_calls import AddFeed, FeedRef, Feeds, FeedView, ListFeeds
from kalends.contract.request_views import RequestView
from kalends.core.errors import InvalidInput


class CalendarFiles:
    """The part of `kalends.Client` about calendar files."""

    def __init__(self, line: CallLine) -> None:
        self._line = line
        self._settings = line.settings

    def ics(self, views: RequestView | Iterable[RequestView], *, name: str = "") -> str:
        """Return the calendar file (RFC 5545) of requests, as `show` and `list` return them; calls nothing.

        Held slots are tentative events, reserved slots confirmed ones, and cancelled reservations cancelled
        ones for 30 days. Requests without slots have no event. `name` is the name of the calendar.
        """
        given = (views,) if isinstance(views, RequestView) else views
        given = every(given, where="views")
        if not all(isinstance(each, RequestView) for each in given):
            raise InvalidInput(
                "these are not requests", where="views", remedy="give what `show` or `list` return"
            )
        if not isinstance(name, str):
            raise InvalidInput(f"a {type(name).__name__} is not a name", where="name")
        now_s = self._settings.now_s()
        return calendar_text(
            (entry for view in given for entry in entries_of(view, now_s)), name=name
        )

    async def feeds(self) -> tuple[FeedView, ...]:
        """Return the caller's calendar feeds."""
        return (await self._line.call(ListFeeds(), "feed_list", Feeds)).feeds

    async def add_feed(self, name: str = "reservations") -> FeedView:
        """Make a calendar feed of the caller's reservations; `address` of the answer is its secret URL.

        It is shown only once. Repeating the call with the same name makes another address, and then the
        earlier one leads nowhere.
        """
        view = await self._line.call(AddFeed(name=name), "feed_add", FeedView)
        if not view.address.startswith("/"):
            return view
        url = self._settings.access.servers()[0].url.rstrip("/")
        return replace(view, address=f"{url}{view.address}")

    async def revoke_feed(self, name: str = "reservations") -> FeedView:
        """Revoke a calendar feed: its address leads nowhere. Raises `NotFound`."""
        return await self._line.call(FeedRef(name=name), "feed_revoke", FeedView)
