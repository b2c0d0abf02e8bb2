"""Requests, times and claims as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from kalends.cli.console.output import rows, short_time
from kalends.cli.console.problems import lines as problem_lines
from kalends.cli.console.screen import stated
from kalends.cli.requests.agent_options import argument_text
from kalends.cli.requests.sharing_texts import sharing_facts, sharing_words
from kalends.cli.requests.waiting_texts import waiting_text
from kalends.contract.notice_calls import ChangeByOthers, made_text
from kalends.contract.slots_text import slots_text
from kalends.core.durations import format_duration
from kalends.core.errors import error_from_problem
from kalends.core.identifiers import short_id
from kalends.core.language import format_alternatives, preferences
from kalends.core.limits import JUST_NOW_S
from kalends.core.money import format_credits, format_rate
from kalends.core.requests import Request, span
from kalends.core.times import format_time

if TYPE_CHECKING:
    from kalends.contract.calls import (
        AgentNote,
        ClaimView,
        Patience,
        PlacedEnd,
        PlacedJob,
        RequestView,
        UnitsOut,
    )
    from kalends.core.language.preferences import Preference
    from kalends.core.steps import StepPart


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
    request: Request, zone: ZoneInfo, said: Said = NOTHING_SAID, *, exact: bool, now_s: int
) -> list[str]:
    """Describe the request in full, as it will be sent at `now_s`; `exact` if the start is fixed."""
    lead_s, _ = span(request)
    facts = [
        ("request", format_alternatives(request.alternatives)),
        ("copies", f"{said.copies}, each by itself" if said.copies > 1 else ""),
        ("for", format_duration(request.duration_s)),
        ("at", format_time(request.not_before - lead_s, zone))
        if exact
        else ("after", format_time(request.not_before, zone) + _passed(request, now_s)),
        (
            "before",
            format_time(request.not_after, zone) if request.not_after and not exact else "",
        ),
        *(("prefer", preferences.understood(each, request)) for each in said.preferences),
        ("prefer", "the lowest price" if request.prefer_price else ""),
        (
            "traffic",
            f"{request.traffic_mb_per_s:g} MB/s of each node" if request.traffic_mb_per_s else "",
        ),
        ("at most", by_site(request.at_most)),
        ("rates", ", ".join(f"{site} {format_rate(n)}" for site, n in request.rates.items())),
        ("waits", _patience_text(said, zone)),
        ("priority", f"{request.priority:+d}" if request.priority else ""),
        ("agent", request.agent),
        ("with", argument_text(request.arguments)),
        ("note", request.note),
        ("key", said.key),
    ]
    return [f"{name:8} {text}" for name, text in facts if text]


def by_site(parts: Mapping[str, int]) -> str:
    """Return ``40.00 credits at sdsc, 10.00 at caltech``; for the only site without its name."""
    told = [
        format_credits(amount) + (f" at {site}" if site else " credits")
        for site, amount in sorted(parts.items())
    ]
    return ", ".join(told)


def _passed(request: Request, now_s: int) -> str:
    """Return the words for an earliest start in the past: only a window that fixes the start keeps it."""
    lead_s, tail_s = span(request)
    fixed = request.not_after and request.not_after - request.not_before <= tail_s - lead_s
    if fixed or request.not_before >= now_s - JUST_NOW_S:
        return ""
    return ", which has passed: from now on"


def _patience_text(said: Said, zone: ZoneInfo) -> str:
    """Describe how long the request may wait; empty for the default."""
    until = format_time(said.give_up_at, zone) if said.give_up_at else ""
    if said.patience == "none":
        return "not at all"
    if said.patience == "taken":
        last = until or "the last possible start"
        return f"also on waiting lists; at most until {last}"
    return f"at most until {until}" if until else ""


def cost_text(site: str, parts: int, view: RequestView) -> str:
    """Describe the charge of a site, and its refund: ``sdsc 40.00 credits, 20.00 paid back``."""
    back = f", {format_credits(view.refunds[site])} paid back" if site in view.refunds else ""
    return f"{site} {format_credits(parts)} credits{back}"


def request_lines(view: RequestView, zone: ZoneInfo) -> list[str]:
    """Describe one request in full: its state, times, claims and failure."""
    facts = [("id", view.id), ("user", view.user), ("request", view.text), ("note", view.note)]
    if view.placed is not None:
        told = view.state == "reserved" or view.placed.ended is not None
        words = f", {placed_text(view.placed, zone)}" if told else ""
        facts.append(("job", f"{view.placed.machine}/{view.placed.number}{words}"))
    elif view.start < view.end:
        length = format_duration(view.end - view.start)
        facts.append(("start", format_time(view.start, zone)))
        facts.append(("end", f"{format_time(view.end, zone)}, {length} later"))
    facts += [("cost", cost_text(site, parts, view)) for site, parts in sorted(view.costs.items())]
    if view.parts_ended_at:
        facts.append(("ended", format_time(view.parts_ended_at, zone)))
    if view.expires_at:
        facts.append(("expires", format_time(view.expires_at, zone)))
    if view.state == "open" and view.waiting is not None:
        facts.append(("waiting", waiting_text(view, zone)))
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
    facts += [("out", units_out_text(each, view, zone)) for each in view.units_out]
    if view.changed is not None:
        facts.append(("changed", change_text(view.changed, zone)))
        facts.append(("before", slots_text(view.changed.was, zone)))
    if view.changing:
        facts.append(("changing", _changing_text(view)))
    facts += sharing_facts(view, zone)
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


def _changing_text(view: RequestView) -> str:
    """Describe an open change of a reservation; an open `view` is the change itself."""
    if view.state == "open":
        return f"this is the change {short_id(view.changing)}; the reservation stays as it is until then"
    return f"a change is under way: kalends show {short_id(view.changing)}"


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
                _state_text(view),
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


def _state_text(view: RequestView) -> str:
    """Return the stage, how the job ended, changes by others, and whether a change is under way."""
    stage = _stage(view)
    if stage != "ended":
        told = [made_text(view.changed)] if view.changed else []
        told += ["changing"] if view.changing else []
        told += sharing_words(view)
        return f"{stage} ({', '.join(told)})" if told else stage
    ended = view.placed.ended if view.placed is not None else None
    return stage if ended is None or ended.succeeded else f"ended: {how_ended(ended)}"


def units_out_text(out: UnitsOut, view: RequestView, zone: ZoneInfo) -> str:
    """Describe units of a slot that cannot be used."""
    units = sum(each.units for each in view.claims if each.resource == out.resource)
    why = f": {out.detail}" if out.detail else ""
    return f"{out.units} of {units} units on {out.resource}, since {format_time(out.at, zone)}{why}"


def change_text(changed: ChangeByOthers, zone: ZoneInfo) -> str:
    """Return a change of a request: what, by whom, when and why."""
    reason = f": {changed.reason}" if changed.reason else ""
    made = changed.made.replace("-", " ")
    return f"{made} by {changed.by} on {format_time(changed.at, zone)}{reason}"


def placed_text(placed: PlacedJob, zone: ZoneInfo) -> str:
    """Return the promised or likely start of a job that a broker placed, or how it ended."""
    if placed.ended is not None:
        told = ended_text(placed.ended, zone)
        says_why = f"; kalends job {placed.machine}/{placed.number} shows why"
        return f"{told}{says_why if placed.ended.end == 'not-started' else ''}"
    also = "".join(f"; also waits as {each.machine}/{each.number}" for each in placed.also)
    if placed.start_by:
        return f"starts by {format_time(placed.start_by, zone)}{also}"
    return f"is likely to start by {format_time(placed.late_start, zone)}{also}"


def ended_text(ended: PlacedEnd, zone: ZoneInfo) -> str:
    """Return when and how a job ended, and how long it ran."""
    at = format_time(ended.at, zone)
    if ended.end == "withdrawn":
        return f"was withdrawn {at}"
    if ended.end == "not-started":
        return f"could not be started {at}"
    return f"ended {at} after {format_duration(ended.ran_s)}: {how_ended(ended)}"


def how_ended(ended: PlacedEnd) -> str:
    """Return how a job ended, e.g. ``exit 0``."""
    return ended.end if ended.end != "exit" or ended.succeeded else f"exit {ended.status}"
