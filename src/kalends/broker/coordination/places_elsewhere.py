"""Other places for jobs that have not started: asked for by users, or because their site is lost.

The job keeps its place until it has another, and changes over by the one row that commits the new place, on
condition that it has started nowhere. Its old site is told as of a cancel, or learns it when it asks.
"""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import structs

from kalends.broker.coordination.decision_record import FORGOTTEN, Record, Spec
from kalends.core.errors import Conflict
from kalends.core.intervals import Moment
from kalends.core.principals import Principal

NO_TICKET: Final = 0
"""The ticket of a call that nobody waits for."""


def elsewhere(record: Record) -> Spec:
    """Return what is asked for in place of `record`: the same at other sites."""
    return structs.replace(record.spec, elsewhere=tuple(sorted(record.chosen)))


class Submit(Protocol):
    """See `kalends.broker.coordination.user_calls.UserCalls.submit`."""

    def __call__(
        self, principal: Principal, key: str, digest: str, spec: Spec, ticket: int, now: Moment,
        *, replaces: Record | None = None, stamp: int = 0,
    ) -> str: ...  # fmt: skip


def submit_elsewhere(submit: Submit, record: Record, mark: int, now: Moment) -> str:
    """Ask for another place in the name of the job's user, and by its old stamp; return the request's id.

    The key has spaces, as no user's key has; of replicas that ask with one `mark`, one gets it. Raises what
    `submit` raises.
    """
    key = f"elsewhere {record.rid} {mark}"
    return submit(
        record.principal, key, "elsewhere", elsewhere(record), NO_TICKET, now, replaces=record,
        stamp=record.stamp,
    )  # fmt: skip


def check_unstarted(record: Record) -> None:
    """Raise `Conflict` for what is no job, is not placed, or may have started."""
    id = record.reservation
    if record.spec.job is None:
        raise Conflict("it is no job", remedy="kalends move ID --to TIME moves it", request_id=id)
    if record.state != "commit":
        raise Conflict(f"it is {record.public_state}: it has no place", request_id=id)
    if record.started is None or record.started == FORGOTTEN:
        why = "it was not submitted to start at most once"
        if record.at_most_once:
            why = "the broker was restored from a copy, and has forgotten whether it has"
        raise Conflict(
            f"it may have started where it is: {why}",
            remedy="cancel it, and submit it again with --at-most-once",
            request_id=id,
        )
    if record.started:
        raise Conflict(f"it has started at {record.started}", request_id=id)
