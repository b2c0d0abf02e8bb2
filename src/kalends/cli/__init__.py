"""The command line: ``kalends COMMAND``. Each command is a small module, loaded when it is used.

A command's module holds it under the name `command`. The groups and summaries below keep ``--help`` and
``--version`` from loading any command; a test compares them with the commands themselves.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from kalends import __version__
from kalends.cli.console.commands import group_options
from kalends.cli.console.groups import LazyGroup
from kalends.cli.console.settings import Settings

COMMANDS = {
    "Booking": {
        "find": "Find possible starts; book nothing.",
        "book": "Book every part of a request, or nothing.",
        "hold": "Hold slots until they are locked or released.",
        "lock": "Lock all slots that a request holds.",
        "release": "Release all slots that a request holds.",
    },
    "Looking up": {
        "resources": "List the resources that can be booked.",
        "sites": "List the sites that a broker knows, and how they bid for jobs.",
        "calendar": "Draw the calendar of a resource.",
        "list": "List your requests, newest first.",
        "show": "Show one request, by id or by key.",
        "why": "Explain what happened to a request.",
        "watch": "Follow the events of your requests.",
        "notify": "Manage the addresses for notices.",
    },
    "Changing": {
        "move": "Move a reservation to another time, or a job to another site.",
        "extend": "Make a reservation longer.",
        "shrink": "Make a reservation shorter or smaller.",
        "cancel": "Cancel a reservation at all its sites.",
    },
    "Running jobs": {
        "submit": "Submit a job to a machine, to the one where it ends first, or to several together.",
        "run": "Run a program on a machine, in this terminal.",
        "attach": "Attach to the terminal of a job.",
        "queue": "List the jobs that wait or run on a machine.",
        "job": "Show one job, also after its end.",
        "log": "Print the output of a job.",
        "kill": "End jobs: withdraw those that wait, end those that run.",
        "machine": "Show a machine: its nodes, its policy, and which job has which nodes.",
        "usage": "Sum up the node-seconds that your jobs used, by project.",
    },
    "Logging in": {
        "login": "Save a server's address and your login in a profile.",
        "whoami": "Show your identity at the server.",
        "logout": "Forget the token of a profile.",
        "completion": "Print the completion script for a shell.",
    },
    "Research": {
        "simulate": "Replay a workload under scheduling policies.",
        "policies": "List the scheduling policies.",
        "check-schedule": "Check a schedule against its log and policy.",
    },
    "Operating": {
        "serve": "Run a site, a broker, a virtual site, or several.",
        "admin": "Manage keys, approvals, reclaims and stores.",
        "agent": "Manage scripts that choose slots at each site.",
        "demo": "Run three sites and a broker on this machine.",
    },
}

COMPLETE_VARIABLE = "_KALENDS_COMPLETE"
"""Environment variable that a shell sets to ask for completions."""

EPILOG = """Requests: sdsc/sp2:64 + caltech/onyx   or   3 of {kind=sgi, memory>=64}   or   A | B.

Exit codes: 0 done, 1 error, 2 usage, 4 not allowed, 5 no common time, 6 lost a race, 7 expired,
75 try again later."""


@click.command(
    "kalends",
    cls=LazyGroup,
    groups=COMMANDS,
    package=__name__,
    epilog=EPILOG,
    examples=(
        "kalends find 'sdsc/sp2:64 + ncsa/cave' --for 2h",
        "kalends book 'sdsc/sp2:64 + ncsa/cave' --for 2h --at 'tomorrow 09:00'",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@group_options
def cli() -> None:
    """Book resources of several owners for the same time: all or none."""


def main() -> int:
    """Run the ``kalends`` program and return its exit code."""
    if COMPLETE_VARIABLE in os.environ:
        _complete()
    return cli.run(Settings())


def _complete() -> NoReturn:
    """Complete a command for a shell, and exit at once, without waiting for a host look-up."""
    code = 0
    try:
        cli.run(Settings())
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)
