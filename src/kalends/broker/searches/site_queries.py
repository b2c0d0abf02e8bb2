"""Queries of the sites' calendars for a caller, apart from the requests being decided."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from kalends.broker.coordination.search.query_plan import batched
from kalends.broker.coordination.trust.answer_checks import (
    SiteQuestion,
    complaint_about_view,
    refused_view,
)
from kalends.broker.planning.price_lists import NOTHING_PRICED, PriceLists
from kalends.contract import messages as m
from kalends.contract.messages import FreeSteps, View, Want
from kalends.core.principals import Principal

Counting = Literal["all", "locked", "none"]

ASK_S_MAX: Final = 5.0
"""As long as a request looks: who is silent longer is left out."""

GLANCE_S_MAX: Final = 1.0
"""As long as a listing waits: one silent site must not keep the rest from being shown."""

FIRST_QUERY_ID: Final = 1 << 40
"""Query ids from here on are ours, those below the coordinator's."""


class SiteViews(dict[str, list[FreeSteps]]):
    """The views of each site that has answered, and their `prices`."""

    def __init__(
        self, views: Iterable[tuple[str, list[FreeSteps]]], prices: PriceLists = NOTHING_PRICED
    ) -> None:
        super().__init__(views)
        self.prices = prices


class SiteQueries:
    """Queries on their way; `send` takes a site and a message.

    Patience is with a site, not with each question: it begins with the first that is not answered. So
    whoever asks a site that has been silent for long waits for it no more, and its next word, about
    whatever it was asked, ends that.
    """

    def __init__(self, send: Callable[[str, m.Message], None]) -> None:
        self._send = send
        # An answer that was on its way before a restart is for none of these.
        self._ids = itertools.count(FIRST_QUERY_ID + secrets.randbelow(FIRST_QUERY_ID))
        self._waiting: dict[int, tuple[SiteQuestion, asyncio.Future[View | None]]] = {}
        self._silent_since_s: dict[str, float] = {}

    async def ask(
        self,
        principal: Principal,
        wants_by_site: Mapping[str, tuple[Want, ...]],
        *,
        detail: bool = False,
        counting: Counting = "all",
        length_s: int = 0,
        needs: tuple[m.RoomNeed, ...] = (),
        patience_s: float = ASK_S_MAX,
    ) -> SiteViews:
        """What each site shows `principal` of `wants`; sites that do not answer all are missing.

        `detail`, `counting`, `length_s` and `needs` are as in `Query`.
        """
        now_s = asyncio.get_running_loop().time()
        left_s = {
            site: self._silent_since_s.setdefault(site, now_s) + patience_s - now_s
            for site in wants_by_site
        }
        asked = [
            (
                site,
                self._sent(
                    SiteQuestion(site, part, needs),
                    m.Query(
                        query_id=next(self._ids), principal=principal, wants=part, detail=detail,
                        counting=counting, length_s=length_s, needs=needs,
                    ),
                ),
            )
            for site, wants in wants_by_site.items()
            for part in batched(wants)
        ]  # fmt: skip
        await self._until_answered([(left_s[site], future) for site, (_, future) in asked])
        seen, prices = dict[str, list[FreeSteps]](), NOTHING_PRICED
        silent = set()
        for site, (query_id, future) in asked:
            self._waiting.pop(query_id, None)
            view = future.result() if future.done() else None
            if view is None:
                silent.add(site)
            else:
                seen.setdefault(site, []).extend(view.views)
                prices = prices.added([view])
        return SiteViews(
            ((site, views) for site, views in seen.items() if site not in silent), prices
        )

    def answered(self, site: str, view: View) -> str:
        """Take the answer of `site`; returns what is wrong with it ("" for nothing), and is then refused."""
        self._silent_since_s.pop(site, None)
        asked, future = self._waiting.get(view.query_id, (None, None))
        if asked is None or future is None or asked.site != site or future.done():
            return ""
        complaint = complaint_about_view(site, view, asked)
        future.set_result(refused_view(view, asked) if complaint else view)
        return complaint

    def lost(self, site: str) -> None:
        """Wait no longer for `site`."""
        self._silent_since_s.pop(site, None)
        for asked, future in self._waiting.values():
            if asked.site == site and not future.done():
                future.set_result(None)

    async def _until_answered(
        self, waited_for: Sequence[tuple[float, asyncio.Future[View | None]]]
    ) -> None:
        """Return once each has an answer, or its seconds are over."""
        loop = asyncio.get_running_loop()
        timers = [
            loop.call_later(left_s, _give_up, future) for left_s, future in waited_for if left_s > 0
        ]
        patient = [future for left_s, future in waited_for if left_s > 0]
        if patient:
            await asyncio.wait(patient)
        for timer in timers:
            timer.cancel()

    def _sent(
        self, question: SiteQuestion, query: m.Query
    ) -> tuple[int, asyncio.Future[View | None]]:
        future: asyncio.Future[View | None] = asyncio.get_running_loop().create_future()
        self._waiting[query.query_id] = (question, future)
        self._send(question.site, query)
        return query.query_id, future


def _give_up(future: asyncio.Future[View | None]) -> None:
    if not future.done():
        future.set_result(None)
