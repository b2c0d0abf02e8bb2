"""The locale of this host, as a login gets it (pam_env(8), locale.conf(5))."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FILES: Final = (Path("/etc/environment"), Path("/etc/locale.conf"), Path("/etc/default/locale"))
DEFAULT: Final = "C.UTF-8"
"""The locale of a host that names none: every C library has it, and it knows all characters."""


def locale_of_this_host(files: Iterable[Path] = FILES) -> dict[str, str]:
    """Return LANG, and each LC_ variable and LANGUAGE that the files set; later files win.

    Files that cannot be read, and lines that are not assignments, are passed over.
    """
    found = {"LANG": DEFAULT}
    for path in files:
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, equals, value = line.strip().removeprefix("export ").partition("=")
            if equals and (name in ("LANG", "LANGUAGE") or name.startswith("LC_")):
                found[name] = _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    try:
        return "".join(shlex.split(value, comments=True))
    except ValueError:
        return value
