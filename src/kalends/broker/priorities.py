"""How much priority a user may give their own requests.

A request of priority p counts in every line as if it had been made p minutes earlier (later, where p
is negative). So priority orders those who ask at about the same time, and nobody waits for ever for
others of higher priority: who asked long enough ago is first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kalends.calendars import is_meant
from kalends.core.principals import Principal


class PriorityGrant(NamedTuple):
    """`who` (``everyone``, ``user:NAME``, ``group:NAME``) may ask for a priority of up to `max`."""

    who: str
    max: int


def granted_priority(grants: Sequence[PriorityGrant], principal: Principal, asked: int) -> int:
    """`asked`, or the most that `principal` may have: by the first grant that means them, else 0.

    To stand back is always allowed.
    """
    return min(asked, _most(grants, principal))


def _most(grants: Sequence[PriorityGrant], principal: Principal) -> int:
    return next((grant.max for grant in grants if is_meant(grant.who, principal)), 0)
