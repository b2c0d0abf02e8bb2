"""Calls about calendar feeds: secret addresses at which calendar programs read a user's reservations."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.core import identifiers as ids

FeedName = Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))]


class ListFeeds(Body, frozen=True, kw_only=True):
    """List the caller's calendar feeds."""


class AddFeed(Body, frozen=True, kw_only=True):
    """Make a calendar feed of the caller's reservations under `name`.

    A feed that has this name gets another address, and its earlier address leads nowhere.
    """

    name: FeedName = "reservations"


class FeedRef(Body, frozen=True, kw_only=True):
    """One of the caller's calendar feeds."""

    name: FeedName = "reservations"


class FeedView(Answer, frozen=True, kw_only=True):
    """A calendar feed, with this address since `added_at` (seconds UTC).

    `address` is a secret, and only in the answer that made the feed: a URL, or a path at this server.
    """

    name: str
    added_at: int
    address: str = ""

    def __repr__(self) -> str:
        """Return text without the address, because a notebook stores its output."""
        return f"<feed {self.name}>"


class Feeds(Answer, frozen=True, kw_only=True):
    feeds: tuple[FeedView, ...]
