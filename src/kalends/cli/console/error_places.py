"""Places in errors, as options and arguments of the command line instead of fields of calls."""

from __future__ import annotations

import re
from typing import Final

_OPTIONS: Final = {
    "window[0]": "--after",
    "window[1]": "--before",
    "period[0]": "--from",
    "period[1]": "--to",
    "not_before": "--after",
    "not_after": "--before",
    "at": "--at",
    "duration": "--for",
    "duration_s": "--for",
    "limit_s": "--for",
    "limits_s": "--for",
    "job.nodes": "--nodes",
    "sizes": "--sizes",
    "shape": "--shape",
    "indices": "--array",
    "output": "--output",
    "error": "--error",
    "input": "--input",
    "directory": "--directory",
    "after": "--after",
    "project": "--project",
    "warning.before_s": "--warn",
    "give_up_at": "--until",
    "request.agent": "--agent",
    "agent": "--agent",
    "arguments": "--argument",
    "agent_must_run": "--agent-must-run",
    "note": "--note",
    "word": "--word",
    "units": "--units",
    "priority": "--priority",
    "prefer": "--prefer",
    "preferences": "--prefer",
    "key": "--key",
    "url": "--broker",
    "token": "--token",
    "Authorization": "--token-file",
    "user": "--user",
    "groups": "--group",
    "zone": "--zone",
    "ca": "--ca",
    "id": "ID",
    "resource": "RESOURCE",
    "alternatives": "REQUEST",
    "request": "REQUEST",
}

_ALTERNATIVE: Final = re.compile(r"alternatives\[(\d+)\](?:\.terms\[(\d+)\])?.*")


def shown(where: str) -> str:
    """Return `where` as an option or argument; other places stay as they are."""
    inside = where.removeprefix("request.")
    if match := _ALTERNATIVE.fullmatch(inside):
        part = f", part {int(match[2]) + 1}" if match[2] else ""
        return f"alternative {int(match[1]) + 1}{part}" if match[1] != "0" or part else "REQUEST"
    return _OPTIONS.get(where) or _OPTIONS.get(inside) or where
