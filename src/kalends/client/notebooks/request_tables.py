"""Requests and resources as tables for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

from kalends.contract.calls import Found, RequestView, Resources, marked_state
from kalends.contract.fields import Want
from kalends.core.durations import format_duration
from kalends.core.identifiers import short_id
from kalends.core.markup import Markup, element, table, time_element

ROWS_MAX: Final = 100


def request_html(view: RequestView, zone: tzinfo | None) -> Markup:
    """Return a table of one request: its terms, its state, and each of its parts."""
    rows: list[tuple[str, object]] = [("request", view.text), ("state", marked_state(view))]
    if view.start:
        rows += [
            ("start", time_element(view.start, zone)),
            ("end", time_element(view.end, zone)),
            ("length", format_duration(view.end - view.start)),
        ]
    deadlines = {
        "held until": view.expires_at,
        "lock it by": view.recalled_until,
        "waits until": view.waiting.until if view.waiting is not None else 0,
    }
    rows += [(name, time_element(at, zone)) for name, at in deadlines.items() if at]
    if view.waiting is not None:
        rows.append(("waits for", ", ".join(view.waiting.awaited)))
    if view.problem is not None:
        rows += [("problem", view.problem.detail), ("next", view.problem.remedy)]
        rows += [(each.where, each.detail) for each in view.problem.refusals[:ROWS_MAX]]
    if view.changed is not None:
        rows += [
            ("changed", time_element(view.changed.at, zone)),
            ("reason", view.changed.reason),
        ]
        rows += [("before", _slot(want, zone)) for want in view.changed.was[:ROWS_MAX]]
    rows += [("note", view.note)] if view.note else []
    claims = table(
        ("resource", "units", "start", "end", ""),
        [
            (
                claim.resource, claim.units, time_element(claim.start, zone),
                time_element(claim.end, zone), "confirmed" if claim.confirmed else "",
            )
            for claim in view.claims[:ROWS_MAX]
        ],
    ) if view.claims else Markup("")  # fmt: skip
    return element("div", element("b", view.id), table(("", ""), rows), claims)


def _slot(want: Want, zone: tzinfo | None) -> Markup:
    length = format_duration(want.end - want.start)
    return element(
        "span", f"{want.resource}:{want.units}, ", time_element(want.start, zone), f" for {length}"
    )


def requests_html(views: Sequence[RequestView], zone: tzinfo | None) -> Markup:
    """Return a table with a row for each request, up to a hundred."""
    rows = [
        (
            short_id(view.id), marked_state(view), time_element(view.start, zone),
            format_duration(view.end - view.start) if view.start else "", view.text, view.note,
        )
        for view in views[:ROWS_MAX]
    ]  # fmt: skip
    more = len(views) - len(rows)
    return element(
        "div",
        table(("id", "state", "start", "length", "request", "note"), rows),
        f"and {more:,} more" if more else "",
    )


def found_html(found: Found, zone: tzinfo | None) -> Markup:
    """Return a table of possible starts, the best first; if there is none, of the refusals."""
    if not found.candidates:
        refused = [(each.where, each.rule, each.detail) for each in found.refusals[:ROWS_MAX]]
        return element("div", "no start is possible", table(("where", "rule", "why"), refused))
    rows = [
        (
            time_element(each.start, zone), time_element(each.end, zone),
            ", ".join(f"{claim.resource}:{claim.units}" for claim in each.claims),
        )
        for each in found.candidates
    ]  # fmt: skip
    return element("div", table(("start", "end", "resources"), rows))


def resources_html(answer: Resources, zone: tzinfo | None) -> Markup:
    """Return a table of the resources, and of the sites that do not answer."""
    rows = [
        (each.name, each.capacity, each.description, each.hours)
        for each in answer.resources[:ROWS_MAX]
    ]
    more = len(answer.resources) - len(rows)
    down = [(each.site, each.detail) for each in answer.sites if each.state == "down"]
    return element(
        "div",
        table(("resource", "units", "description", "open"), rows),
        f"and {more:,} more" if more else "",
        table(("site that is down", "why"), down[:ROWS_MAX]) if down else "",
    )
