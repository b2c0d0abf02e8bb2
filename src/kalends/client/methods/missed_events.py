"""Events that a watch did not bring because it went on at another server: each replica has only its own.

What has happened to a request is read from its story, which all replicas know.
"""

from __future__ import annotations

from typing import Final, Protocol

from kalends.contract import calls

LISTED_MAX: Final = 1_000
"""The newest requests that are looked at if all are watched."""


class Stories(Protocol):
    """The calls that look for missed events."""

    async def show(self, id: str) -> calls.RequestView: ...
    async def why(self, id: str) -> calls.Story: ...
    async def list(self, *, count: int = ...) -> calls.RequestViews: ...


class MissedEvents:
    """Events of request `id` ("": of all) that a watch did not bring because it has gone on elsewhere."""

    def __init__(self, stories: Stories, id: str) -> None:
        self.moved = False
        """Whether the watch has gone on at another server: from then on, its events are not all."""
        self._stories = stories
        self._id = id
        self._server = ""
        self._from = 0
        self._views: dict[str, calls.RequestView] = {}
        self._told: dict[str, set[tuple[int, str, str]]] = {}

    async def begin(self) -> None:
        """Look at the requests before the watch begins, so that no end falls between the two."""
        self._views = await self._look()

    def note(self, event: calls.Event) -> None:
        """Note an event that the watch has brought: it is not among the missed ones."""
        self._told.setdefault(event.id, set()).add((event.at_ms, event.kind, event.detail))
        if len(self._told) > LISTED_MAX:
            del self._told[next(iter(self._told))]

    async def at(self, server: str, after: int) -> list[calls.Event]:
        """Return the missed events, now that `server` has sent its own up to number `after`."""
        if not self._server:
            self._server, self._from = server, after
        self.moved = self.moved or server != self._server
        missed = await self._missed() if self.moved else []
        for event in missed:
            self.note(event)
        return missed

    async def _look(self) -> dict[str, calls.RequestView]:
        views = (
            [await self._stories.show(self._id)]
            if self._id
            else await self._stories.list(count=LISTED_MAX)
        )
        return {view.id: view for view in views}

    async def _missed(self) -> list[calls.Event]:
        before, self._views = self._views, await self._look()
        missed = []
        for id, view in self._views.items():
            if view == before.get(id):
                continue
            story = (await self._stories.why(id)).events
            told = self._told.get(id, set())
            ended = id in before and before[id].state != view.state
            # The number of an event at a server may be higher than the one in the story.
            missed += [
                event
                for event in story
                if (event.at_ms, event.kind, event.detail) not in told
                and (event.number > self._from or (ended and event == story[-1]))
            ]
        return sorted(missed, key=lambda event: event.number)
