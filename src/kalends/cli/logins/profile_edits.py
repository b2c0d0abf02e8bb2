"""Changes to the user's file of profiles that leave the rest of the file as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from kalends.core.errors import InvalidInput
from kalends.rim import private_files


def keep(path: Path, name: str, fields: Mapping[str, str]) -> None:
    """Set `fields` of a profile in the file at `path`, "" for none; raises `InvalidInput`."""
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"the file cannot be written: {error.strerror}", where=str(path)
        ) from error
    private_files.replace(path.resolve(), edited(text, name, fields).encode())


def edited(text: str, name: str, fields: Mapping[str, str]) -> str:
    """Return `text`, a file of profiles, with `fields` set in one of them; raises `InvalidInput`."""
    try:
        document = tomlkit.parse(text)
        profiles = document.setdefault("profiles", tomlkit.table(is_super_table=True))
        table = profiles.setdefault(name, tomlkit.table())
        for field, value in fields.items():
            if value:
                table[field] = value
            else:
                table.pop(field, None)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"the file cannot be changed: {error}",
            where=f"profiles.{name}",
            remedy="change it by hand, as docs/login.md shows",
        ) from error
