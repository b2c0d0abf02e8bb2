"""``kalends agent``: scripts that choose slots at each site."""

from __future__ import annotations

from kalends.cli.console.groups import LazyGroup

COMMANDS = {
    "Writing": {
        "ready": "List the ready-made agents, or print one.",
        "check": "Check a script and measure its cost.",
        "run": "Run a script here on saved calendars.",
    },
    "At the broker": {
        "upload": "Upload a script to the broker.",
        "list": "List your scripts at the broker.",
        "show": "Print one of your scripts.",
        "delete": "Delete a script from the broker.",
        "tell": "Send an agent a message.",
    },
    "At a site": {
        "runs": "List the runs of your scripts at a site.",
        "replay": "Repeat a recorded run here and compare.",
    },
}

command = LazyGroup(
    "agent",
    groups=COMMANDS,
    package="kalends.cli.agents",
    help="Manage scripts that choose slots at each site.",
    examples=("kalends agent ready", "kalends agent check mornings.py"),
)
