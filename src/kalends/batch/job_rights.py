"""Rights to see and change a job: of its own user, operators, auditors and other users."""

from __future__ import annotations

from kalends.batch.queue.job import BatchJob
from kalends.core.errors import NotAllowed, Refusal, RefusalCode
from kalends.serving.auth.callers import Caller


def owns(caller: Caller, job: BatchJob) -> bool:
    return job.principal.user == caller.principal.user


def is_operator(caller: Caller) -> bool:
    return "admin" in caller.scopes


def sees_all(caller: Caller, user: str) -> bool:
    """Return whether all about a job of `user` is for the caller, and ends it if they wish."""
    return user == caller.principal.user or is_operator(caller)


def whose(caller: Caller, *, everyone: bool) -> str:
    """Return the user whose use may be shown, or "" for all users; raises `NotAllowed`."""
    if not everyone:
        return caller.principal.user
    if is_operator(caller) or "audit" in caller.scopes:
        return ""
    raise NotAllowed(
        "the use of all users is shown to operators and auditors only",
        where="everyone",
        remedy="ask for your own, or use a token with the scope audit",
    )


def no_account(user: str, machine: str) -> NotAllowed:
    """Return the error for a user without an account in the batch system that runs the jobs of `machine`."""
    detail = f"{user} has no account in the batch system of {machine}"
    return NotAllowed(
        detail,
        where="machine",
        remedy="ask its owner for one",
        refusals=(Refusal(where=machine, code=RefusalCode.NO_ACCOUNT, detail=detail),),
    )


def not_yours(number: int) -> NotAllowed:
    return NotAllowed(
        f"job {number} belongs to another user",
        where="job",
        remedy="ask its user, or an operator of the machine",
    )
