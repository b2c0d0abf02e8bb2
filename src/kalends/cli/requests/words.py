"""Requests, times and claims as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from kalends.cli.console.colours import stated
from kalends.cli.console.output import rows
from kalends.cli.console.problems import lines as problem_lines
from kalends.cli.console.short_time import short_time
from kalends.cli.jobs.placed import how_words, placed_words
from kalends.cli.requests.agent_options import argument_text
from kalends.cli.requests.approval_words import to_approve_lines
from kalends.cli.requests.notice_words import before_words, change_words, units_out_words
from kalends.cli.requests.polls import poll_lines
from kalends.cli.requests.waiting_words import waiting_words
from kalends.contract.calls import (
    AgentNote,
    Candidate,
    ClaimView,
    Found,
    Patience,
    Price,
    RequestView,
)
from kalends.contract.notice_calls import made_words
from kalends.core.durations import format_duration
from kalends.core.errors import error_from_problem
from kalends.core.identifiers import short_id
from kalends.core.language import format_alternatives, preferences
from kalends.core.language.preferences import Preference
from kalends.core.requests import Request, span
from kalends.core.resources import job_of_slot
from kalends.core.steps import StepPart
from kalends.core.times import format_time

HASH_SHOWN = 12
"""Digits shown of a script's hash."""


class Said(NamedTuple):
    """The options of a call next to its request."""

    key: str = ""
    preferences: Sequence[Preference] = ()
    patience: Patience = "held"
    give_up_at: int | None = None
    copies: int = 1


NOTHING_SAID: Final = Said()


def understood(
    request: Request, zone: ZoneInfo, said: Said = NOTHING_SAID, *, exact: bool
) -> list[str]:
    """Describe the request in full, as it will be sent; `exact` if the start is fixed."""
    lead_s, _ = span(request)
    facts = [
        ("request", format_alternatives(request.alternatives)),
        ("copies", f"{said.copies}, each by itself" if said.copies > 1 else ""),
        ("for", format_duration(request.duration_s)),
        ("at", format_time(request.not_before - lead_s, zone))
        if exact
        else ("after", format_time(request.not_before, zone)),
        (
            "before",
            format_time(request.not_after, zone) if request.not_after and not exact else "",
        ),
        *(("prefer", preferences.understood(each, request)) for each in said.preferences),
        ("waits", _patience_words(said, zone)),
        ("priority", f"{request.priority:+d}" if request.priority else ""),
        ("agent", request.agent),
        ("with", argument_text(request.arguments)),
        ("note", request.note),
        ("key", said.key),
    ]
    return [f"{name:8} {text}" for name, text in facts if text]


def _patience_words(said: Said, zone: ZoneInfo) -> str:
    """Describe how long the request may wait; empty for the default."""
    until = format_time(said.give_up_at, zone) if said.give_up_at else ""
    if said.patience == "none":
        return "not at all"
    if said.patience == "taken":
        last = until or "the last possible start"
        return f"also on waiting lists; at most until {last}"
    return f"at most until {until}" if until else ""


def recalled_words(view: RequestView, zone: ZoneInfo) -> str:
    """Describe what the holder of a recalled request must do, and by when if that is known."""
    by = "it now"
    if view.recalled_until:
        by = f"by {datetime.fromtimestamp(view.recalled_until, zone):%H:%M:%S}"
    return f"an older request wants it: lock {by} or lose it: kalends lock {short_id(view.id)}"


def request_lines(view: RequestView, zone: ZoneInfo) -> list[str]:
    """Describe one request in full: its state, times, claims and failure."""
    facts = [("id", view.id), ("user", view.user), ("request", view.text), ("note", view.note)]
    if view.placed is not None:
        told = view.state == "reserved" or view.placed.ended is not None
        words = f", {placed_words(view.placed, zone)}" if told else ""
        facts.append(("job", f"{view.placed.machine}/{view.placed.number}{words}"))
    elif view.start < view.end:
        length = format_duration(view.end - view.start)
        facts.append(("start", format_time(view.start, zone)))
        facts.append(("end", f"{format_time(view.end, zone)}, {length} later"))
    if view.parts_ended_at:
        facts.append(("ended", format_time(view.parts_ended_at, zone)))
    if view.expires_at:
        facts.append(("expires", format_time(view.expires_at, zone)))
    if view.state == "open" and view.waiting is not None:
        facts.append(("waiting", waiting_words(view, zone)))
        facts.append(("since", format_time(view.waiting.since, zone)))
    if view.recalled_until:
        facts.append(("recalled", f"until {format_time(view.recalled_until, zone)}"))
    if view.agent:
        facts.append(("agent", f"{view.agent} (script {view.script[:HASH_SHOWN]})"))
    if view.agent_failed:
        facts.append(
            (
                "failed",
                f"the agent, at {', '.join(view.agent_failed)}: slots were chosen without it there",
            )
        )
    facts += [("out", units_out_words(each, view, zone)) for each in view.units_out]
    if view.changed is not None:
        facts.append(("changed", change_words(view.changed, zone)))
        facts.append(("before", before_words(view.changed, zone)))
    if view.changing:
        facts.append(("changing", _changing_words(view)))
    problem = problem_lines(error_from_problem(view.problem)) if view.problem else []
    state = _stage(view)
    return [
        stated(f"{state} {short_id(view.id)}", state),
        *(f"  {name:8} {text}" for name, text in facts if text),
        *(
            f"  {line}"
            for line in claim_lines(
                () if view.placed else view.claims, zone, view.parts, view.state
            )
        ),
        *(f"  {line}" for line in note_lines(view.notes)),
        *problem,
    ]


def _changing_words(view: RequestView) -> str:
    """Describe an open change of a reservation; an open `view` is the change itself."""
    named = short_id(view.changing)
    if view.state == "open":
        return f"this is the change {named}; the reservation stays as it is until then"
    return f"the change {named} is under way: kalends show {named}"


_SAID: Final[dict[str, tuple[str, str]]] = {
    "reserved": ("promised", "confirmed"),
    "held": ("held", "held"),
    "cancelled": ("being freed", "freed"),
    "open": ("asked", "asked"),
}
"""Words for a site's answer about a claim, by the state of the request: before and after it."""


def claim_lines(
    claims: Iterable[ClaimView],
    zone: ZoneInfo,
    parts: Iterable[StepPart] = (),
    state: str = "reserved",
) -> list[str]:
    """List the claims of a request in `state`, with the jobs that run on them in step."""
    claims = tuple(claims)
    if not claims:
        return []
    jobs = {part.machine: f"{part.machine}/{part.job}" for part in parts}
    return rows(
        (
            "RESOURCE",
            "UNITS",
            f"START ({zone.key})",
            "END",
            "SITE SAYS",
            *(["JOB"] if jobs else ()),
        ),
        [
            (
                claim.resource,
                claim.units,
                short_time(claim.start, zone),
                short_time(claim.end, zone),
                _SAID.get(state, ("-", "-"))[claim.confirmed],
                *([jobs.get(claim.resource, "-")] if jobs else ()),
            )
            for claim in claims
        ],
        right=("UNITS",),
    )


def note_lines(notes: Iterable[AgentNote]) -> list[str]:
    """List the notes of an agent for its user, oldest first."""
    notes = tuple(notes)
    if not notes:
        return []
    return rows(
        ("AT SITE", "THE AGENT LEFT"),
        [(note.site, msgspec.json.encode(note.value).decode()) for note in notes],
    )


def listing(views: Iterable[RequestView], zone: ZoneInfo) -> list[str]:
    """Return one row for each request, with their notes if any has one."""
    views = tuple(views)
    noted = any(view.note for view in views)
    return rows(
        (
            "ID",
            "STATE",
            f"START ({zone.key})",
            "LENGTH",
            "USER",
            "REQUEST",
            *(("NOTE",) if noted else ()),
        ),
        [
            (
                short_id(view.id),
                _state_words(view),
                short_time(start, zone) if start else "-",
                format_duration(end - start) if start < end else "-",
                view.user,
                view.text,
                *((view.note,) if noted else ()),
            )
            for view in views
            for start, end in [_times(view)]
        ],
    )


def _times(view: RequestView) -> tuple[int, int]:
    """Return start and end (s UTC) of the reservation, or of an ended job's run (0 if it never ran)."""
    ended = view.placed.ended if view.placed is not None else None
    if ended is None:
        return view.start, view.end
    if ended.end in ("withdrawn", "not-started"):
        return 0, 0
    return ended.at - ended.ran_s, ended.at


def _stage(view: RequestView) -> str:
    """Return the state; "ended" for a job that a broker placed, or a job in step, after its end."""
    ended = view.placed is not None and view.placed.ended is not None
    return "ended" if view.parts_ended_at or (ended and view.state == "reserved") else view.state


def _state_words(view: RequestView) -> str:
    """Return the stage, how the job ended, and changes by others."""
    stage = _stage(view)
    if stage != "ended":
        return f"{stage} ({made_words(view.changed)})" if view.changed else stage
    ended = view.placed.ended if view.placed is not None else None
    return stage if ended is None or ended.succeeded else f"ended: {how_words(ended)}"


def found_lines(found: Found, zone: ZoneInfo) -> list[str]:
    """List the possible starts and, if asked for, the bookings in their way."""
    polls = (line for poll in found.polls for line in poll_lines(poll))
    seen = [
        f"{resource}: bookings by others in its batch system: as seen {short_time(as_of, zone)}"
        for resource, as_of in sorted(found.as_of.items())
    ]
    return [
        *candidate_lines(found.candidates, zone), *seen, *to_approve_lines(found.approval),
        *obstacle_lines(found, zone), *polls,
    ]  # fmt: skip


def candidate_lines(candidates: Iterable[Candidate], zone: ZoneInfo) -> list[str]:
    """Return a row for each possible start, with weights and prices if any differ from zero.

    IDLE is the time, of one unit, that a start leaves in gaps too short for another like it; DELAYS
    counts requests in line, JOBS DELAYED waiting jobs, with the longest of their delays.
    """
    shown = tuple(candidates)
    prices = [candidate.price or Price() for candidate in shown]
    columns: list[tuple[str, Sequence[object]]] = [
        (f"START ({zone.key})", [short_time(candidate.start, zone) for candidate in shown]),
        ("END", [short_time(candidate.end, zone) for candidate in shown]),
    ]
    if any(candidate.weight for candidate in shown):
        columns.append(("WEIGHT", [f"{candidate.weight:g}" for candidate in shown]))
    if any(price.idle_unit_s for price in prices):
        columns.append(("IDLE", [_idle(price) for price in prices]))
    if any(price.delays for price in prices):
        columns.append(("DELAYS", [price.delays or "-" for price in prices]))
    if any(price.delayed_jobs for price in prices):
        columns.append(("JOBS DELAYED", [_jobs_delayed(price) for price in prices]))
    columns.append(("ON", [_on(candidate.claims) for candidate in shown]))
    return rows(
        [name for name, _ in columns],
        list(zip(*(cells for _, cells in columns), strict=True)),
        right=("WEIGHT", "IDLE", "DELAYS"),
    )


def obstacle_lines(found: Found, zone: ZoneInfo) -> list[str]:
    """List the bookings that would have to move, and the jobs that run, below the start that they prevent."""
    if not found.obstacles:
        return []
    when = short_time(found.obstacles[0].start, zone)
    jobs = sum(bool(job_of_slot(each.slot.reservation)) for each in found.obstacles)
    counted = [
        f"{number} {name}{'' if number == 1 else 's'} would have to {do}"
        for number, name, do in (
            (len(found.obstacles) - jobs, "booking", "move"),
            (jobs, "job", "end"),
        )
        if number
    ]
    what = f"{', and '.join(counted)}{'' if found.fewest else ' (fewer might do)'}"
    better = "a better start" if found.candidates else "a start"
    return [
        f"for {better} at {when} {what}:",
        *rows(
            ("RESOURCE", "UNITS", f"START ({zone.key})", "END", "STATE", "HOLDER"),
            [
                (
                    each.resource,
                    each.slot.units,
                    short_time(each.slot.start, zone),
                    short_time(each.slot.end, zone),
                    job_of_slot(each.slot.reservation) or each.slot.state,
                    each.slot.holder or "-",
                )
                for each in found.obstacles
            ],
            right=("UNITS",),
        ),
    ]


def _jobs_delayed(price: Price) -> str:
    if not price.delayed_jobs:
        return "-"
    return f"{price.delayed_jobs}, by up to {format_duration(price.longest_delay_s)}"


def _idle(price: Price) -> str:
    return format_duration(price.idle_unit_s) if price.idle_unit_s > 0 else "-"


def _on(claims: Iterable[ClaimView]) -> str:
    return " + ".join(
        claim.resource + (f":{claim.units}" if claim.units > 1 else "") for claim in claims
    )
