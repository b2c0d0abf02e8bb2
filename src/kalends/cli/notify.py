"""``kalends notify``: the addresses for notices."""

from __future__ import annotations

from kalends.cli.console.groups import LazyGroup

COMMANDS = {
    "Commands": {
        "list": "List the addresses for your notices.",
        "add": "Add a mail address or a webhook for notices.",
        "remove": "Remove an address for notices.",
        "test": "Send yourself a test notice.",
    },
}

command = LazyGroup(
    "notify",
    groups=COMMANDS,
    package="kalends.cli.notices",
    help="Manage the addresses for notices.",
    examples=("kalends notify add", "kalends notify add https://hooks.example.org/kalends"),
)
