"""The members of a virtual site: where they are, what is handed on to them, and what cannot be."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from yarl import URL

from kalends.contract.paths import WAY_HEADER
from kalends.contract.versions import VERSION_HEADERS
from kalends.core import limits
from kalends.core.errors import Conflict, NotAuthenticated, NotFound, Unavailable
from kalends.rim.broken_connections import broken_words
from kalends.serving.auth.callers import GROUPS_HEADER, USER_HEADER, asked_on_loopback
from kalends.serving.auth.peer_auth import trust_for
from kalends.serving.configuration import VirtualConfiguration
from kalends.serving.logs import Logger

ASKED: Final = ("Accept", "Authorization", "Content-Type", *VERSION_HEADERS)
"""Headers that are handed on; all others are between two servers alone."""

WAY_CHARS_MAX: Final = 200


class Members:
    """The members of the virtual site of `configuration`.

    Without keys everybody here is on this host, and who they say they are. Raises `InvalidInput` for files of
    certificates that cannot be used.
    """

    def __init__(self, configuration: VirtualConfiguration, logger: Logger) -> None:
        members = configuration.members
        self.name = configuration.name
        self.urls = {each.name: each.url.rstrip("/") for each in members}
        self.trust: Mapping[str, ssl.SSLContext | bool] = {
            each.name: trust_for(configuration.calls, each.ca, f"virtual.members.{each.name}.ca")
            for each in members
        }
        self._access_is_open = not configuration.keys
        self._logger = logger
        self._reasons: dict[str, str] = {}
        """Why a member could not be reached at the last attempt, by its name."""

    def url(self, request: web.Request) -> tuple[str, URL]:
        """Return the member that a request is for, and where it goes; raises `NotFound`."""
        member = request.match_info["member"]
        if member not in self.urls:
            raise NotFound(
                f"{self.name} has no member {member[:63]!a}",
                where="member",
                remedy=f"its members are {', '.join(self.urls)}",
            )
        rest = request.match_info["rest"].split("/")
        if (rest[0] != "v1" and rest != ["healthz"]) or not {"", ".", ".."}.isdisjoint(rest):
            raise NotFound("no such path", where=member)
        url = URL(self.urls[member]).joinpath(*rest)
        query = request.rel_url.raw_query_string
        return member, URL(f"{url}?{query}", encoded=True) if query else url

    def headers(self, request: web.Request) -> dict[str, str]:
        """Return what is handed on of a request's headers; raises `Conflict` and `NotAuthenticated`."""
        headers = {name: value for name in ASKED if (value := request.headers.get(name))}
        users = {
            name: value
            for name in (USER_HEADER, GROUPS_HEADER)
            if (value := request.headers.get(name))
        }
        # Who has come from outside is not believed at members that believe everybody on their host.
        if self._access_is_open and asked_on_loopback(request.headers):
            headers |= users
        elif users and "Authorization" not in headers:
            raise NotAuthenticated(
                f"{self.name} passes on tokens, but not names without a token",
                where=USER_HEADER,
                remedy="use a token of the member, or a virtual site without keys by its loopback address",
            )
        headers[WAY_HEADER] = self._way(request)
        headers["Accept-Encoding"] = "identity"
        return headers

    def _way(self, request: web.Request) -> str:
        """Return the way so far, this virtual site included; raises `Conflict` for a circle."""
        said = request.headers.get(WAY_HEADER, "")[:WAY_CHARS_MAX]
        way = [*(each.strip() for each in said.split(",") if each.strip()), self.name]
        if len(set(way)) < len(way) or len(way) > limits.NESTED_MAX:
            raise Conflict(
                f"{' -> '.join(way)} is not a path to a site",
                where=WAY_HEADER,
                remedy="a virtual site must not be below itself, nor more than"
                f" {limits.NESTED_MAX} one below the other; and each needs a name of its own",
            )
        return ", ".join(way)

    def reached(self, member: str) -> None:
        """A member has answered."""
        if self._reasons.pop(member, None) is not None:
            self._logger.info("member_is_back", member=member)

    def out_of_reach(self, member: str, error: Exception) -> Unavailable:
        """Return what whoever asks is told; the reason is for the operator, each once."""
        reason = broken_words(error)
        if self._reasons.get(member) != reason:
            self._reasons[member] = reason
            self._logger.warning("member_out_of_reach", member=member, reason=reason)
        return Unavailable(
            f"{member} cannot be reached from {self.name}", where=member, retry_after_s=1.0
        )
