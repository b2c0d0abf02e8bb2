"""A site and the register compared, a page of requests at a time: pure.

A request only ever goes on: promised, locked, then cancelled or replaced. So of two that differ, the
one that is further is right, and the other has forgotten; it needs no guess which of them is older.
A site is believed to be further only where it shows the register's own word for it (`warrants`).

==================== ==================== =====================================================
the register has     the site has         what is done
==================== ==================== =====================================================
commit               nothing              the site has forgotten: it locks again (`Relock`); it is named
                                          where the register does not know what was reserved there, either
cancelled, not told  nothing              it locks again: else it could not be told of the cancel
ended in use: by a   nothing              it locks again what was used, beyond what took its place, and the
cancel, or a change                       next pass tells it of the end: used time counts against limits
commit               cancelled, proved    the register has forgotten: it cancels, and tells all
open, closed, none   cancelled, proved    of a change: what it replaced stands no more; else nothing
commit, told to all  promised             nothing: the site asks, and is answered
closed, or open at   promised             it is told the abort: what it reserves is free before others
a higher attempt                          are charged
cancelled, replaced  anything             it has the charge, and the refund, as they were told (`Recharge`)
cancelled, replaced  locked               the site has forgotten: it is told (`Cancel`)
open, closed, none   locked, proved       the register has forgotten: it commits, as it was decided
further behind       not proved           nothing: it is named, for people to look at
==================== ==================== =====================================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    COMMITTED,
    Cancel,
    Record,
    Recover,
    Spec,
    encode_record,
)
from kalends.broker.coordination.trust import warrants
from kalends.broker.coordination.trust.cost_checks import complaint_about_cost
from kalends.calendars.profiles import total
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.calls import LostReservation
from kalends.contract.costs import NOT_TOLD
from kalends.core.identifiers import machine_of
from kalends.core.requests import Alternative, Request, Term

NO_PROOF: Final = "the site reports that it is {state} there, but cannot prove it"
_ENDS: Final = frozenset({"cancelled", "ended", "changed"})
"""The events after which nothing more of a reservation was used."""

FORGOTTEN: Final = "register and site have both forgotten the slots reserved there"


class Ours(NamedTuple):
    """The broker's side: the register's `secret`, all sites' addresses, and the replicas' (`coords`)."""

    secret: str
    urls: Mapping[str, str]
    coords: tuple[str, ...]


@dataclass(slots=True)
class Findings:
    """Findings of one page: messages for the site and changes of the register.

    `waits` are reservations that are on their way, and have to be looked at once more; `unproved` cannot be
    mended, for one side or the other is wrong.
    """

    messages: list[m.Cancel | m.Relock | m.Recharge | m.Decide] = field(default_factory=list)
    operations: list[Cancel | Recover] = field(default_factory=list)
    unproved: list[LostReservation] = field(default_factory=list)
    waits: set[str] = field(default_factory=set)


def compare(
    site: str,
    page: m.Compared,
    rows: Sequence[Record],
    ours: Ours,
    now_ms: int,
    changes: Mapping[str, Record] = MappingProxyType({}),
) -> Findings:
    """What `site` keeps, beside the `rows` of the same requests that the register has.

    `changes` are those that took the place of replaced rows, by the ids of these.
    """
    findings = Findings()
    kept = {each.rid: each for each in page.kept}
    by_rid = {row.rid: row for row in rows}
    for rid in sorted({*kept, *by_rid}):
        here, row = kept.get(rid), by_rid.get(rid)
        if row is not None and (recharge := _recharge(site, row, ours, changes.get(rid))):
            findings.messages.append(recharge)
        if here is None:
            assert row is not None
            if row.state == "commit" and _is_partial(site, row):
                findings.unproved.append(_named(site, row, FORGOTTEN))
            else:
                row = row if _is_told(row) else _as_used(row, changes.get(rid))
                if _missing(site, row, page.horizon):
                    findings.messages.append(_relock(site, row, ours))
        elif here.state == "locked":
            _locked_there(findings, site, here, row, by_rid, kept.keys(), ours, now_ms)
        elif here.state == "cancelled":
            _cancelled_there(findings, site, here, row, ours, now_ms)
        elif here.state == "promised" and row is not None and row.state in COMMITTED:
            findings.waits.add(row.reservation)
        elif here.state == "promised" and row is not None and _is_dead(here.att, row):
            # What it reserves is free before anything else is charged.
            abort = m.Decide(rid=rid, att=here.att, secret=here.secret, outcome="abort")
            findings.messages.append(abort)
    return findings


def wants_at(site: str, wants: Sequence[m.Want]) -> tuple[m.Want, ...]:
    return tuple(want for want in wants if want.resource.startswith(f"{site}/"))


def _is_told(row: Record) -> bool:
    """Whether sites are told of a commit: before a cancel is told, each of them must have locked it."""
    return row.state == "commit" or (row.state == "cancelled" and not (row.done or row.told))


def _as_used(row: Record, change: Record | None) -> Record:
    """Return `row` with the time used before its cancel, or its `change`, as its slots; else with none."""
    trail, instead = row.trail, row.wants[:0]
    if row.state == "replaced" and change is not None:
        trail, instead = change.trail, change.wants
    elif row.state != "cancelled":
        trail = ()
    ends = [each.at_ms // 1000 for each in trail if each.kind in _ENDS]
    used = _used(row.wants, instead, max(ends, default=0))
    return structs.replace(row, wants=tuple(used))


def _used(wants: Sequence[m.Want], instead: Sequence[m.Want], until_s: int) -> Iterator[m.Want]:
    """Yield what of `wants` had passed by `until_s`, beyond what is had `instead` of them."""
    for resource in dict.fromkeys(want.resource for want in wants if not machine_of(want.resource)):
        old = [want for want in wants if want.resource == resource and want.start < until_s]
        spans = [(want.start, want.end, want.units) for want in old]
        spans += [
            (each.start, each.end, -each.units) for each in instead if each.resource == resource
        ]
        first = min((want.start for want in old), default=until_s)
        for start, end, units in total(spans, first, until_s):
            if units > 0:
                yield m.Want(resource, start, end, units)


def _is_dead(att: int, row: Record) -> bool:
    return row.state == "closed" or (row.state == "open" and row.att > att)


def _recharge(site: str, row: Record, ours: Ours, change: Record | None) -> m.Recharge | None:
    """Return the entries of an ended reservation for the ledger of the site; None if nothing was charged."""
    cost = row.costs.get(site)
    if cost is None:
        return None
    if row.state == "cancelled" and (row.done or row.told):
        refund = row.refunds.get(site, NOT_TOLD)
    elif row.state == "replaced" and change is not None and site in change.costs:
        refund = change.costs[site].back
    else:
        return None
    secret = proofs.of_request(proofs.site_key(ours.secret, site), row.rid)
    return m.Recharge(
        rid=row.rid, att=row.att, secret=secret, principal=row.principal, cost=cost, refund=refund,
        at=row.cancelled_at, reclaimed=row.reclaimed,
    )  # fmt: skip


def _missing(site: str, row: Record, horizon: int) -> bool:
    wants = wants_at(site, row.wants)
    return bool(row.chosen.get(site)) and any(want.end > horizon for want in wants)


def _relock(site: str, row: Record, ours: Ours) -> m.Relock:
    keys = {name: proofs.site_key(ours.secret, name) for name in row.chosen}
    parts = tuple(m.Part(name, ours.urls.get(name, "")) for name in sorted(row.chosen))
    return m.Relock(
        rid=row.rid, att=row.att, stamp=row.stamp, principal=row.principal,
        secret=proofs.of_request(keys[site], row.rid),
        wants=wants_at(site, row.wants), chosen=row.chosen, parts=parts, need=len(parts),
        coords=ours.coords,
        proofs={
            name: proofs.of_commit(keys[name], row.rid, row.att, hold_ids)
            for name, hold_ids in row.chosen.items()
            if name != site
        },
        warrant=warrants.of_commit(ours.secret, site, row),
        replaces=row.replaces,
        cost=row.costs.get(site),
    )  # fmt: skip


def _cancelled_there(
    findings: Findings, site: str, here: m.Kept, row: Record | None, ours: Ours, now_ms: int
) -> None:
    """A change that was cancelled had replaced something, which stands no more either."""
    line = warrants.proves_cancel(ours.secret, site, here)
    if row is not None and row.state == "commit":
        if line is None:
            findings.unproved.append(_unproved(site, here, row))
            return
        row.told, row.done = row.done, False
        findings.operations.append(Cancel(here.rid, "", encode_record(row)))
    elif (row is None or row.state in ("open", "closed")) and line is not None and line.changes:
        recovered = _recovered(site, here, line, row, now_ms)
        recovered.state, recovered.done = "cancelled", True
        if here.refund != NOT_TOLD:
            recovered.refunds = {**recovered.refunds, site: here.refund}
        findings.operations.append(Recover(recovered))


def _locked_there(
    findings: Findings,
    site: str,
    here: m.Kept,
    row: Record | None,
    rows: Mapping[str, Record],
    kept: Collection[str],
    ours: Ours,
    now_ms: int,
) -> None:
    if row is None or row.state in ("open", "closed") or _is_partial(site, row):
        line = warrants.proves_commit(ours.secret, site, here)
        if line is not None:
            findings.operations.append(Recover(_recovered(site, here, line, row, now_ms)))
        else:
            findings.unproved.append(_unproved(site, here, row))
    elif not row.chosen.get(site):
        findings.unproved.append(_unproved(site, here, row))
    elif row.state == "cancelled":
        findings.messages.append(_cancel(site, here, row, ours))
    elif row.state == "replaced":
        if not any(_comes(site, each, kept) for each in rows.values() if each.replaces == here.rid):
            findings.messages.append(_cancel(site, here, row, ours))
        else:
            findings.waits.add(row.reservation)


def _comes(site: str, change: Record, kept: Collection[str]) -> bool:
    """Whether `change` is still told, and takes the place of what it has replaced by itself.

    Where `site` has forgotten the change, nothing comes: both would wait for each other for ever.
    """
    forgotten = site in change.chosen and change.rid not in kept
    return change.state != "closed" and not change.done and not forgotten


def _is_partial(site: str, row: Record) -> bool:
    """Whether `row` was recovered from other sites, and what was chosen at `site` is not in it yet."""
    return row.state == "commit" and site in row.chosen and not wants_at(site, row.wants)


def _cancel(site: str, here: m.Kept, row: Record, ours: Ours) -> m.Cancel:
    warrant = warrants.of_cancel(ours.secret, site, structs.replace(row, att=here.att))
    return m.Cancel(
        rid=here.rid,
        att=here.att,
        secret=here.secret,
        warrant=warrant,
        at=row.cancelled_at,
        reclaimed=row.reclaimed,
    )


def _unproved(site: str, here: m.Kept, row: Record | None) -> LostReservation:
    why = NO_PROOF.format(state=here.state)
    if row is not None and row.wants:
        return _named(site, row, why)
    user = row.user if row is not None else here.principal.user
    own = wants_at(site, here.wants)
    return LostReservation(id=here.rid, user=user, wants=own, blockers=(why,))


def _named(site: str, row: Record, why: str) -> LostReservation:
    own = wants_at(site, row.wants)
    return LostReservation(id=row.reservation, user=row.user, wants=own, blockers=(why,))


def _recovered(
    site: str, here: m.Kept, line: warrants.Line, row: Record | None, now_ms: int
) -> Record:
    """The record of a commit that the register has forgotten, as the site proves it.

    What the site has charged is its own word: a cost of anything but these slots is left out.
    """
    if row is None:
        row = Record(
            rid=here.rid, user=here.principal.user, groups=here.principal.groups,
            key=line.key, digest="", stamp=here.stamp, owner="",
            reservation=line.reservation, changes=line.changes, spec=_spec_of(here.wants),
            created_ms=now_ms,
        )  # fmt: skip
    others = () if row.state != "commit" else row.wants
    if row.state != "commit":
        row.done, row.costs = False, {}
    if here.cost and not complaint_about_cost(here.cost, here.wants, changes=bool(here.replaces)):
        row.costs = {**row.costs, site: here.cost}
    row.att, row.state = here.att, "commit"
    row.chosen, row.replaces, row.problem = here.chosen, here.replaces, None
    row.wants = tuple(sorted((*others, *here.wants), key=lambda want: (want.resource, want.start)))
    return row


def _spec_of(wants: Sequence[m.Want]) -> Spec:
    """The request as it may have been: these very slots."""
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
