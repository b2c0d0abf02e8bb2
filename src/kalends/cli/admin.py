"""``kalends admin``: what owners and operators do."""

from __future__ import annotations

from kalends.cli._groups import LazyGroup

COMMANDS = {
    "key": "Make a pair of keys for signing tokens.",
    "token": "Sign a token for a user.",
    "config": "Print a commented configuration file.",
    "audit": "Check all claims or decisions of a server.",
    "drain": "Let a server take no new claims.",
    "undrain": "Let a server take new claims again.",
    "reclaim": "Take a time back: reservations there are moved or cancelled.",
    "reclaims": "List the times that were taken back.",
    "backup": "Copy a store while its server runs.",
    "doctor": "Check a store file.",
    "reconcile": "Compare broker and sites, and mend what differs.",
}

command = LazyGroup(
    "admin",
    summaries=COMMANDS,
    package="kalends.cli.administration",
    help="Keys, tokens, audits, draining, reclaims, backups: for owners.",
)
