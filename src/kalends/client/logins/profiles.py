"""Profiles: the server that a user's programs call by default, and the user's login there.

Profiles are tables in a file of the user. The one called ``default`` is used if none is named::

    [profiles.default]
    broker = "https://broker.npaci.example:7100"
    token_file = "config.tokens/default.token"
    zone = "Europe/Berlin"
    machine = "sdsc/sp2"

Paths are relative to the folder of the file. The file has no secrets: tokens are in separate files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from kalends.core.conversion import convert
from kalends.core.errors import InvalidInput

T = TypeVar("T")

DEFAULT_PROFILE: Final = "default"

CONFIG_BYTES_MAX: Final = 256 * 1024
"""Size of the file: more than a thousand profiles."""

ProfileName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

_Text = Annotated[str, Meta(max_length=4_096)]


class UserProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The login at one server; all fields but `broker` may be left out.

    `machine` is the default machine of jobs. A login by OpenID stores its `issuer` and `client`, so that the
    token in `token_file` can be renewed.
    """

    broker: _Text
    token_file: _Text = ""
    ca: _Text = ""
    zone: _Text = ""
    machine: _Text = ""
    issuer: _Text = ""
    client: _Text = ""


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    profiles: dict[ProfileName, dict[str, Any]] = {}


def config_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the file: KALENDS_CONFIG, or that of the XDG Base Directory Specification."""
    if said := environ.get("KALENDS_CONFIG"):
        return Path(os.path.expanduser(said))
    return users_folder("XDG_CONFIG_HOME", "~/.config", environ) / "config.toml"


def users_folder(variable: str, usual: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of kalends below the folder in `variable`, or below the `usual` one."""
    # By the specification, a relative path in the variable is ignored.
    home = Path(environ.get(variable, ""))
    return (home if home.is_absolute() else Path(os.path.expanduser(usual))) / "kalends"


def read_profiles(path: Path) -> dict[str, UserProfile]:
    """Return the profiles in a file by name, with absolute paths; none if there is no file.

    Raises `InvalidInput` for a file that cannot be read, or is invalid.
    """
    try:
        if path.stat().st_size > CONFIG_BYTES_MAX:
            raise InvalidInput(f"the file has more than {CONFIG_BYTES_MAX} bytes", where=str(path))
        text = path.read_text("utf-8")
        # Imported here because many users have no such file.
        import tomllib

        found = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InvalidInput(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except ValueError as error:
        raise InvalidInput(
            f"the file is not TOML: {error}", where=str(path), remedy="correct it, or move it away"
        ) from error
    return {name: _whole(each, path.parent) for name, each in _checked(found, path).items()}


def profile_named(name: str, path: Path) -> UserProfile:
    """Return a profile of the file at `path`; raises `InvalidInput` if it has none of that name."""
    profiles = read_profiles(path)
    if name not in profiles:
        others = " or ".join(sorted(profiles))
        raise InvalidInput(
            f"{path} has no profile {name!a}",
            where="profile",
            remedy=f"make it: kalends login --profile {quote(name)} --broker URL"
            + (f"; or use {others}" if others else ""),
        )
    return profiles[name]


def check_profile_name(name: str) -> None:
    """Raise `InvalidInput` if `name` cannot be the name of a profile."""
    try:
        convert(name, ProfileName)
    except InvalidInput as error:
        raise InvalidInput(
            f"{name!a} cannot be the name of a profile",
            where="profile",
            remedy="use letters, digits and . _ -",
        ) from error


def _checked(found: dict[str, Any], path: Path) -> dict[str, UserProfile]:
    profiles = _read(found, _Config, str(path)).profiles
    return {
        name: _read(each, UserProfile, f"{path}: profiles.{name}")
        for name, each in profiles.items()
    }


def _read(found: Any, kind: type[T], where: str) -> T:
    try:
        return convert(found, kind)
    except InvalidInput as error:
        raise InvalidInput(
            error.detail,
            where=f"{where}: {error.where}",
            remedy=error.remedy or f"a profile has {', '.join(UserProfile.__struct_fields__)}",
        ) from error


def _whole(profile: UserProfile, folder: Path) -> UserProfile:
    paths = {
        name: str(folder / os.path.expanduser(value))
        for name in ("token_file", "ca")
        if (value := getattr(profile, name))
    }
    return msgspec.structs.replace(profile, **paths)
