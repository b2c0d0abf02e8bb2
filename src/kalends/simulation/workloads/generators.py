"""Workloads made by rule: ``poisson:interarrival=100,run=exp(170),nodes=uniform(1,64)``.

A workload is a name and options. The same text, numbers and seed give the same jobs, to the last bit:
only `Random.random` and `Random.getrandbits` are used, and times are whole seconds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.core.limits import TIME_S_MAX, UNITS_MAX
from kalends.simulation.job import SimulatedJob
from kalends.simulation.workloads.distributions import Distribution, call, distribution, exponential
from kalends.simulation.workloads.lublin import CLASSES, lublin

JOBS_MAX: Final = 100_000_000
LOAD_MAX: Final = 100.0

Drawn = Iterator[tuple[float, int, int, bool]]
"""Endless ``(submit_s, run_s, nodes, interactive)``."""

_OPTION: Final = re.compile(r"([a-z]+)=([^=,()]*(?:\([^()]*\))?)")
_DEFAULTS: Final = {
    "poisson": {"interarrival": "100", "run": "exp(600)", "nodes": "uniform(1,8)", "estimates": "exact"},
    "uniform": {"interarrival": "100", "run": "exp(600)", "nodes": "uniform(1,8)", "estimates": "exact"},
    "lublin": {"jobs": "both", "estimates": "exact"},
}  # fmt: skip


def generate(
    spec: str, *, jobs: int, nodes: int, seed: int, load: float | None = None
) -> Iterator[SimulatedJob]:
    """Return the first `jobs` jobs of the workload that `spec` names, by submission, for `nodes` nodes.

    ``poisson`` and ``uniform`` take ``interarrival`` (the mean gap in seconds: exponential, or equally
    likely from 0 to twice the mean), ``run`` and ``nodes`` (distributions); ``lublin`` takes ``jobs``
    (both, batch, interactive or all). All take ``estimates`` (exact, f(K) or round(K)). With `load`,
    all submit times are multiplied by one factor so that the work offered until the last submission is
    that share of the machine's; this draws everything twice.

    Raises `InvalidInput` for anything else, before the first job.
    """
    for name, given, most in (("jobs", jobs, JOBS_MAX), ("nodes", nodes, UNITS_MAX)):
        if not 1 <= given <= most:
            raise InvalidInput(f"{given} {name}", where=name, remedy=f"give 1 to {most}")
    if load is not None and not 0 < load <= LOAD_MAX:
        raise InvalidInput(f"a load of {load}", where="load", remedy=f"give above 0 to {LOAD_MAX}")
    name, options = _parsed(spec)
    requested = requested_times(options["estimates"])
    start = _drawing(name, options, nodes)
    factor = 1.0 if load is None else _factor(start, jobs, nodes, seed, load)

    def stream() -> Iterator[SimulatedJob]:
        guesses = Random(f"estimates {seed}")
        drawn = zip(range(1, jobs + 1), start(Random(seed)), strict=False)
        for number, (submit_s, run_s, size, interactive) in drawn:
            yield SimulatedJob(
                number, int(submit_s * factor), size, requested(run_s, guesses),
                0, -1, interactive, run_s=run_s,
            )  # fmt: skip

    return stream()


def _parsed(spec: str) -> tuple[str, dict[str, str]]:
    name, _, rest = spec.replace(" ", "").partition(":")
    if name not in _DEFAULTS:
        raise InvalidInput(
            f"unknown workload {excerpt(name)!r}",
            where="workload",
            remedy=f"write {', '.join(_DEFAULTS)}, with options after a colon",
        )
    options = dict(_DEFAULTS[name])
    given = set()
    at = 0
    while at < len(rest):
        found = _OPTION.match(rest, at)
        if found is None or rest[found.end() : found.end() + 1] not in ("", ","):
            raise InvalidInput(
                f"{rest[at : at + 40]!r} cannot be read",
                where=f"workload {name}",
                remedy="write OPTION=VALUE, with commas between: run=exp(170),nodes=uniform(1,64)",
            )
        option = found[1]
        if option not in options or option in given:
            raise InvalidInput(
                f"option {option!r} is given twice" if option in given else f"no option {option!r}",
                where=f"workload {name}",
                remedy=f"give each of {', '.join(options)} at most once",
            )
        given.add(option)
        options[option] = found[2]
        at = found.end() + 1
    return name, options


def _drawing(name: str, options: dict[str, str], nodes: int) -> Callable[[Random], Drawn]:
    if name == "lublin":
        classes = options["jobs"]
        if classes not in CLASSES:
            raise InvalidInput(
                f"{classes!r}",
                where="workload lublin, jobs",
                remedy=f"write {' or '.join(CLASSES)}",
            )
        return lambda random: lublin(classes, nodes, random)
    where = f"workload {name}"
    mean_s = _mean_gap(options["interarrival"], f"{where}, interarrival")
    run = distribution(options["run"], f"{where}, run")
    size = distribution(options["nodes"], f"{where}, nodes")
    if nodes < size.most < float("inf") or round(size.least) > nodes:
        raise InvalidInput(
            f"{options['nodes']} on {nodes} nodes",
            where=f"{where}, nodes",
            remedy=f"draw at most the machine's nodes, e.g. {name}:nodes=uniform(1,{nodes})",
        )
    poisson = name == "poisson"
    return lambda random: _simple(poisson, mean_s, run, size, nodes, random)


def _mean_gap(text: str, where: str) -> float:
    gap = distribution(text, where)
    if gap.least != gap.most or gap.least <= 0:
        raise InvalidInput(
            f"{excerpt(text)} is not a mean gap",
            where=where,
            remedy="write seconds above 0: interarrival=100",
        )
    return gap.least


def _simple(
    poisson: bool, mean_s: float, run: Distribution, size: Distribution, nodes: int, random: Random
) -> Drawn:
    clock = 0.0
    while True:
        clock += exponential(random, mean_s) if poisson else 2.0 * mean_s * random.random()
        run_s = min(max(round(run.draw(random)), 1), TIME_S_MAX)
        yield clock, run_s, min(max(round(size.draw(random)), 1), nodes), False


def _factor(
    start: Callable[[Random], Drawn], jobs: int, nodes: int, seed: int, load: float
) -> float:
    work, span_s = 0, 0.0
    for _, (submit_s, run_s, size, _) in zip(range(jobs), start(Random(seed)), strict=False):
        work += run_s * size
        span_s = submit_s
    return work / (nodes * load * span_s)


Requested = Callable[[int, Random], int]

_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
ROUND_S: Final = (
    *(minutes * _MINUTE_S for minutes in (1, 2, 5, 10, 15, 20, 30, 45)),
    *(hours * _HOUR_S for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 24, 36, 48, 60, 72)),
)
"""Values that people choose: nearly all jobs of real logs request one of some twenty such times."""


def requested_times(text: str) -> Requested:
    """Return the rule from run times to requested times: ``exact``, ``f(K)`` or ``round(K)``.

    ``f(K)`` is the f-model of Mu'alem and Feitelson (IEEE TPDS 2001, section 4): equally likely from the
    run time to K + 1 times it. ``round(K)`` rounds that up to a value that people choose, as Tsafrir,
    Etsion and Feitelson found in logs (JSSPP 2005). Raises `InvalidInput` for anything else.
    """
    name, numbers = call(text, "estimates")
    if name == "exact" and not numbers:
        return lambda run_s, random: run_s
    if name in ("f", "round") and len(numbers) == 1 and numbers[0] <= 1_000_000:
        factor = numbers[0]
        if name == "f":
            return lambda run_s, random: _stretched(run_s, factor, random)
        return lambda run_s, random: _rounded(_stretched(run_s, factor, random))
    raise InvalidInput(
        f"{excerpt(text)!r} is not a model of estimates",
        where="estimates",
        remedy="write exact, f(K) or round(K), with K up to 1000000",
    )


def _stretched(run_s: int, factor: float, random: Random) -> int:
    return int(run_s * (1.0 + factor * random.random()))


def _rounded(time_s: int) -> int:
    at = bisect_left(ROUND_S, time_s)
    if at < len(ROUND_S):
        return ROUND_S[at]
    day_s = 24 * _HOUR_S
    return -(-time_s // day_s) * day_s
