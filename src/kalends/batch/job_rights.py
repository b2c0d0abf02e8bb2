"""Who may see and do what about jobs: their user, operators, auditors, and everybody else."""

from __future__ import annotations

from kalends.batch.queue.job import BatchJob
from kalends.core.errors import NotAllowed
from kalends.serving.auth.callers import Caller


def owns(caller: Caller, job: BatchJob) -> bool:
    return job.principal.user == caller.principal.user


def is_operator(caller: Caller) -> bool:
    return "admin" in caller.scopes


def sees_all(caller: Caller, user: str) -> bool:
    """Return whether all about a job of `user` is for the caller, and ends it if they wish."""
    return user == caller.principal.user or is_operator(caller)


def whose(caller: Caller, *, everyone: bool) -> str:
    """Return the user whose use may be told, or "" for everyone's; raises `NotAllowed`."""
    if not everyone:
        return caller.principal.user
    if is_operator(caller) or "audit" in caller.scopes:
        return ""
    raise NotAllowed(
        "the use of everyone is for operators and auditors",
        where="everyone",
        remedy="ask for your own, or use a token with the scope audit",
    )


def not_yours(number: int) -> NotAllowed:
    return NotAllowed(
        f"job {number} is somebody else's",
        where="job",
        remedy="ask its user, or an operator of the machine",
    )
