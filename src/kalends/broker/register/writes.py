"""Writes that a register takes, and their results.

A register carries out writes in the order in which they were submitted, whatever it is stored in.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kalends.broker.coordination.record.decision_record import Operation, Registered, Remember
from kalends.broker.reconciliation.recognition import Live
from kalends.core.errors import Problem
from kalends.notices.delivery import DeliveriesDone, Delivery
from kalends.notices.request_notice import RequestNotice


class Named(NamedTuple):
    """A script by one of its names; `functions` are those of ``choose`` and ``recall`` it defines."""

    name: str
    script: str
    size_bytes: int
    functions: tuple[str, ...]
    uploaded_ms: int


class NoticeAddress(NamedTuple):
    """Address of `user`: `receiver` as it was asked for, times in `zone`; webhooks have a `secret`.

    Reminders come `remind_s` before a reservation begins, if that is not 0. All that were due up to
    `reminded_at` are posted.
    """

    user: str
    receiver: str
    zone: str
    added_at: int
    secret: bytes = b""
    remind_s: int = 0
    reminded_at: int = 0


class KeepAddress(NamedTuple):
    """Take the address, in place of the same one; the result is 0 where its user has `count_max` others."""

    address: NoticeAddress
    count_max: int


class Remind(NamedTuple):
    """Post reminders to `address` of requests that are still committed: all that were due up to `until`.

    The result is 0, and nothing is done, if the address has changed since it was read.
    """

    address: NoticeAddress
    until: int
    notices: tuple[tuple[str, RequestNotice], ...]
    """With the rid of the request that each is about."""


class ForgetAddress(NamedTuple):
    """The result is how many were forgotten."""

    user: str
    receiver: str


class Feed(NamedTuple):
    """A calendar feed of `user` under one of their names; `hash` is that of the secret in its address."""

    user: str
    name: str
    hash: str
    added_at: int


class KeepFeed(NamedTuple):
    """Take the feed, in place of that with its name; the result is 0 if its user has `count_max` others."""

    feed: Feed
    count_max: int


class ForgetFeed(NamedTuple):
    """The result is how many were forgotten."""

    user: str
    name: str


class ShareRow(NamedTuple):
    """The right of `party` to a reservation, given by `user` at `at` (seconds UTC).

    A party is ``user:NAME`` or ``group:NAME``, who look at it or change it; ``heir:USER``, who may take it
    over until `until`; ``holder:USER``, who has done so; or ``link:HASH``, whoever knows the secret of that
    hash.
    """

    reservation: str
    party: str
    may: Literal["look", "change", "take", "hold", "read"]
    user: str
    at: int
    until: int = 0


class KeepShare(NamedTuple):
    """Store it, in place of that of its party; the result is 0 where the reservation has `count_max` others.

    The result is -1 if the reservation was handed over to another user than the one who shares it.

    One user at a time may take a reservation over, and one link reads it: a new one replaces the earlier.
    """

    share: ShareRow
    count_max: int


class ForgetShare(NamedTuple):
    """The result is how many were forgotten."""

    reservation: str
    party: str


class PostNotice(NamedTuple):
    """Store a notice that belongs to no other stored change."""

    notice: RequestNotice


class MakeDeliveries(NamedTuple):
    """The notices with these numbers become these deliveries. The result: 1, or 0 if another made some."""

    numbers: tuple[int, ...]
    deliveries: tuple[Delivery, ...]


class ListedSite(NamedTuple):
    """A site that is not in the configuration of the broker, since `since` (seconds UTC), by user `named_by`.

    `key` is the id of the key that signed its card, at `made_at`; "": the site was configured, and is
    leaving. `ca` are certificates in PEM form that sign its own ("": as for others). At `until` it is looked
    up what is still booked at a site that is leaving.
    """

    name: str
    key: str
    url: str
    ca: str
    passes: bool
    made_at: int
    state: Literal["announced", "joined", "leaving"]
    since: int
    named_by: str
    until: int = 0

    def with_card_of(self, other: ListedSite) -> ListedSite:
        """Return this site as the card of `other` describes it."""
        return self._replace(url=other.url, ca=other.ca, passes=other.passes, made_at=other.made_at)


class KeepCard(NamedTuple):
    """Store the card of a site that was announced, or the newer one of a site that has joined."""

    site: ListedSite


class JoinSite(NamedTuple):
    site: ListedSite


class LeaveSite(NamedTuple):
    site: ListedSite


class UnlistSite(NamedTuple):
    """Forget a site that stands so."""

    name: str
    key: str
    state: Literal["announced", "leaving"]
    until: int = 0


class LeaseRenewal(NamedTuple):
    """Show that `owner` lives; no logical time above `clock` is given out before the next one."""

    owner: str
    clock: int


class Retire(NamedTuple):
    """The earlier starts of replica `name` are gone; `owner` is the present one."""

    name: str
    owner: str


class Resign(NamedTuple):
    """`owner` stops."""

    owner: str


class KeepScript(NamedTuple):
    """Let `named.name` stand for this source; the result has the name as it stands now, or nothing."""

    client: str
    named: Named
    source: str
    names_max: int


class ForgetScript(NamedTuple):
    """Names to delete: `reference` is a name, or a hash for all its names. The result has what is deleted."""

    client: str
    reference: str


class PutBack(NamedTuple):
    """Take no new requests, and give up none, until `MadeGood`."""


class MadeGood(NamedTuple):
    """Go on: what sites remember of the register is `known`, and open requests fail with `problem`.

    The result is how many these were; None if another replica has done it.
    """

    known: tuple[Live, ...]
    problem: Problem


class ForgetSettled(NamedTuple):
    """Take out those requests of which nothing is left to tell; the result is how many."""

    rids: tuple[str, ...]


SiteWrite = KeepCard | JoinSite | LeaveSite | UnlistSite
FeedWrite = KeepFeed | ForgetFeed
ShareWrite = KeepShare | ForgetShare
NoticeWrite = KeepAddress | ForgetAddress | Remind | PostNotice | MakeDeliveries | DeliveriesDone

Write = (
    Operation
    | Remember
    | LeaseRenewal
    | Retire
    | Resign
    | Live
    | PutBack
    | MadeGood
    | KeepScript
    | ForgetScript
    | ForgetSettled
    | NoticeWrite
    | FeedWrite
    | ShareWrite
    | SiteWrite
)
Result = Registered | tuple[Named, ...] | int | None
