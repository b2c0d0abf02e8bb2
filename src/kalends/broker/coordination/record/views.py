"""A request as its user sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from kalends.broker.coordination.record.decision_record import JobFacts, Record
from kalends.broker.coordination.record.plain_data import plain_data
from kalends.contract.calls import AgentNote, ClaimView, PlacedJob, RequestView, UnitsOut
from kalends.contract.fields import Want
from kalends.core.errors import KalendsError, Problem
from kalends.core.identifiers import split_resource
from kalends.core.language import format_term
from kalends.core.requests import Term

WAYS_NAMED: Final = 4
"""Implementations that are named in lists; of more it is told how many they are."""


def view_of(
    record: Record, *, confirmed: frozenset[str] | None = None, changing: str = ""
) -> RequestView:
    """`record` as its user sees it. `confirmed`: sites that have said Done (None: by the record)."""
    wants = record.wants or record.spec.wants
    if record.replaces and record.state == "open":
        changing = record.rid
    reserved = record.state in ("commit", "cancelled", "replaced")
    return RequestView(
        id=record.reservation,
        state=record.public_state,
        user=record.user,
        text=record.spec.text,
        created_at=record.created_ms // 1000,
        start=min((want.start for want in wants), default=0),
        end=max((want.end for want in wants), default=0),
        claims=tuple(_claims(record, wants, reserved, confirmed)),
        attempts=record.att,
        expires_at=record.held_until_ms // 1000 if record.public_state == "held" else 0,
        note=record.spec.request.note,
        agent=record.spec.agent,
        script=record.spec.script,
        agent_failed=record.agent.failed,
        notes=tuple(
            AgentNote(at_ms=left.at_ms, site=left.site, value=plain_data(left.text, "notes"))
            for left in record.agent.left
        ),
        changing=changing,
        waiting=record.waiting if record.state == "open" else None,
        placed=_placed(record.job) if reserved and record.job.placed else None,
        needs_approval=record.owners.needed if record.public_state == "held" else (),
        recalled_until=record.recalled_until if record.public_state == "held" else 0,
        priority=record.spec.request.priority,
        costs={site: cost.charge for site, cost in record.costs.items()} if reserved else {},
        refunds=record.refunds,
        changed=record.ended_by or (record.spec.by_others if reserved else None),
        changes=record.changes,
        updated_at=(record.trail[-1].at_ms if record.trail else record.created_ms) // 1000,
        parts_ended_at=record.job.parts_ended_at,
        units_out=tuple(
            UnitsOut(resource=resource, units=lack.nodes, at=lack.at, detail=lack.detail)
            for resource, lack in record.owners.nodes_out.items()
            if lack.nodes and record.state == "commit"
        ),
        series=record.spec.series.id if record.spec.series is not None else "",
        occurrence=record.spec.series.name if record.spec.series is not None else "",
        booked_by=record.spec.deputy,
        given_by=record.spec.heir_of if reserved else "",
        problem=record.problem,
    )


def _claims(
    record: Record, wants: Sequence[Want], reserved: bool, confirmed: frozenset[str] | None
) -> Iterator[ClaimView]:
    for want in wants:
        site, _ = split_resource(want.resource)
        done = record.done if confirmed is None else site in confirmed
        yield ClaimView(
            resource=want.resource, start=want.start, end=want.end, units=want.units,
            confirmed=reserved and done,
        )  # fmt: skip


def _placed(job: JobFacts) -> PlacedJob | None:
    """Return where the job is, and how it has ended."""
    place = job.place
    return replace(place, ended=job.ended) if place is not None and job.ended is not None else place


def text_of_job(term: Term, ways: Sequence[str] = ()) -> str:
    """Return what a job asks for, as lists tell it; `ways` are the names of its implementations."""
    if not ways:
        if term.attributes:
            return f"job on {format_term(term)}"
        return f"job on any machine, {term.units} node{'s' if term.units > 1 else ''}"
    where = format_term(replace(term, units=1)) if term.attributes else "any machine"
    named = " or ".join(ways) if len(ways) <= WAYS_NAMED else f"one of {len(ways)} implementations"
    return f"job on {where} as {named}"


def problem_of(error: KalendsError, rid: str) -> Problem:
    error.request_id = rid
    return error.to_problem()
