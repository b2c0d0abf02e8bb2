"""The values of the global options: user, server, time zone and form of the answer.

An option always overrides an environment variable, and a variable overrides the user's profile
(`kalends.client.logins.destinations`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import click

from kalends.client.logins.destinations import DEFAULT_BROKER

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from kalends.client.client import Client
    from kalends.client.client_settings import ClientSettings
    from kalends.client.logins.kept_logins import KeptLogin
    from kalends.client.sync import SyncClient

TRIES_MAX = 4
"""Fewer than in the Python client, because a person is waiting and can repeat the call."""

CALL_S = 30.0
HURRIED_S = 1.0


@dataclass
class Settings:
    """The values of the global options in one run of the program."""

    broker: str = DEFAULT_BROKER
    token: str = ""
    token_file: str = ""
    user: str = ""
    group: tuple[str, ...] = ()
    zone: str = ""
    ca: str = ""
    json: bool = False
    profile: str = ""
    machine: str = ""
    login: KeptLogin | None = None
    """The login that renews the token in `token_file`, if it came from a login."""
    way: ClientSettings | None = None
    """The way to a site that the broker has named, if the server is one."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each value: an option, a variable or a profile; see `Destination`."""
    given: dict[str, str] = field(default_factory=dict)
    """The values of options."""
    settled: bool = False
    unanswered: list[str] = field(default_factory=list)
    """Calls that may have changed something, and whose answers have not arrived."""
    hurried: bool = False
    """Whether a call may take only a second and one try."""

    def settle(self) -> None:
        """Add values from the environment and the user's profile. Raises `InvalidInput`."""
        if self.settled:
            return
        from kalends.client.logins.destinations import destination

        found = destination(self.given, os.environ)
        for name in ("broker", "token", "token_file", "user", "zone", "ca", "machine", "profile"):
            setattr(self, name, getattr(found, name))
        self.login, self.sources, self.settled = found.login, found.sources, True

    def connect(self) -> SyncClient:
        """Return a client with these settings, before it sends anything. Raises `InvalidInput`."""
        from kalends.client.sync import SyncClient

        return SyncClient(self.connect_async())

    def connect_async(self) -> Client:
        """Return the same for code with an event loop."""
        from kalends.client.client import Client
        from kalends.client.connection import connect
        from kalends.client.logins.caller_proof import proof
        from kalends.client.transports.retry import Backoff

        if self.way is not None:
            return Client(self.way)
        login = None if self.hurried else self.login
        client = connect(
            self.broker,
            token=proof(self.token, self.token_file, login, self._token_said_by),
            user=self.user_name(),
            groups=self.group,
            ca=self.ca,
            zone=self.zone,
            timeout_s=HURRIED_S if self.hurried else CALL_S,
            transport="http",
            backoff=Backoff(tries_max=1 if self.hurried else TRIES_MAX),
        )
        return Client(replace(client.settings, unanswered=self.unanswered))

    def token_text(self) -> str:
        """Return the token, from its option or from a file; raises `InvalidInput`."""
        from kalends.client.logins.caller_identity import token_in

        return self.token or token_in(self.token_file, self._token_said_by)

    @property
    def _token_said_by(self) -> str:
        return self.sources.get("token_file", "--token-file")

    def has_profile_token(self) -> bool:
        return bool(self.profile) and self.sources.get("token_file", "").startswith("profile ")

    def user_name(self) -> str:
        """Return the user's name, which only servers that ask for no token accept."""
        from kalends.client.logins.caller_identity import login_name

        return self.user or login_name()

    def time_zone(self) -> ZoneInfo:
        """Return the zone of the times that are typed and printed."""
        from kalends.client.inputs.zones import local_zone
        from kalends.core.errors import InvalidInput
        from kalends.core.zone_names import given_zone

        if not self.zone:
            return local_zone()
        try:
            return given_zone(self.zone)
        except InvalidInput as error:
            error.where = self.sources.get("zone", error.where)
            raise


pass_settings = click.make_pass_decorator(Settings, ensure=True)
