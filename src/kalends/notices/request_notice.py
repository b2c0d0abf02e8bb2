"""A notice: a change of a request by another, for its user."""

from __future__ import annotations

from typing import Literal

import msgspec

from kalends.contract.fields import Want

Occasion = Literal[
    "moved", "shortened", "cancelled", "recalled", "came", "gave-up", "placed-elsewhere", "not-placed",
    "approved", "not-approved", "nodes-out", "nodes-back",
    "test",
]  # fmt: skip
"""What users are told of.

``came``: what a request was on waiting lists for is reserved, or held. ``gave-up``: it was not, in time.
``approved``: the owners have approved it, and it is reserved. ``not-approved``: one has declined, or said
nothing in time. ``not-placed``: a job was to leave its site, and there is no other place for it.
``nodes-out``: units of a slot that has begun cannot be used. ``nodes-back``: all of them can be used again.
"""


class RequestNotice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be told to `user` about `request`, the id that users see. One event has one `id`.

    `by` and `reason` are those of whoever has done it; `slots` is what the request has now, and `was` what
    it had. `until` is when what is held is lost, `at_s` when it happened (seconds UTC). `place` is where a
    job is, `asked` what was asked for, and `to` the only address that is told ("": all of the user's).
    """

    id: str
    user: str
    occasion: Occasion
    at_s: int
    request: str = ""
    asked: str = ""
    note: str = ""
    by: str = ""
    reason: str = ""
    slots: tuple[Want, ...] = ()
    was: tuple[Want, ...] = ()
    until: int = 0
    place: str = ""
    to: str = ""
