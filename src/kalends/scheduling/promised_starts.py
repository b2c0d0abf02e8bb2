"""The starts that a policy has promised to waiting jobs, if it promises any."""

from __future__ import annotations

from kalends.scheduling.job import Job
from kalends.scheduling.policy import Policy
from kalends.scheduling.profile import NEVER


def promised_start(policy: Policy, job: Job) -> int:
    """Return the start that `policy` has promised `job`; 0 if none, or if the job does not wait."""
    promised = getattr(policy, "promised", None)
    if promised is None:
        return 0
    try:
        start_s: int = promised(job)
    except KeyError:
        return 0
    return start_s if start_s < NEVER else 0


def promised_starts(policy: Policy) -> list[tuple[Job, int]]:
    """Return the jobs that `policy` has promised a start, with the start, in the policy's order."""
    return [(job, start_s) for job in policy.waiting() if (start_s := promised_start(policy, job))]
