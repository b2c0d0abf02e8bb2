"""Changes to the user's file of profiles, which leave all else in it as it was written."""

from __future__ import annotations

from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from kalends.client.profiles import UserProfile
from kalends.core.errors import InvalidInput
from kalends.rim import private_files


def keep(path: Path, name: str, profile: UserProfile) -> None:
    """Let `profile` be the one of that name in the file at `path`; raises `InvalidInput`."""
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write it: {error.strerror}", where=str(path)) from error
    private_files.replace(path.resolve(), edited(text, name, profile).encode())


def edited(text: str, name: str, profile: UserProfile) -> str:
    """Return `text`, a file of profiles, with this one in it; raises `InvalidInput` where that cannot be."""
    try:
        document = tomlkit.parse(text)
        profiles = document.setdefault("profiles", tomlkit.table(is_super_table=True))
        table = profiles.setdefault(name, tomlkit.table())
        for field in UserProfile.__struct_fields__:
            if value := getattr(profile, field):
                table[field] = value
            elif field in table:
                del table[field]
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"it cannot be changed: {error}",
            where=f"profiles.{name}",
            remedy="write it by hand; docs/login.md says how",
        ) from error
