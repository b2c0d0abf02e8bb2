"""Answers as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from kalends.client.notebooks import calendar_drawing, request_tables
from kalends.contract import calls
from kalends.core.errors import InvalidInput
from kalends.core.markup import Markup
from kalends.core.times import zone_named

_HTML: Final[dict[type, Callable[[Any, tzinfo | None], Markup]]] = {
    calls.CalendarView: calendar_drawing.calendar_html,
    calls.RequestView: request_tables.request_html,
    calls.RequestViews: request_tables.requests_html,
    calls.Found: request_tables.found_html,
    calls.Resources: request_tables.resources_html,
}


def as_html(answer: object, zone: str | ZoneInfo = "") -> Markup:
    """Return `answer` as HTML, with times in `zone`.

    By default that is the owner's for a calendar, this computer's for the rest. Raises `InvalidInput` for
    an answer without an HTML form, or an unknown zone.
    """
    for kind, drawn in _HTML.items():
        if isinstance(answer, kind):
            return drawn(answer, zone_named(zone) if zone else _usual_zone(answer))
    itself = getattr(answer, "_repr_html_", None)
    if itself is None:
        raise InvalidInput(
            f"a {type(answer).__name__} has no form as HTML",
            where="answer",
            remedy="give an answer of a client, or a result of a simulation",
        )
    return Markup(itself())


def _usual_zone(answer: object) -> tzinfo | None:
    if not isinstance(answer, calls.CalendarView):
        return None
    try:
        return zone_named(answer.resource.zone)
    except InvalidInput:
        # The zone comes from the site, and may be invalid.
        return None
