"""Where a job ran last, beside where its user was told that it has its place."""

from __future__ import annotations

from collections.abc import Sequence

JobAt = tuple[str, int]
"""A site, and the job's number there: a job that comes back has another one."""


def elsewhere_at_last(runs: Sequence[JobAt], told: JobAt) -> bool:
    """Return whether a job that ran where its user was `told` ran at another place after that.

    `runs` are in the order of their starts.
    """
    return told in runs[:-1] and runs[-1] != told
