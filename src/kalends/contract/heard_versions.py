"""What servers that are asked by single calls, without a session, have said of their versions.

Until one has answered it is taken for one of the base version; so is one that has refused a question, for it
may have been put back to an older version since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from kalends.contract.agreement import fitted
from kalends.contract.versions import BASE, ServerVersion, version_in
from kalends.core.errors import InvalidInput
from kalends.core.features import Feature

SERVERS_MAX: Final = 10_000
"""Addresses that are remembered; beyond it the oldest are forgotten."""

T = TypeVar("T", bound=msgspec.Struct)


class HeardVersions:
    """By address; `ours` is our own version."""

    def __init__(self, ours: ServerVersion) -> None:
        self.ours = ours
        self._heard: dict[str, ServerVersion] = {}

    def fitted(self, url: str, question: T) -> T | Feature:
        """Return `question` as it is said to the server at `url`; or the feature that this lacks."""
        return fitted(question, self.ours.features & self._heard.get(url, BASE).features)

    def heard(self, url: str, status: int, headers: Mapping[str, str]) -> None:
        """The server at `url` has answered with this status, and these headers."""
        self._heard.pop(url, None)
        if status == 400:
            return
        try:
            self._heard[url] = version_in(headers)
        except InvalidInput:
            return
        if len(self._heard) > SERVERS_MAX:
            del self._heard[next(iter(self._heard))]
