"""The rights that shares give to users about reservations of others. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kalends.broker.desk.request_queries import Right
from kalends.broker.register.writes import ShareRow
from kalends.contract.request_views import SharedWith, SharingView
from kalends.core.principals import Principal

_RANK: Final[dict[str, Right]] = {"change": "change", "take": "take", "look": "look"}
"""Rights, the strongest first. Whoever is offered a reservation may look at it."""


def parties_of(principal: Principal) -> tuple[str, ...]:
    """Return the names under which reservations may be shared with a user."""
    user = principal.user
    groups = (f"group:{group}" for group in principal.groups)
    return (f"user:{user}", f"heir:{user}", f"holder:{user}", *groups)


def right_of(shares: Iterable[ShareRow], principal: Principal, now_s: int) -> Right:
    """Return the strongest right that `shares` of one reservation give at `now_s`."""
    parties = parties_of(principal)
    given = {each.may for each in shares if each.party in parties and stands(each, now_s)}
    return next((right for may, right in _RANK.items() if may in given), "")


def offer_to(shares: Iterable[ShareRow], principal: Principal, now_s: int) -> ShareRow | None:
    """Return the offer to a user that stands at `now_s`; the right to change hides it."""
    party = f"heir:{principal.user}"
    return next((each for each in shares if each.party == party and stands(each, now_s)), None)


def stands(share: ShareRow, now_s: int) -> bool:
    """Whether a share lasts at `now_s`: an offer lapses."""
    return not share.until or now_s < share.until


def view_for_user(shares: Iterable[ShareRow], user: str, now_s: int) -> SharingView | None:
    """Return what `user` sees of their shares of a reservation, not of others'; None for nothing."""
    lasting = [
        each for each in shares if each.user == user and stands(each, now_s) and each.may != "hold"
    ]
    if not lasting:
        return None
    offer = next((each for each in lasting if each.may == "take"), None)
    return SharingView(
        parties=tuple(
            SharedWith(party=each.party, may=each.may, at=each.at)
            for each in lasting
            if each.may in ("look", "change")
        ),
        offered_to=offer.party.partition(":")[2] if offer is not None else "",
        offered_until=offer.until if offer is not None else 0,
        link=any(each.may == "read" for each in lasting),
    )
