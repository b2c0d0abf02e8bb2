"""A site and the register compared, a page of requests at a time: pure.

A request only ever goes on: promised, locked, then cancelled or replaced. So of two that differ, the
one that is further is right, and the other has forgotten; it needs no guess which of them is older.

==================== ==================== =====================================================
the register has     the site has         what is done
==================== ==================== =====================================================
commit               nothing              the site has forgotten: it locks again (`Relock`)
commit               cancelled            the register has forgotten: it cancels, and tells all
commit, told to all  promised             nothing: the site asks, and is answered
cancelled, replaced  locked               the site has forgotten: it is told (`Cancel`)
open, closed, none   locked               the register has forgotten: it commits, as it was decided
==================== ==================== =====================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kalends.broker.record import Cancel, Record, Recover, Spec, encode_record
from kalends.core import messages as m
from kalends.core import proofs
from kalends.core.requests import Alternative, Request, Term


@dataclass(slots=True)
class Findings:
    """Of one page: what is to be told to the site and to the register; `waits`: look once more."""

    messages: list[m.Cancel | m.Relock] = field(default_factory=list)
    operations: list[Cancel | Recover] = field(default_factory=list)
    waits: bool = False


def compare(
    site: str,
    page: m.Compared,
    rows: Sequence[Record],
    urls: Mapping[str, str],
    coords: tuple[str, ...],
    key: str,
    now_ms: int,
) -> Findings:
    """What `site` keeps, beside the `rows` of the same requests that the register has.

    `urls` are the addresses of all sites, `coords` those of the broker's replicas; `key` is what proves
    requests at the site (`kalends.core.proofs`).
    """
    findings = Findings()
    kept = {each.rid: each for each in page.kept}
    by_rid = {row.rid: row for row in rows}
    for rid in sorted({*kept, *by_rid}):
        here, row = kept.get(rid), by_rid.get(rid)
        if here is None:
            assert row is not None
            if row.state == "commit" and _missing(site, row, page.horizon):
                _relock(findings, site, row, urls, coords, key)
        elif here.state == "locked":
            _locked_there(findings, here, row, by_rid, key, now_ms)
        elif here.state == "cancelled" and row is not None and row.state == "commit":
            row.told, row.done = row.done, False
            findings.operations.append(Cancel(rid, "", encode_record(row)))
        elif here.state == "promised" and row is not None and row.state in ("commit", "cancelled"):
            findings.waits = True
    return findings


def wants_at(site: str, wants: Sequence[m.Want]) -> tuple[m.Want, ...]:
    return tuple(want for want in wants if want.resource.startswith(f"{site}/"))


def _missing(site: str, row: Record, horizon: int) -> bool:
    wants = wants_at(site, row.wants)
    return bool(row.chosen.get(site)) and any(want.end > horizon for want in wants)


def _relock(
    findings: Findings,
    site: str,
    row: Record,
    urls: Mapping[str, str],
    coords: tuple[str, ...],
    key: str,
) -> None:
    secret = row.secret or proofs.of_request(key, row.rid)
    parts = tuple(m.Part(name, urls.get(name, "")) for name in sorted(row.chosen))
    findings.messages.append(
        m.Relock(
            rid=row.rid, att=row.att, stamp=row.stamp, principal=row.principal, secret=secret,
            wants=wants_at(site, row.wants), chosen=row.chosen, parts=parts, need=len(parts),
            coords=coords,
        )
    )  # fmt: skip


def _locked_there(
    findings: Findings,
    here: m.Kept,
    row: Record | None,
    rows: Mapping[str, Record],
    key: str,
    now_ms: int,
) -> None:
    if (
        row is None
        or row.state in ("open", "closed")
        or (row.state == "commit" and not set(here.wants) <= set(row.wants))
    ):
        findings.operations.append(Recover(_recovered(here, row, key, now_ms)))
    elif row.state == "cancelled":
        findings.messages.append(m.Cancel(rid=here.rid, att=here.att, secret=here.secret))
    elif row.state == "replaced":
        changes = [each for each in rows.values() if each.replaces == here.rid]
        if all(each.done for each in changes if each.state != "closed"):
            findings.messages.append(m.Cancel(rid=here.rid, att=here.att, secret=here.secret))
        else:
            findings.waits = True


def _recovered(here: m.Kept, row: Record | None, key: str, now_ms: int) -> Record:
    """The record of a commit that the register has forgotten, as the site's lock proves it."""
    if row is None:
        derived = proofs.same(here.secret, proofs.of_request(key, here.rid))
        row = Record(
            rid=here.rid, user=here.principal.user, groups=here.principal.groups,
            key=f"recovered:{here.rid}", digest="", stamp=here.stamp, owner="",
            reservation=here.rid, secret="" if derived else here.secret, created_ms=now_ms,
            spec=_spec_of(here.wants),
        )  # fmt: skip
    others = () if row.state != "commit" else tuple(w for w in row.wants if w not in here.wants)
    if row.state != "commit":
        row.done = False
    row.att, row.state = here.att, "commit"
    row.chosen, row.replaces, row.problem = here.chosen, here.replaces, None
    row.wants = tuple(sorted((*others, *here.wants), key=lambda want: (want.resource, want.start)))
    return row


def _spec_of(wants: Sequence[m.Want]) -> Spec:
    """What may have been asked: these very slots."""
    start = min(want.start for want in wants)
    terms = tuple(
        Term(
            resource=want.resource, units=want.units,
            offset_s=want.start - start, duration_s=want.end - want.start,
        )
        for want in wants
    )  # fmt: skip
    request = Request(
        alternatives=(Alternative(terms=terms),),
        duration_s=max(want.end - want.start for want in wants),
        not_before=start,
    )
    return Spec(request, wants=tuple(wants))
