"""Licences in Slurm, which compares reservations with each other, but not with running jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kalends.backends.records import SystemJob, SystemReservation


def too_few(
    wish: SystemReservation, totals: Mapping[str, int], reservations: Iterable[SystemReservation],
    jobs: Iterable[SystemJob],
) -> str:  # fmt: skip
    """Return which licence does not suffice for `wish` next to existing uses; "" if all suffice.

    A job's licences from its reservation count there; its other licences count to its limit.
    """
    others = [each for each in reservations if each.name != wish.name]
    reserved = {each.name: Counter(dict(each.licences)) for each in [*others, wish]}
    spans = [
        *((each.start, each.end, reserved[each.name]) for each in others),
        *(
            (
                each.start,
                each.end,
                Counter(dict(each.licences)) - reserved.get(each.reservation, Counter()),
            )
            for each in jobs
        ),
    ]
    meeting = [
        each for each in spans if each[0] < wish.end and (each[1] is None or wish.start < each[1])
    ]
    for at in {wish.start, *(max(start, wish.start) for start, _, _ in meeting)}:
        used = Counter(dict(wish.licences))
        for start, end, licences in meeting:
            if start <= at and (end is None or at < end):
                used += licences
        for name, count in wish.licences:
            if used[name] > totals.get(name, 0):
                free = max(totals.get(name, 0) - used[name] + count, 0)
                return f"of {name} {free} of {totals.get(name, 0)} are free, and {count} are wanted"
    return ""
