"""Warrants: what the register proves to itself.

With each commit and each cancel a site is told what only the register can have made. A register that was
put back, and has forgotten its own word, believes it again when a site shows it; it believes nothing that it
never said. So no site can make a reservation, or end one, by claiming that it was decided.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kalends.broker.record import Record
from kalends.core import messages as m
from kalends.core import proofs

_CANCEL: Final = "cancel"


def of_commit(secret: str, site: str, record: Record) -> str:
    """For `site`: that `record` is committed as it is; `secret` is the register's."""
    what = _committed(record.secret, record.stamp, record.principal, record.replaces, record.chosen)
    return proofs.of_decision(secret, site, record.rid, record.att, what)


def of_cancel(secret: str, site: str, rid: str, att: int) -> str:
    """For `site`: that `rid`, once committed at `att`, is cancelled or replaced there."""
    return proofs.of_decision(secret, site, rid, att, _CANCEL)


def proves_commit(secret: str, site: str, kept: m.Kept) -> bool:
    """Whether what `site` keeps was committed, just as it says; its slots there are its own word."""
    derived = proofs.of_request(proofs.site_key(secret, site), kept.rid)
    own_secret = "" if proofs.same(kept.secret, derived) else kept.secret
    what = _committed(own_secret, kept.stamp, kept.principal, kept.replaces, kept.chosen)
    own = all(want.resource.startswith(f"{site}/") for want in kept.wants)
    whole = len(kept.wants) == len(kept.chosen.get(site, ())) > 0
    sense = all(want.start < want.end for want in kept.wants)
    true = proofs.of_decision(secret, site, kept.rid, kept.att, what)
    return own and whole and sense and proofs.same(kept.warrant, true)


def proves_cancel(secret: str, site: str, kept: m.Kept) -> bool:
    """Whether `site` was told to cancel what it says that it has cancelled."""
    return proofs.same(kept.warrant, of_cancel(secret, site, kept.rid, kept.att))


def _committed(
    secret: str, stamp: int, principal: m.Principal, replaces: str, chosen: m.Chosen
) -> str:
    holds = sorted((site, sorted(hold_ids)) for site, hold_ids in chosen.items())
    what = (secret, stamp, principal.user, principal.groups, replaces, holds)
    return msgspec.json.encode(what).decode()
