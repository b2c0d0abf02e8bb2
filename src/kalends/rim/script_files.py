"""Files of scripts: those of users' agents, and of owners' rules."""

from __future__ import annotations

from pathlib import Path

from kalends.core.errors import InvalidInput, TooLarge
from kalends.core.limits import SCRIPT_BYTES_MAX


def read_script(path: Path) -> str:
    """Return the text of a script's file.

    Raises `InvalidInput` if it cannot be read, `TooLarge` above 32 kB.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(SCRIPT_BYTES_MAX + 1)
        # Some editors begin a file with a byte order mark; Python also skips it.
        source = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the file is not UTF-8"
        raise InvalidInput(
            f"cannot read the script: {reason}",
            where=str(path),
            remedy="give a file with the script, in UTF-8",
        ) from error
    if len(raw) > SCRIPT_BYTES_MAX:
        raise TooLarge(
            f"the script is longer than {SCRIPT_BYTES_MAX} bytes",
            where=str(path),
            remedy="shorten it",
        )
    return source
