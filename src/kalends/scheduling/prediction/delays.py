"""The cost of a reservation to waiting jobs: copies of the policy run on with and without it."""

from __future__ import annotations

from collections.abc import Mapping

from kalends.core.errors import Conflict
from kalends.scheduling.job import Job
from kalends.scheduling.policy import places_of
from kalends.scheduling.prediction.frozen import copied_jobs, predicted_starts
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler


def delays(
    scheduler: Scheduler, wanted: Reservation, now: int, starts: Mapping[Job, int]
) -> dict[int, int] | None:
    """Return by how much waiting jobs, by id, would start later with a `wanted` reservation.

    `starts` are their starts without it (`predicted_starts`), `now` is the time of the last event. All jobs
    are assumed to take their requested time, and no more to be submitted. A job that would no longer start is
    left out. None if running jobs or other reservations leave the reservation no room. The scheduler is not
    changed.
    """
    copies = copied_jobs(scheduler)
    twin = scheduler.frozen(copies)
    cluster = twin.policy.cluster
    cluster.live = True
    try:
        cluster.reserve(wanted, now, planned=places_of(twin.policy))
    except Conflict:
        return None
    finally:
        cluster.live = False
    twin.wake(now)
    with_it = {job.id: start_s for job, start_s in predicted_starts(twin, now).items()}
    return {
        job.id: with_it[job.id] - start_s
        for job, start_s in starts.items()
        if with_it.get(job.id, start_s) > start_s
    }
