"""The client's calls that look at requests: one, by its id or a part of it, a page of them, or all."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final, Literal

from kalends.client.inputs.given_values import milliseconds
from kalends.client.methods.follower import LOOK_AGAIN_S
from kalends.client.methods.missed_events import MissedEvents
from kalends.client.transports.call_line import CallLine
from kalends.contract import calls
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import ID_PART_PATTERN, REQUEST_ID_PATTERN, only_one, short_id
from kalends.core.near_names import near

ListState = Literal["", "open", "held", "reserved", "failed", "cancelled"]

WATCH_WAIT_S: Final = 25.0
"""Duration of one call of `watch`, below the time after which proxies cut silent calls."""

PAGE: Final = 1_000


class ListingCalls:
    """The part of `kalends.Client` that looks at requests.

    An id may be given by its beginning or its end, of four characters or more.
    """

    def __init__(self, line: CallLine) -> None:
        self._line = line

    async def full_id(self, id: str) -> str:
        """Return the id of the caller's request, or of a change of one, that begins or ends with `id`.

        Raises `InvalidInput` for a text that is not an id, is too short, or is part of several ids;
        `NotFound` for a part of none.
        """
        wanted = id_or_part(id, "kalends list")
        if _WHOLE.fullmatch(wanted):
            return wanted
        found = await self._line.call(calls.FindIds(part=wanted), "ids", calls.Ids)
        if not found.ids:
            meant = near(wanted, (short_id(view.id) for view in await self.list(count=PAGE)))
            raise NotFound(
                f"none of your requests has the id {wanted}",
                where="id",
                remedy=meant or "see `kalends list`",
            )
        return only_one(wanted, found.ids, "kalends list")

    async def show(self, id: str) -> calls.RequestView:
        """Return request `id` as it is now."""
        body = calls.ById(id=await self.full_id(id))
        return await self._line.call(body, "show", calls.RequestView)

    async def why(self, id: str) -> calls.Story:
        """Return the events of request `id`, with refusals and their rules."""
        body = calls.ById(id=await self.full_id(id))
        return await self._line.call(body, "why", calls.Story)

    async def reservations(
        self, *, state: ListState = "reserved", everyone: bool = False
    ) -> AsyncIterator[calls.RequestView]:
        """Yield the caller's reservations, newest first: all of them, each page when it is needed.

        With another `state`, yields requests in that state; with "", every request. `everyone` is as for
        `list`.
        """
        async for view in self._each(state, everyone):
            yield view

    async def list(
        self,
        *,
        state: ListState = "",
        everyone: bool = False,
        count: int = 100,
        before: str = "",
    ) -> calls.RequestViews:
        """Return one page of the caller's requests, newest first: `count` of them, older than id `before`.

        `everyone` lists all users' requests and needs the scope ``audit``.
        """
        if before:
            before = await self.full_id(before)
        body = calls.ListRequests(state=state, everyone=everyone, count=count, before=before)
        page = await self._line.call(body, "list", calls.Requests)
        return calls.RequestViews(page.requests)

    async def waiting_list(self) -> calls.RequestViews:
        """Return the caller's requests that wait for slots, sites or owners, newest first.

        With the changes of reservations that do: each of these views is of the change, as `show` returns it.
        """
        views = [view async for view in self._each("open", False)]
        changes = [view.changing async for view in self._each("reserved", False)]
        views += [await self.show(change) for change in changes if change]
        views.sort(key=lambda view: view.created_at, reverse=True)
        return calls.RequestViews(view for view in views if view.waiting is not None)

    async def watch(self, id: str = "", *, after: int = -1) -> AsyncIterator[calls.Event]:
        """Yield the events of the caller's requests (or of `id`); never end by itself.

        Begins after event number `after` (to resume), or with the present; reconnects after lost connections
        without missing an event. With several addresses it goes on at another server, which has only its
        own events: then the others are read from the requests' stories, those of `id` every five seconds,
        and those of your newest 1,000 requests every 25 seconds.
        """
        id = await self.full_id(id) if id else ""
        several = len(self._line.settings.access.servers()) > 1
        missed = MissedEvents(self, id) if several else None
        if missed is not None:
            await missed.begin()
        wait_s = 0.0 if after < 0 else WATCH_WAIT_S
        while True:
            seen = await self.events(after, id=id, wait_s=wait_s)
            # Whoever takes the events may call something meanwhile, which another server answers.
            server = self._line.server
            for event in seen.events:
                yield event
            after, wait_s = seen.next, WATCH_WAIT_S
            if missed is None:
                continue
            for event in seen.events:
                missed.note(event)
            for event in await missed.at(server, after):
                yield event
            if missed.moved and id:
                wait_s = LOOK_AGAIN_S

    async def events(
        self, after: int = -1, *, id: str = "", wait_s: float = WATCH_WAIT_S
    ) -> calls.Events:
        """Return one batch for `watch`: the events after number `after`, or after the present for -1."""
        id = await self.full_id(id) if id else ""
        body = calls.Watch(after=after, id=id, wait_ms=milliseconds(wait_s))
        return await self._line.call(body, "watch", calls.Events)

    async def _each(self, state: ListState, everyone: bool) -> AsyncIterator[calls.RequestView]:
        before = ""
        while True:
            page = await self.list(state=state, everyone=everyone, count=PAGE, before=before)
            for view in page:
                yield view
            if len(page) < PAGE:
                return
            before = page[-1].id


_WHOLE: Final = re.compile(REQUEST_ID_PATTERN)
_PART: Final = re.compile(ID_PART_PATTERN)


def id_or_part(given: object, listing: str) -> str:
    """Return the `given` id in lower case; raises `InvalidInput` if it is neither an id nor a valid part.

    `listing` is the command that shows the ids.
    """
    said = given.strip().lower() if isinstance(given, str) else ""
    if not _PART.fullmatch(said):
        raise InvalidInput(
            f"{given!r} is not an id",
            where="id",
            remedy="give an id, or at least 4 characters from the beginning or the end of one that "
            f"`{listing}` shows",
        )
    return said
