"""The client's calls that look at requests: one, by its id or a part of it, a page of them, or all."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final, Literal

from kalends.client.inputs.given_values import milliseconds
from kalends.client.transports.call_line import CallLine
from kalends.contract import calls
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import REQUEST_ID_PATTERN, short_id
from kalends.core.near_names import near

ListState = Literal["", "open", "held", "reserved", "failed", "cancelled"]

WATCH_WAIT_S: Final = 25.0
"""Duration of one call of `watch`, below the time after which proxies cut silent calls."""

PAGE: Final = 1_000

LOOKED_AT_MAX: Final = 10_000
"""Number of the newest requests among which parts of ids are looked up."""

SHOWN_MAX: Final = 5


class ListingCalls:
    """The part of `kalends.Client` that looks at requests.

    An id may be given by its beginning or its end, of four characters or more.
    """

    def __init__(self, line: CallLine) -> None:
        self._line = line

    async def full_id(self, id: str) -> str:
        """Return the id of the caller's request, or of a change under way, that begins or ends with `id`.

        Raises `InvalidInput` for a text that is not an id, is too short, or is part of several ids;
        `NotFound` if none of the newest ten thousand requests has it. A change that is decided has its whole
        id only.
        """
        wanted = id_or_part(id, "kalends list")
        if is_whole(wanted):
            return wanted
        every: list[str] = []
        async for view in self._each("", False, "", LOOKED_AT_MAX):
            every += (view.id, view.changing) if view.changing else (view.id,)
        found = [each for each in every if is_part(wanted, each)]
        if not found:
            meant = near(wanted, (short_id(each) for each in every))
            raise NotFound(
                f"none of your requests has the id {wanted}",
                where="id",
                remedy=meant or "see `kalends list`",
            )
        if len(found) > 1:
            some = ", ".join(found[:SHOWN_MAX])
            raise InvalidInput(
                f"{wanted} may be {len(found)} requests: {some}{', ...' if len(found) > SHOWN_MAX else ''}",
                where="id",
                remedy="give more of its end, as `kalends list` shows it",
            )
        return found[0]

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
        async for view in self._each(state, everyone, "", None):
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
        views = [view async for view in self._each("open", False, "", None)]
        changes = [view.changing async for view in self._each("reserved", False, "", None)]
        views += [await self.show(change) for change in changes if change]
        views.sort(key=lambda view: view.created_at, reverse=True)
        return calls.RequestViews(view for view in views if view.waiting is not None)

    async def watch(self, id: str = "", *, after: int = -1) -> AsyncIterator[calls.Event]:
        """Yield the events of the caller's requests (or of `id`); never end by itself.

        Begins after event number `after` (to resume), or with the present; reconnects after lost connections
        without missing an event.
        """
        id = await self.full_id(id) if id else ""
        wait_s = 0.0 if after < 0 else WATCH_WAIT_S
        while True:
            seen = await self.events(after, id=id, wait_s=wait_s)
            for event in seen.events:
                yield event
            after, wait_s = seen.next, WATCH_WAIT_S

    async def events(
        self, after: int = -1, *, id: str = "", wait_s: float = WATCH_WAIT_S
    ) -> calls.Events:
        """Return one batch for `watch`: the events after number `after`, or after the present for -1."""
        id = await self.full_id(id) if id else ""
        body = calls.Watch(after=after, id=id, wait_ms=milliseconds(wait_s))
        return await self._line.call(body, "watch", calls.Events)

    async def _each(
        self, state: ListState, everyone: bool, before: str, most: int | None
    ) -> AsyncIterator[calls.RequestView]:
        while most is None or most > 0:
            page = await self.list(state=state, everyone=everyone, count=PAGE, before=before)
            for view in page:
                yield view
            if len(page) < PAGE:
                return
            before = page[-1].id
            most = None if most is None else most - PAGE


PART_MIN: Final = 4

_WHOLE: Final = re.compile(REQUEST_ID_PATTERN)
_PART: Final = re.compile(r"[0-9a-f-]+")


def id_or_part(given: object, listing: str) -> str:
    """Return the `given` id in lower case; raises `InvalidInput` if it is neither an id nor a valid part.

    `listing` is the command that shows the ids.
    """
    said = given.strip().lower() if isinstance(given, str) else ""
    if not _PART.fullmatch(said) or len(said) < PART_MIN:
        raise InvalidInput(
            f"{given!r} is not an id",
            where="id",
            remedy=f"give an id, or at least {PART_MIN} characters from the beginning or the end of one that "
            f"`{listing}` shows",
        )
    return said


def is_whole(said: str) -> bool:
    """Return whether `id` is a whole id."""
    return _WHOLE.fullmatch(said) is not None


def is_part(said: str, id: str) -> bool:
    """Return whether `id`, or its shown ending, begins or ends with `said`."""
    return id.startswith(said) or id.endswith(said) or short_id(id).startswith(said)
