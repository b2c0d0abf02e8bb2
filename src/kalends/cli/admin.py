"""``kalends admin``: keys, audits, reclaims and stores, for owners and operators."""

from __future__ import annotations

from kalends.cli.console.groups import LazyGroup

COMMANDS = {
    "Setting up": {
        "init": "Set up a site or a broker in a folder of its own.",
        "config": "Print a commented configuration file.",
        "key": "Make a pair of keys for signing tokens.",
        "token": "Sign a token for a user.",
        "revoke": "Revoke tokens or keys at the servers that read a file.",
    },
    "Running": {
        "audit": "Check all claims or decisions of a server.",
        "sites": "Say how sites answer when they are asked for bids.",
        "reconcile": "Compare a broker with its sites and repair differences.",
        "drain": "Refuse new claims; keep promises.",
        "undrain": "Accept new claims again.",
        "reclaim": "Reclaim a period; move or cancel reservations.",
        "reclaims": "List the reclaimed periods.",
        "requests": "List the requests that wait for your approval.",
        "approve": "Approve a request that waits for your approval.",
        "decline": "Decline a request that waits for your approval.",
    },
    "Machines": {
        "nodes": "Take nodes out of service, or put them back.",
        "policy": "Switch the policy of a machine; its jobs keep their order.",
        "replan": "Make the plan of a queue anew, and tell which promises are void.",
    },
    "Stores": {
        "backup": "Copy a store while its server runs.",
        "doctor": "Check a store file, or what a site or a broker runs on.",
    },
}

command = LazyGroup(
    "admin",
    groups=COMMANDS,
    package="kalends.cli.administration",
    help="Manage keys, approvals, reclaims and stores.",
    examples=("kalends admin config > kalends.toml", "kalends admin audit"),
)
