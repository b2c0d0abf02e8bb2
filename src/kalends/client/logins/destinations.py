"""The server to call and the caller's identity: from the caller, then the environment, then a profile.

A profile's token and certificates are for its own server, or servers. If an option or the environment names
another one, none gets either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kalends.rim.web_addresses import addresses_in

if TYPE_CHECKING:
    from kalends.client.logins.kept_logins import KeptLogin
    from kalends.client.logins.profiles import UserProfile

DEFAULT_BROKER: Final = "http://127.0.0.1:7100"

VARIABLES: Final = {
    "broker": "KALENDS_BROKER",
    "token": "KALENDS_TOKEN",
    "token_file": "KALENDS_TOKEN_FILE",
    "user": "KALENDS_USER",
    "zone": "KALENDS_ZONE",
    "ca": "KALENDS_CA",
    "machine": "KALENDS_MACHINE",
    "profile": "KALENDS_PROFILE",
}
"""Environment variables by field."""

_TOKENS: Final = ("token", "token_file")
_FOR_ITS_OWN_SERVER: Final = frozenset({"token_file", "ca"})


@dataclass(frozen=True)
class Destination:
    """A server and a caller. Texts are empty if not given, but `broker` has a default.

    `sources` gives the source of each value: ``--broker``, ``KALENDS_BROKER`` or ``profile kit``. `login`
    renews the token in `token_file`, if it came from a login.
    """

    broker: str
    token: str = ""
    token_file: str = ""
    user: str = ""
    zone: str = ""
    ca: str = ""
    machine: str = ""
    profile: str = ""
    login: KeptLogin | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


def destination(given: Mapping[str, str], environ: Mapping[str, str]) -> Destination:
    """Return the destination for the caller's `given` values, by the names of `VARIABLES`.

    An empty given text counts as given (no token, for example); an empty variable does not. Raises
    `InvalidInput` for a named profile that does not exist, and for an invalid file of profiles.
    """
    options = {name: (value, f"--{name.replace('_', '-')}") for name, value in given.items()}
    variables = {
        name: (environ[variable], variable)
        for name, variable in VARIABLES.items()
        if environ.get(variable)
    }
    name, profile = _profile(options, variables, environ)
    kept = _kept(profile, name, options.get("broker") or variables.get("broker"))
    # Of a token and a token file, the one from the source nearer to the call counts.
    told: dict[str, tuple[str, str]] = {}
    for layer in (kept, variables, options):
        if any(each in layer for each in _TOKENS):
            told = {each: value for each, value in told.items() if each not in _TOKENS}
        told |= layer
    if told.get("token", ("", ""))[0]:
        told.pop("token_file", None)
    values = {each: value for each, (value, _) in told.items()}
    values.setdefault("broker", DEFAULT_BROKER)
    own_token = profile is not None and told.get("token_file", ("", ""))[1] == f"profile {name}"
    return Destination(
        **{each: values.get(each, "") for each in VARIABLES if each != "profile"},
        profile=name,
        login=_login(profile) if own_token else None,
        sources={each: by for each, (value, by) in told.items() if value},
    )


def _profile(
    options: Mapping[str, tuple[str, str]],
    variables: Mapping[str, tuple[str, str]],
    environ: Mapping[str, str],
) -> tuple[str, UserProfile | None]:
    """Return the wanted profile with its name; ``default`` may be missing."""
    # Imported here because the help of the program needs the default server, but reads no file.
    from kalends.client.logins.profiles import (
        DEFAULT_PROFILE,
        config_path,
        profile_named,
        read_profiles,
    )

    named = (options.get("profile") or variables.get("profile") or ("", ""))[0]
    path = config_path(environ)
    if named:
        return named, profile_named(named, path)
    profile = read_profiles(path).get(DEFAULT_PROFILE)
    return (DEFAULT_PROFILE, profile) if profile is not None else ("", None)


def _kept(
    profile: UserProfile | None, name: str, broker: tuple[str, str] | None
) -> dict[str, tuple[str, str]]:
    """Return the values of `profile` for a call of `broker`, with their source (`broker` None: its own)."""
    if profile is None:
        return {}
    own = broker is None or _servers(broker[0]) <= _servers(profile.broker)
    return {
        field: (value, f"profile {name}")
        for field in VARIABLES
        if (value := getattr(profile, field, "")) and (own or field not in _FOR_ITS_OWN_SERVER)
    }


def _servers(broker: str) -> set[str]:
    return {each.rstrip("/") for each in addresses_in(broker)}


def _login(profile: UserProfile | None) -> KeptLogin | None:
    if profile is None or not profile.issuer:
        return None
    from kalends.client.logins.kept_logins import KeptLogin

    return KeptLogin(Path(profile.token_file), profile.issuer, profile.client, profile.ca)
