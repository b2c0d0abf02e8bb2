"""The command line: ``kalends COMMAND``. Each command is a small module, loaded when it is used.

A command's module holds it under the name `command`. Summaries stand here, so that ``--help`` and
``--version`` load no command; a test compares them with the commands themselves.
"""

from __future__ import annotations

import click

from kalends import __version__
from kalends.cli._groups import LazyGroup
from kalends.cli._settings import Settings, group_options

COMMANDS = {
    "demo": "Try it all here: three sites, a broker and sample bookings.",
    "serve": "Run a site, a broker or both from a configuration file.",
    "resources": "List what can be booked.",
    "calendar": "Draw one resource's calendar.",
    "find": "Find when a request could start; books nothing.",
    "book": "Book all of a request, or nothing.",
    "hold": "Hold all of a request for a while, to lock or release.",
    "lock": "Lock what is held: all of it or nothing.",
    "release": "Give up what is held.",
    "list": "List your requests, newest first.",
    "show": "Show one request, by id or by its key.",
    "why": "Tell what happened to a request, and who refused it.",
    "move": "Move a reservation to another time.",
    "extend": "Make a reservation longer.",
    "shrink": "Make a reservation shorter or smaller.",
    "cancel": "Cancel a reservation on all its sites.",
    "watch": "Print what happens to your requests, as it happens.",
    "simulate": "Replay a workload under policies, and measure the schedules.",
    "policies": "List the scheduling policies.",
    "agent": "Scripts that choose among the slots at each site.",
    "check-schedule": "Check a schedule, whoever made it, against its log and policy.",
    "admin": "Keys, tokens, audits, draining, reclaims, backups: for owners.",
}

EPILOG = """Requests: sdsc/sp2:64 + caltech/onyx   or   3 of {kind=sgi, memory>=64}   or   A | B.

Exit codes: 0 done, 1 error, 2 usage, 4 not allowed, 5 no common time, 6 lost a race, 7 expired,
75 try again later."""


@click.command(
    "kalends",
    cls=LazyGroup,
    summaries=COMMANDS,
    package=__name__,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@group_options
def cli() -> None:
    """Book several resources that different people own, for the same time: all of them or none."""


def main() -> int:
    """The entry point of the ``kalends`` program; returns its exit code."""
    return cli.run(Settings())
