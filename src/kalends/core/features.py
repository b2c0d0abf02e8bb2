"""Features: additions to the wire since its base version, and the marks that name them in types.

Servers of different owners are upgraded at different times. When a session opens, both sides agree on the
features that both know (`kalends.contract.versions`); the others are not sent (`kalends.contract.agreement`).
So every addition to a message is marked with its feature:

- a field: ``Annotated[bool, since(SHARES)] = False``. A peer without the feature gets no message in which the
  field differs from its default. With ``hint=True`` the peer gets the message without the field;
- a word of a `Literal`: ``Literal["yes", "no"] | Annotated[Literal["later"], since(SHARES)]``. With
  ``instead="no"`` the peer gets that word;
- a message, or a struct in one: ``SINCE: ClassVar = SHARES`` in its class;
- a field of a frame: as any field; but frames are made by hand, so both links have to leave it out.

Fields and words without a mark belong to the base version, which every supported server knows: that of the
first release.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Meta


class Feature(NamedTuple):
    """A feature: `name` is used on the wire, and never changes; `words` describe it to people."""

    name: str
    words: str


BID_HINTS: Final = Feature(
    "bid-hints",
    "ends of drains, winners of bids, price and load of places, ways to run a job and its rank",
)
CANCELS: Final = Feature("reclaim-cancels", "owners that cancel reservations and do not move them")
BUFFERS: Final = Feature(
    "buffers", "times that owners keep free around bookings, and resources that come together"
)
PRICES: Final = Feature("prices", "prices and payment")
SHARING: Final = Feature("sharing", "reservations that are handed over to another user")
SPLITS: Final = Feature("splits", "jobs that a virtual site splits over its members")

FEATURES: Final[tuple[Feature, ...]] = (BID_HINTS, CANCELS, PRICES, BUFFERS, SHARING, SPLITS)
"""All features that this version knows, the oldest first. Peers that report none have none."""

REQUIRED: Final[tuple[Feature, ...]] = ()
"""Features that every peer must have. Their marks may be removed: they are part of the base then."""


class Since(NamedTuple):
    """The mark of a field or of a word; see the module."""

    feature: Feature
    hint: bool = False
    instead: str = ""


def since(feature: Feature, *, hint: bool = False, instead: str = "") -> Meta:
    """Return the mark of a field or word that was added with `feature`."""
    return Meta(extra={MARK: Since(feature, hint, instead)})


MARK: Final = "since"
"""Key of the marks in msgspec's extra data of a type."""
