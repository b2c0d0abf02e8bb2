"""Requests, times and claims in lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec

from kalends.client.cli._agent_options import argument_text
from kalends.client.cli._output import rows
from kalends.client.cli._problems import lines as problem_lines
from kalends.core.api import AgentNote, Candidate, ClaimView, RequestView
from kalends.core.durations import format_duration
from kalends.core.errors import error_from_problem
from kalends.core.identifiers import short_id
from kalends.core.language import format_alternatives
from kalends.core.requests import Request, span
from kalends.core.times import format_time

HASH_SHOWN = 12
"""Digits of a script's hash that people are shown."""


def short_time(time_s: int, zone: ZoneInfo) -> str:
    """``Tue 2026-07-14 08:00``, with seconds only where there are any; the zone is said once, above."""
    local = datetime.fromtimestamp(time_s, zone)
    return f"{local:%a %Y-%m-%d %H:%M:%S}" if local.second else f"{local:%a %Y-%m-%d %H:%M}"


def understood(request: Request, zone: ZoneInfo, *, exact: bool, key: str = "") -> list[str]:
    """What will be asked for, in full; `exact` when the start is fixed."""
    lead_s, _ = span(request)
    facts = [
        ("request", format_alternatives(request.alternatives)),
        ("for", format_duration(request.duration_s)),
        ("at", format_time(request.not_before - lead_s, zone))
        if exact
        else ("after", format_time(request.not_before, zone)),
    ]
    if not exact and request.not_after:
        facts.append(("before", format_time(request.not_after, zone)))
    arguments = argument_text(request.arguments)
    others = (("agent", request.agent), ("with", arguments), ("note", request.note), ("key", key))
    facts += [(name, text) for name, text in others if text]
    return [f"{name:8} {text}" for name, text in facts]


def request_lines(view: RequestView, zone: ZoneInfo) -> list[str]:
    """One request in full: its state, when, what on which resource, and why it failed."""
    facts = [("id", view.id), ("user", view.user), ("request", view.text), ("note", view.note)]
    if view.start < view.end:
        length = format_duration(view.end - view.start)
        facts.append(("start", format_time(view.start, zone)))
        facts.append(("end", f"{format_time(view.end, zone)}, {length} later"))
    if view.expires_at:
        facts.append(("expires", format_time(view.expires_at, zone)))
    if view.agent:
        facts.append(("agent", f"{view.agent} (script {view.script[:HASH_SHOWN]})"))
    if view.changing:
        facts.append(("changing", f"{view.changing} is under way"))
    problem = problem_lines(error_from_problem(view.problem)) if view.problem else []
    return [
        f"{view.state} {short_id(view.id)}",
        *(f"  {name:8} {text}" for name, text in facts if text),
        *(f"  {line}" for line in claim_lines(view.claims, zone)),
        *(f"  {line}" for line in note_lines(view.notes)),
        *problem,
    ]


def claim_lines(claims: Iterable[ClaimView], zone: ZoneInfo) -> list[str]:
    claims = tuple(claims)
    if not claims:
        return []
    return rows(
        ("RESOURCE", "UNITS", f"START ({zone.key})", "END", "SITE SAYS"),
        [
            (
                claim.resource,
                claim.units,
                short_time(claim.start, zone),
                short_time(claim.end, zone),
                "confirmed" if claim.confirmed else "-",
            )
            for claim in claims
        ],
        right=("UNITS",),
    )


def note_lines(notes: Iterable[AgentNote]) -> list[str]:
    """What an agent has left for its client, oldest first, one row for each."""
    notes = tuple(notes)
    if not notes:
        return []
    return rows(
        ("AT SITE", "THE AGENT LEFT"),
        [(note.site, msgspec.json.encode(note.value).decode()) for note in notes],
    )


def listing(views: Iterable[RequestView], zone: ZoneInfo) -> list[str]:
    """One row for each request."""
    return rows(
        ("ID", "STATE", f"START ({zone.key})", "LENGTH", "USER", "REQUEST"),
        [
            (
                short_id(view.id),
                view.state,
                short_time(view.start, zone) if view.start else "-",
                format_duration(view.end - view.start) if view.start < view.end else "-",
                view.user,
                view.text,
            )
            for view in views
        ],
    )


def candidate_lines(candidates: Iterable[Candidate], zone: ZoneInfo) -> list[str]:
    """One row for each start that is possible now."""
    return rows(
        (f"START ({zone.key})", "END", "ON"),
        [
            (
                short_time(candidate.start, zone),
                short_time(candidate.end, zone),
                " + ".join(
                    claim.resource + (f":{claim.units}" if claim.units > 1 else "")
                    for claim in candidate.claims
                ),
            )
            for candidate in candidates
        ],
    )


def what_next(view: RequestView) -> list[str]:
    """What a person may want to do after a booking, a hold or a change."""
    named = short_id(view.id)
    if view.state == "open":
        return [f"still being decided: kalends show {named}, or kalends watch {named}"]
    if view.state == "held":
        return [f"held: kalends lock {named} to keep it, kalends release {named} to give it up"]
    return []
