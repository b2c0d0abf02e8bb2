"""Calls about the sites of a broker: owners announce them, operators add, list and remove them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import SiteName

CARD_CHARACTERS_MAX: Final = 48_000
"""Room for some certificates of an authority."""

Card = Annotated[str, Meta(max_length=CARD_CHARACTERS_MAX)]
CardKey = Annotated[str, Meta(max_length=64)]


class AnnounceSite(Body, frozen=True, kw_only=True):
    """Show the card of `site` to the operators of a broker, who may add it.

    The card of a site that was added already, by the same key, gives it the addresses of the card at once.
    """

    site: SiteName
    card: Card


class AddSite(Body, frozen=True, kw_only=True):
    """Add `site` by its `card`, or, without one, by the card with which it was announced.

    `key` is the id of the key that the owner says has signed the card; it is needed without a card.
    """

    site: SiteName
    key: CardKey = ""
    card: Card = ""


class RemoveSite(Body, frozen=True, kw_only=True):
    """Book nothing more at `site`, and forget it once all that was booked there has ended.

    Of a site that was only announced, forget the cards that `key` has signed ("": all).
    """

    site: SiteName
    key: CardKey = ""


class ListBrokerSites(Body, frozen=True, kw_only=True):
    pass


class BrokerSiteView(Answer, frozen=True, kw_only=True):
    """A site of a broker at `url`; `up`: it is connected, or `detail` says why not.

    A site is "configured" in the broker's file; all others have cards, signed by `key`. User `named_by` has
    announced, added or removed it, at `since` (seconds UTC). A site that is "leaving" is forgotten once its
    last `reservations` have ended, which is not before `until`.
    """

    site: str
    url: str
    state: Literal["configured", "announced", "joined", "leaving"]
    up: bool = False
    detail: str = ""
    key: str = ""
    passes: bool = True
    since: int = 0
    named_by: str = ""
    until: int = 0
    reservations: int = 0


class BrokerSites(Answer, frozen=True, kw_only=True):
    sites: tuple[BrokerSiteView, ...]
