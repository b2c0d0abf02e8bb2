"""Warrants: what the register proves to itself.

With each commit and each cancel a site is told what only the register can have made. A register that was
put back, and has forgotten its own word, believes it again when a site shows it; it believes nothing that it
never said. So no site can make a reservation, or end one, by claiming that it was decided.

The warrant of a change also says which reservation it changed, and how many changes there were by then: sites
know a change by an id of its own, and users by that of the reservation.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from kalends.broker.coordination.record.decision_record import Record
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.principals import Principal

_CANCEL: Final = "cancel"


class Line(NamedTuple):
    """The reservation that a record is of, and the number of changes up to it."""

    reservation: str
    changes: int


def of_commit(secret: str, site: str, record: Record) -> str:
    """For `site`: that `record` is committed as it is; `secret` is the register's."""
    what = _committed(record.stamp, record.principal, record.replaces, record.chosen)
    return _made(secret, site, record.rid, record.att, _line_of(record), what)


def of_cancel(secret: str, site: str, record: Record) -> str:
    """For `site`: that `record`, once committed, is cancelled or replaced there."""
    return _made(secret, site, record.rid, record.att, _line_of(record), _CANCEL)


def proves_commit(secret: str, site: str, kept: m.Kept) -> Line | None:
    """Whether what `site` keeps was committed, just as it says; its slots there are its own word."""
    derived = proofs.of_request(proofs.site_key(secret, site), kept.rid)
    what = _committed(kept.stamp, kept.principal, kept.replaces, kept.chosen)
    own = all(want.resource.startswith(f"{site}/") for want in kept.wants)
    whole = len(kept.wants) == len(kept.chosen.get(site, ())) > 0
    sense = all(want.start < want.end for want in kept.wants)
    if not (proofs.same(kept.secret, derived) and own and whole and sense):
        return None
    return _proved(secret, site, kept, what)


def proves_cancel(secret: str, site: str, kept: m.Kept) -> Line | None:
    """Whether `site` was told to cancel what it says that it has cancelled."""
    return _proved(secret, site, kept, _CANCEL)


def _line_of(record: Record) -> Line:
    return Line(record.reservation, record.changes)


def _made(secret: str, site: str, rid: str, att: int, line: Line, what: str) -> str:
    """The proof; of a change, its line too, which the proof is also of."""
    if line == Line(rid, 0):
        return proofs.of_decision(secret, site, rid, att, what)
    reservation, changes = line
    proof = proofs.of_decision(secret, site, rid, att, what, reservation, str(changes))
    return f"{proof}/{reservation}/{changes}"


def _proved(secret: str, site: str, kept: m.Kept, what: str) -> Line | None:
    _, _, words = kept.warrant.partition("/")
    reservation, _, changes = words.partition("/")
    line = Line(kept.rid, 0)
    if reservation:
        line = Line(reservation, int(changes) if changes.isdecimal() else 0)
    true = _made(secret, site, kept.rid, kept.att, line, what)
    return line if proofs.same(kept.warrant, true) else None


def _committed(stamp: int, principal: Principal, replaces: str, chosen: m.Chosen) -> str:
    holds = sorted((site, sorted(hold_ids)) for site, hold_ids in chosen.items())
    what = (stamp, principal.user, principal.groups, replaces, holds)
    return msgspec.json.encode(what).decode()
