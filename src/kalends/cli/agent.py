"""``kalends agent``: scripts that choose among the slots at each site."""

from __future__ import annotations

from kalends.cli._groups import LazyGroup

COMMANDS = {
    "check": "Check a script, and show what it costs.",
    "run": "Run a script here, on calendars from files.",
    "ready": "List the ready-made agents, or print one.",
    "upload": "Keep a script at the broker, under a name.",
    "list": "List your scripts at the broker.",
    "show": "Print one of your scripts.",
    "delete": "Let the broker forget a script.",
    "tell": "Tell the agent of an open request something.",
    "runs": "List what your scripts did at a site.",
    "replay": "Run a recorded run again here, and compare.",
}

command = LazyGroup(
    "agent",
    summaries=COMMANDS,
    package="kalends.cli.agents",
    help="Scripts that choose among the slots at each site.",
)
