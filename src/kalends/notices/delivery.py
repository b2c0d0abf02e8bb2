"""A delivery: one notice to one address."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kalends.contract.calendar_files import CalendarEntry
from kalends.core.conversion import UNREADABLE
from kalends.core.full_times import date_and_time

MAIL: Final = "mail"
"""The way of all deliveries that go by mail: through one relay."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A text for `user` at the address `to`: ``name@host``, or the URL of a webhook.

    Receivers drop repeated ones by `id`. `facts` is `text` for programs. `made_s` is
    in seconds UTC. `events` are invitations that go with mail, or take one back.
    """

    id: str
    user: str
    to: str
    subject: str
    text: str
    facts: dict[str, Any]
    made_s: int
    events: tuple[CalendarEntry, ...] = ()

    @property
    def way(self) -> str:
        """The way of the delivery: an obstacle for one delivery of this way is one for all."""
        if "://" not in self.to:
            return MAIL
        scheme, _, rest = self.to.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"


class DeliveriesDone(NamedTuple):
    """To be stored: the deliveries with these ids are sent, or given up."""

    ids: tuple[str, ...]


class StoredDeliveries(NamedTuple):
    """Deliveries that wait, in the order in which each was first stored."""

    deliveries: list[Delivery]
    unreadable: list[str]
    """The ids of those that cannot be read."""


def read_deliveries(rows: Iterable[tuple[str, bytes]]) -> StoredDeliveries:
    """Return what `rows` of ids and bodies hold."""
    found = StoredDeliveries([], [])
    for name, body in rows:
        try:
            found.deliveries.append(msgspec.msgpack.decode(body, type=Delivery))
        except UNREADABLE:
            found.unreadable.append(name)
    return found


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
