"""A series as the register has it: its reservations, and how each occurrence stands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.desk.request_queries import may_see
from kalends.broker.register.contract import WholeReservation
from kalends.broker.series.hour_queries import HourQueries
from kalends.broker.series.series_ids import series_of
from kalends.broker.series.series_records import by_name, is_of_series, occurrence_view, series_in
from kalends.broker.service import BrokerService
from kalends.contract import calls
from kalends.core.errors import NotAllowed, NotFound
from kalends.serving.auth.callers import Caller

NEAREST_MAX: Final = 16
NEAREST_REACH_S: Final = 7 * 86_400
"""Limits of the search for nearest free starts: the number of occurrences, and the distance."""

PAGE: Final = 64
"""Reservations that are read at once to find those of a series."""


class SeriesReads:
    """Reads only."""

    def __init__(self, service: BrokerService, hours: HourQueries) -> None:
        self._service = service
        self._hours = hours

    async def tries(self, caller: Caller, series: str) -> list[WholeReservation]:
        """Return the reservations that were tried for a series, oldest first; raises `NotFound` for none."""
        doubt = self._service.replica.doubt()
        found: list[WholeReservation] = []
        after = series
        while True:
            page = await self._page(after)
            found += (each for each in page if series_of(each.id) == series and is_of_series(each))
            if len(page) < PAGE or series_of(page[-1].id) != series:
                break
            after = page[-1].id
        if not found or not may_see(caller, found[0].rows[0].user):
            if doubt is not None:
                raise doubt
            raise NotFound(
                "no such series, or not yours",
                where="id",
                remedy="see `kalends list` for your requests and series",
            )
        return found

    async def _page(self, after: str) -> Sequence[WholeReservation]:
        return await self._service.replica.read(lambda store: store.reservations(after, PAGE))

    async def view(self, caller: Caller, id: str) -> calls.SeriesView:
        tries = await self.tries(caller, id)
        series = series_in(tries)
        tried = by_name(tries)
        views = (occurrence_view(each, tried.get(each.name, ())) for each in series.occurrences())
        first = tries[0].rows[0]
        assert isinstance(first, Record)
        return calls.SeriesView(
            id=series.part.id, user=series.user, text=first.spec.text, rule=series.part.rule,
            zone=series.part.zone, mode="all" if series.part.together else "as-many",
            duration_s=series.length_s, created_at=first.created_ms // 1000, note=series.request.note,
            give_s=series.part.give_s, keeps_going=series.part.keeps_going,
            occurrences=tuple(views),
        )  # fmt: skip

    async def missed(self, caller: Caller, view: calls.SeriesView) -> calls.SeriesView:
        """Return `view` with the nearest free start of each occurrence to come that was refused."""
        found, now_s = view.occurrences, self._service.moment().wall_s
        missed = [
            place
            for place, each in enumerate(found)
            if each.state == "failed" and each.nominal > now_s
            if each.problem is not None and each.problem.refusals
        ][:NEAREST_MAX]
        if not missed or view.user != caller.principal.user:
            return view
        series = series_in(await self.tries(caller, view.id))
        apart = [later.nominal - each.nominal for each, later in pairwise(found)]
        far = min((NEAREST_REACH_S, *(max(each - series.length_s, 0) // 2 for each in apart)))
        wished = [(found[place].nominal, far) for place in missed]
        starts = await self._hours.nearest(caller, series.request, wished)
        told = dict(zip(missed, starts, strict=True))
        return structs.replace(
            view,
            occurrences=tuple(
                structs.replace(each, nearest=told.get(place, 0))
                for place, each in enumerate(found)
            ),
        )


def not_yours(user: str) -> NotAllowed:
    return NotAllowed(
        f"the series belongs to {user}, and its requests would become yours",
        where="id",
        remedy="ask its user to try it again",
    )
