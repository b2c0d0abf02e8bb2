"""Other places for jobs: asked for by users, by sites that are drained, or because their site is lost.

A job that its site could not start goes to the next bid: nothing of it has begun. It has ended at its site,
and stays so if no other site has a place for it.

The job keeps its place until it has another, and changes over by the one row that commits the new place, on
condition that it has started nowhere; or that it may start again, and has not ended. Its old site is told as
of a cancel, or learns it when it asks. Before it starts again it has ended where it had started, by the word
of that site; or that site is lost, and the job may start twice.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from kalends.broker.coordination.record.decision_record import FORGOTTEN, Placement, Record, Spec
from kalends.broker.coordination.user_calls import NO_TICKET, UserCalls
from kalends.contract.notice_calls import ChangeByOthers
from kalends.core.errors import Conflict
from kalends.core.intervals import Moment
from kalends.core.jobs import RESTARTS, JobRequest
from kalends.core.limits import JOB_ENVIRONMENT_MAX

SOON_S: Final = 300
"""A job that runs goes only to a place where it starts within this time."""

GAIN_S: Final = 60
"""So much sooner at least a job starts for which it goes back to a site that it has left."""

SILENT: Final = "the site does not answer"


def elsewhere(
    record: Record,
    *,
    lost: bool = False,
    by_others: ChangeByOthers | None = None,
    back_to: str = "",
) -> Spec:
    """Return what is asked for in place of `record`: the same at other sites. `lost`: its sites are.

    `by_others` says who asks, if it is not its user. `back_to` is a site that it has left, and that is asked
    in any case: it goes there, or anywhere, only if it starts sooner.
    """
    spec, started = record.spec, bool(record.job.started)
    place, placed = placement_of(record), record.job.placed
    if record.could_not_start:
        # Where it could not start before it would not start now: each site has one try.
        before = place.elsewhere if place.running == "not-started" else ()
        failed = (record.job.started,) if record.job.started else record.chosen
        place = structs.replace(
            place, elsewhere=tuple(sorted({*before, *failed})), running="not-started", sooner_than=0
        )
    else:
        place = structs.replace(
            place,
            elsewhere=tuple(sorted(record.chosen)),
            running="no" if not started else "lost" if lost else "there",
            restarts=place.restarts + started,
            sooner_than=placed.late_start if back_to and placed is not None else 0,
            homes=tuple(dict.fromkeys((*place.homes, back_to))) if back_to else place.homes,
        )
    return structs.replace(spec, what=place, by_others=by_others)


def placement_of(record: Record) -> Placement:
    """Return what the request of a job asks for."""
    place = record.spec.placement
    assert place is not None, f"{record.rid} is no job"
    return place


def latest_start(place: Placement, now: Moment) -> int:
    """Return by when a place has to be had (seconds UTC); 0: whenever."""
    if place.sooner_than:
        return place.sooner_than - GAIN_S
    return now.wall_s + SOON_S if place.running == "there" else 0


def job_there(place: Placement, job: JobRequest) -> JobRequest:
    """Return `job` as a site gets it: one that may start again asks before it does, and counts its starts."""
    if not job.rerun:
        return job
    environment = {**job.environment, RESTARTS: str(place.restarts)}
    if len(environment) > JOB_ENVIRONMENT_MAX:
        environment = job.environment
    return structs.replace(job, at_most_once=True, environment=environment)


def submit_elsewhere(
    calls: UserCalls, record: Record, mark: int, now: Moment, *, by: str, why: str, lost: bool = False,
    back_to: str = "",
) -> str:  # fmt: skip
    """Ask for another place in the name of the job's user, and by its old stamp; return the request's id.

    `by` names the sites on whose account that is, and `why` says why. The key has spaces, as no user's key
    has; of replicas that ask with one `mark`, one gets it. `lost` and `back_to` are as in `elsewhere`.
    Raises what `UserCalls.submit` raises.
    """
    key = f"elsewhere {record.rid} {mark}"
    asks = ChangeByOthers(
        made="placed-elsewhere", by=by, at=now.wall_s, reason=why, was=record.wants
    )
    return calls.submit(
        record.principal, key, "elsewhere",
        elsewhere(record, lost=lost, by_others=asks, back_to=back_to), NO_TICKET, now,
        replaces=record, stamp=record.stamp,
    )  # fmt: skip


def check_may_leave(record: Record) -> None:
    """Raise `Conflict` for what is no job, has no place or has ended, or must not start again."""
    id = record.reservation
    if record.spec.placement is None:
        raise Conflict(
            "it is not a job", remedy="kalends move ID --to TIME moves it", request_id=id
        )
    if record.state != "commit":
        raise Conflict(f"it is {record.public_state}, and has no place", request_id=id)
    started = record.job.started
    if started is None or started == FORGOTTEN:
        why = "it was submitted neither to start at most once nor to run again"
        if record.asks_first:
            why = "the broker was restored from a backup, and no longer knows whether it has"
        raise Conflict(
            f"it may have started where it is: {why}",
            remedy="cancel it, and submit it again with --at-most-once or --rerun",
            request_id=id,
        )
    if started and not record.spec.placement.job.rerun:
        raise Conflict(
            f"it has started at {started}, and was not submitted with --rerun",
            request_id=id,
        )
    if record.job.ended is not None:
        raise Conflict("it has ended", request_id=id)
