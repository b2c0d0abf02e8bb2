"""A batch system that jobs are handed over to, looked at before a site relies on it."""

from __future__ import annotations

from collections.abc import Mapping

from kalends.backends.adapter import SystemSilent
from kalends.backends.check_up import CheckUp, check_launching
from kalends.backends.psij.desk_line import DeskLine
from kalends.backends.psij.handed_over import BY_COMMANDS, Executor


async def check_handing_over(
    executor: Executor, users: Mapping[str, str], environment: Mapping[str, str]
) -> CheckUp:
    """Start a desk for each user, which writes where it would hand jobs over; raises nothing."""
    problems = check_launching(users, ())
    if not users:
        problems.append("no users are named: nobody can submit")
    version = ""
    for there in sorted(set(users.values())):
        desk = DeskLine(executor, there, environment, _ignore, _ignore)
        try:
            version = await desk.version()
        except SystemSilent as error:
            problems.append(f"no jobs can be handed over for {there}: {error}")
    return CheckUp(facts_of(executor, version), problems)


def facts_of(executor: Executor, version: str) -> list[str]:
    """Return what is told of a system in any case; `version` is PSI/J's, "" if it does not reach it."""
    if executor.name == BY_COMMANDS:
        reached = [f"{version} takes jobs of each user"] if version else []
        return [
            *reached,
            "advisory: it alone decides about the jobs in its own queue; a bid for one holds no place there",
            f"its jobs are looked at every {executor.look_s} s",
        ]
    reached = [f"{version} reaches it by its executor {executor.name}"] if version else []
    return [
        *reached,
        "advisory: it makes no reservations, so nothing of it can be booked; jobs are handed over to it",
        f"what PSI/J says of its jobs is looked at every {executor.look_s} s",
    ]


def _ignore(said: object) -> None:
    """Hear nothing: nothing is asked for."""
