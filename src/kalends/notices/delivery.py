"""A delivery: one notice to one address."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kalends.core.full_times import date_and_time

MAIL: Final = "mail"
"""The way of all deliveries that go by mail: through one relay."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A text for `user` at the address `to`: ``name@host``, or the URL of a webhook.

    Receivers drop repeated ones by `id`. `facts` is `text` for programs. `made_s` is
    in seconds UTC.
    """

    id: str
    user: str
    to: str
    subject: str
    text: str
    facts: dict[str, Any]
    made_s: int

    @property
    def way(self) -> str:
        """The way of the delivery: an obstacle for one delivery of this way is one for all."""
        if "://" not in self.to:
            return MAIL
        scheme, _, rest = self.to.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"


class FailedTry(NamedTuple):
    """Reason why a try failed: the delivery is refused for good, or for now, or its way is blocked."""

    kind: Literal["refused", "later", "blocked"]
    why: str


def delivery_id(delivery: Delivery) -> str:
    """Return what the same delivery is called each time it is sent, in plain characters."""
    return hashlib.sha256(delivery.id.encode()).hexdigest()[:32]


def utc_text(time_s: int) -> str:
    """Return a time as deliveries tell it: their readers may be anywhere."""
    shown = datetime.fromtimestamp(time_s, UTC)
    return f"{shown:%a} {date_and_time(shown)} UTC"


def one_line(text: str) -> str:
    """Return `text` without line ends and other characters that cannot be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
