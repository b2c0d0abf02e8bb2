"""The client's calls about series."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, Unpack

from kalends.client.inputs.given_values import by_name, milliseconds
from kalends.client.inputs.given_values import every as listed
from kalends.client.inputs.request_builder import (
    Duration,
    RequestOptions,
    Time,
    length_s,
    request_from,
)
from kalends.client.methods.answers import NewLength
from kalends.client.methods.listing_calls import ListingCalls, id_or_part
from kalends.client.transports.call_line import CallLine
from kalends.contract import calls
from kalends.core.durations import parse_offset
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import REQUEST_ID_PATTERN
from kalends.core.requests import DAY_S, Request
from kalends.core.series import hours_between, local_day, rule_of_words
from kalends.core.signatures import names_options

_END: Final = "0000"
"""The last digits of the id of a series."""

_FIRST: Final = "0001"
"""The last digits of the id of its first request."""


class SeriesCalls:
    """The part of `kalends.Client` about series."""

    def __init__(self, line: CallLine, listing: ListingCalls) -> None:
        self._line = line
        self._settings = line.settings
        self._listing = listing

    @names_options(RequestOptions, request_from)
    async def book_series(
        self,
        request: Request | str,
        *,
        every: str = "",
        times: int = 0,
        until: date | str | None = None,
        rule: str = "",
        mode: calls.SeriesMode = "all",
        skip: Sequence[date | str] = (),
        give: Duration = 0,
        keep_going: bool = False,
        key: str = "",
        wait_s: float = 30.0,
        **options: Unpack[RequestOptions],
    ) -> calls.SeriesView:
        """Book `request` at every occurrence of a rule: all or none, or with `mode` "as-many" each by itself.

        The rule is `every` (``week on tue,thu``) with `times` or the last day `until`, or a `rule` of RFC
        5545 with COUNT or UNTIL. It counts from the start of the request (`at`), and keeps its local hour in
        the zone of this client. Occurrences on the days `skip` are left out. Each may begin up to `give`
        earlier or later (``30m``), as near to its hour as it can. Other arguments as for `request`.

        If occurrences lie beyond an owner's horizon, nothing is booked, unless the series is to `keep_going`:
        each is then asked for as soon as the horizon allows.

        If one occurrence is refused, nothing of "all" is booked. The answer has each occurrence with its
        state; those still ``open`` after `wait_s` continue. `key` makes the call safe to repeat.
        """
        around = self._settings
        body = calls.BookSeries(
            key=key or around.new_key(),
            request=request_from(request, now_s=around.now_s(), zone=around.zone, **options),
            rule=_rule(every, times, until, rule),
            zone=around.zone.key,
            mode=mode,
            skip=tuple(map(str, listed(skip, where="skip"))),
            give_s=length_s(give, where="give") if give else 0,
            keep_going=keep_going,
            wait_ms=milliseconds(wait_s),
        )
        return await self._line.call(body, "series_book", calls.SeriesView)

    @names_options(RequestOptions, request_from)
    async def find_series(
        self,
        request: Request | str,
        *,
        every: str = "",
        times: int = 0,
        until: date | str | None = None,
        rule: str = "",
        between: str = "",
        skip: Sequence[date | str] = (),
        count: int = 5,
        **options: Unpack[RequestOptions],
    ) -> calls.SeriesHours:
        """Return the `count` best first starts of a series at present; book nothing.

        The best have the fewest occurrences that do not fit. The rule is given as to `book_series`; if it
        says no weekday, each day of the first week is tried. The first week begins with the start of
        `window`, which is now without one. Each occurrence lies `between` these hours of its day
        (``09:00-18:00``).
        """
        around = self._settings
        opens_s, closes_s = hours_between(between) if between else (0, DAY_S)
        body = calls.FindSeries(
            request=request_from(request, now_s=around.now_s(), zone=around.zone, **options),
            rule=_rule(every, times, until, rule),
            zone=around.zone.key,
            opens_s=opens_s,
            closes_s=closes_s,
            skip=tuple(map(str, listed(skip, where="skip"))),
            count=count,
        )
        return await self._line.call(body, "series_find", calls.SeriesHours)

    async def series(self, id: str) -> calls.SeriesView:
        """Return a series as it is now; `id` is its own, or that of one of its occurrences."""
        body = calls.SeriesRef(id=await self.series_id(id))
        return await self._line.call(body, "series_show", calls.SeriesView)

    async def retry_series(self, id: str, *, wait_s: float = 30.0) -> calls.SeriesView:
        """Book again the occurrences of series `id` that could not be had, as many as possible."""
        body = calls.RetrySeries(id=await self.series_id(id), wait_ms=milliseconds(wait_s))
        return await self._line.call(body, "series_retry", calls.SeriesView)

    async def cancel_series(
        self, id: str, occurrence: str = "", *, following: bool = False, wait_s: float = 30.0
    ) -> calls.SeriesView:
        """Cancel the occurrence of series `id` with this name, with `following` all later ones, too.

        Without `occurrence` all are cancelled, except those that are over.
        """
        body = calls.CancelSeries(
            id=await self.series_id(id),
            occurrence=occurrence,
            following=following,
            wait_ms=milliseconds(wait_s),
        )
        return await self._line.call(body, "series_cancel", calls.SeriesView)

    async def move_series(
        self,
        id: str,
        occurrence: str = "",
        to: Time | None = None,
        *,
        by: Duration | None = None,
        following: bool = False,
        key: str = "",
        wait_s: float = 30.0,
    ) -> calls.SeriesView:
        """Move the occurrence of series `id` with this name, with `following` all later ones, too.

        The named one starts at `to`, or all are moved `by` some time (``-30m`` is earlier), in local time.
        Without `occurrence` all are moved, except those that have begun. A series that was booked all or none
        is moved all or none. An occurrence that could not be moved has the reason as `unchanged`.
        """
        if (to is None) == (by is None):
            raise InvalidInput(
                "the new time is missing or ambiguous",
                where="to",
                remedy="give one of `to` and `by`",
            )
        return await self._change_series(
            id, occurrence, following, key, wait_s, what="move",
            start=0 if to is None else self._settings.start_s(to, where="to"),
            by_s=0 if by is None else _signed_s(by),
        )  # fmt: skip

    async def extend_series(
        self,
        id: str,
        occurrence: str = "",
        *,
        by: Duration | None = None,
        duration: Duration | None = None,
        following: bool = False,
        key: str = "",
        wait_s: float = 30.0,
    ) -> calls.SeriesView:
        """Lengthen occurrences of series `id` `by` some time, or to `duration`; which ones: `move_series`."""
        length = NewLength(by, duration, 1)
        return await self._change_series(
            id, occurrence, following, key, wait_s, what="extend", by_s=length.step_s or 0,
            duration_s=length.target_s or 0,
        )  # fmt: skip

    async def shrink_series(
        self,
        id: str,
        occurrence: str = "",
        *,
        by: Duration | None = None,
        duration: Duration | None = None,
        units: Mapping[str, int] | None = None,
        following: bool = False,
        key: str = "",
        wait_s: float = 30.0,
    ) -> calls.SeriesView:
        """Shorten occurrences of series `id`, or keep only `units` of each resource; which: `move_series`."""
        kept = by_name(units, where="units")
        unchanged = bool(kept) and by is None and duration is None
        length = None if unchanged else NewLength(by, duration, -1)
        return await self._change_series(
            id, occurrence, following, key, wait_s, what="shrink", units=dict(kept),
            by_s=-(length.step_s or 0) if length is not None else 0,
            duration_s=(length.target_s or 0) if length is not None else 0,
        )  # fmt: skip

    async def _change_series(
        self, id: str, occurrence: str, following: bool, key: str, wait_s: float, **fields: Any
    ) -> calls.SeriesView:
        body = calls.ChangeSeries(
            id=await self.series_id(id),
            key=key or self._settings.new_key(),
            occurrence=occurrence,
            following=following,
            wait_ms=milliseconds(wait_s),
            **fields,
        )
        return await self._line.call(body, "series_change", calls.SeriesView)

    async def series_id(self, id: str) -> str:
        """Return the whole id of the series of the caller that `id` is, or is a part or an occurrence of."""
        id = id_or_part(id, "kalends list")
        if re.fullmatch(REQUEST_ID_PATTERN, id):
            return id[: -len(_END)] + _END
        part = id[: -len(_END)] + _FIRST if id.endswith(_END) else id
        try:
            first = await self._listing.full_id(part)
        except NotFound as error:
            raise NotFound(
                f"none of your series has the id {id}", where="id", remedy="see `kalends list`"
            ) from error
        return first[: -len(_END)] + _END


def _signed_s(by: Duration) -> int:
    """Return the seconds of a time to move by, of which a negative one is earlier; raises `InvalidInput`."""
    if isinstance(by, str):
        return parse_offset(by, where="by")
    if isinstance(by, timedelta) and by < timedelta():
        return -length_s(-by, where="by")
    if isinstance(by, int) and by < 0:
        return -length_s(-by, where="by")
    # What is of another type is refused there.
    return length_s(by, where="by")


def _rule(every: str, times: int, until: date | str | None, rule: str) -> str:
    """Return the rule that the arguments say; raises `InvalidInput` for those that do not go together."""
    last = local_day(until, where="until") if until is not None else None
    if bool(every) == bool(rule):
        raise InvalidInput("a series needs one rule", where="every", remedy="give every, or rule")
    if every and bool(times) == (until is not None):
        raise InvalidInput("a series needs one end", where="times", remedy="give times, or until")
    if rule and (times or until):
        raise InvalidInput(
            "a rule has its own end", where="rule", remedy="write COUNT or UNTIL in the rule"
        )
    return rule or rule_of_words(every, times=times, until=last)
