"""Addresses of others that a server calls, each checked before it is believed."""

from __future__ import annotations

from urllib.parse import urlsplit

from kalends.core.errors import InvalidInput
from kalends.serving.auth.callers import is_loopback


def check_fetched(url: str, where: str) -> None:
    """Raises `InvalidInput` unless `url` is https, or http on this host."""
    try:
        parts = urlsplit(url)
        fine = bool(parts.hostname) and not (parts.username or parts.fragment)
        fine = fine and (parts.scheme == "https" or (parts.scheme == "http" and is_here(url)))
    except ValueError:
        fine = False
    if not fine:
        raise InvalidInput(
            f"{url[:200]!a} is not where keys can be fetched",
            where=where,
            remedy="write an https:// address; http:// only for this host",
        )


def is_here(url: str) -> bool:
    """Return whether a URL names this host by its inner interface."""
    return is_loopback(urlsplit(url).hostname or "")
