"""Warrants: what the register proves to itself.

With each commit and each cancel a site is told what only the register can have made. A register that was
put back, and has forgotten its own word, believes it again when a site shows it; it believes nothing that it
never said. So no site can make a reservation, or end one, by claiming that it was decided.

A warrant also has the key of the user's call, so that the same call finds its request again. That of a
change says which reservation it changed, and how many changes there were by then: sites know a change by an
id of its own, and users by that of the reservation.
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
    """The reservation that a record is of, the number of changes up to it, and the key of the user's call."""

    reservation: str
    changes: int
    key: str


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
    return Line(record.reservation, record.changes, record.key)


def _made(secret: str, site: str, rid: str, att: int, line: Line, what: str) -> str:
    """The proof of `what` and of `line`, and the line; who has changed nothing is of itself."""
    reservation, changes, key = line
    proof = proofs.of_decision(secret, site, rid, att, what, reservation, str(changes), key)
    return "/".join((proof, "" if reservation == rid else reservation, str(changes), key))


def _proved(secret: str, site: str, kept: m.Kept, what: str) -> Line | None:
    _, reservation, changes, key = (*kept.warrant.split("/", 3), "", "", "")[:4]
    line = Line(reservation or kept.rid, int(changes) if changes.isdecimal() else 0, key)
    true = _made(secret, site, kept.rid, kept.att, line, what)
    return line if proofs.same(kept.warrant, true) else None


def _committed(stamp: int, principal: Principal, replaces: str, chosen: m.Chosen) -> str:
    holds = sorted((site, sorted(hold_ids)) for site, hold_ids in chosen.items())
    what = (stamp, principal.user, principal.groups, replaces, holds)
    return msgspec.json.encode(what).decode()
