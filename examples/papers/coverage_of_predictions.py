"""Shares of jobs that started by their bounds: in thirds, and in blocks that came one after another."""

from __future__ import annotations

from itertools import pairwise

from kalends.simulation.prediction_accuracy import SHARES, Accounts


def coverage(accounts: Accounts, first: int, last: int) -> tuple[float, float]:
    """Return the shares of jobs that started by P50 and by P90, for these places in order of starts."""
    p50, p90 = (
        sum(error_s <= 0 for error_s in part) / max(len(part), 1)
        for part in (accounts.errors_s[name][first:last] for name in SHARES)
    )
    return p50, p90


def thirds(accounts: Accounts) -> list[tuple[float, float]]:
    """Return the coverage of P50 and P90 in each third of the predicted jobs, by order of starts."""
    count = len(accounts.errors_s["p50"])
    cuts = [count * part // 3 for part in range(4)]
    return [coverage(accounts, *ends) for ends in pairwise(cuts)]


def swings(accounts: Accounts, block: int) -> list[tuple[float, float]]:
    """Return the least and the most coverage of P50 and of P90 in any whole block of predicted jobs.

    Blocks have `block` jobs that started one after another. Without a whole one, all jobs are a block.
    """
    count = len(accounts.errors_s["p50"])
    firsts = range(0, count - block + 1, block) or range(1)
    by_share = zip(*(coverage(accounts, first, first + block) for first in firsts), strict=True)
    return [(min(found), max(found)) for found in by_share]
