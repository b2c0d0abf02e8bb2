"""``kalends notify``: where you are told of changes by others."""

from __future__ import annotations

from kalends.cli.console.groups import LazyGroup

COMMANDS = {
    "Commands": {
        "list": "List where you are told.",
        "add": "Be told by mail or by a webhook.",
        "remove": "Be told no more at an address.",
        "test": "Send yourself a test notice.",
    },
}

command = LazyGroup(
    "notify",
    groups=COMMANDS,
    package="kalends.cli.notices",
    help="Choose where you are told of changes by others.",
    examples=("kalends notify add", "kalends notify add https://hooks.example.org/kalends"),
)
