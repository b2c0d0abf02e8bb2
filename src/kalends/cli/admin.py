"""``kalends admin``: keys, audits, reclaims and stores, for owners and operators."""

from __future__ import annotations

from kalends.cli.console.groups import LazyGroup

COMMANDS = {
    "Setting up": {
        "init": "Set up a site or a broker in a new folder.",
        "config": "Print a commented configuration file.",
        "key": "Make a key pair for signing tokens.",
        "token": "Sign a token for a user.",
        "revoke": "Revoke tokens or keys at the servers that read a file.",
    },
    "Running": {
        "audit": "Check all claims or decisions of a server.",
        "sites": "Show statistics of the sites' bids.",
        "reconcile": "Compare a broker with its sites and repair differences.",
        "drain": "Refuse new claims; keep promises.",
        "undrain": "Accept new claims again.",
        "reclaim": "Reclaim a period; move or cancel reservations.",
        "reclaims": "List the reclaimed periods.",
        "requests": "List the requests that need your approval.",
        "approve": "Approve a request that needs your approval.",
        "decline": "Decline a request that needs your approval.",
    },
    "Machines": {
        "nodes": "Take nodes out of service, or put them back.",
        "policy": "Switch the policy of a machine; its jobs keep their order.",
        "replan": "Recompute the plan of a queue, and list the promises that no longer hold.",
    },
    "Stores": {
        "backup": "Copy a store while its server runs.",
        "doctor": "Check a store, or the host and batch systems of a server.",
    },
}

command = LazyGroup(
    "admin",
    groups=COMMANDS,
    package="kalends.cli.administration",
    help="Manage keys, approvals, reclaims and stores.",
    examples=("kalends admin config > kalends.toml", "kalends admin audit"),
)
