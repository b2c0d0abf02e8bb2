"""The workload model of Lublin and Feitelson (J. Parallel Distrib. Comput. 63(11), 2003).

Job sizes: a share is serial, a share has a power of two of nodes; the logarithms of parallel sizes are
uniform in two stages. Run times: their natural logarithms are hyper-gamma, and the wider a job, the more
likely it is a long one. Arrivals: gamma in the logarithm of the gap at rush hour, stretched by a daily
cycle of half hours, which is a gamma over the hours from early morning on. All constants are those that
the authors publish with the model; theirs are for 128 nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import merge
from random import Random
from typing import Final

import msgspec

from kalends.simulation.workloads.distributions import gamma

SLOTS: Final = 48
"""The half hours of a day."""

SLOT_S: Final = 1_800
_FIRST_SLOT: Final = 11
"""The cycle begins early in the morning, when fewest jobs come."""

LOG_RUN_MAX: Final = 12.0
"""Run times above e^12 s, nearly two days, are drawn again."""

LOG_GAP_MAX: Final = 13.0

_PUBLISHED_LOG_NODES: Final = 7.0


class LublinParameters(msgspec.Struct, frozen=True):
    """Parameters of one class of jobs, named as in the paper: alpha is a shape, beta a scale."""

    serial_share: float
    power_of_two_share: float
    log_least: float
    log_middle: float
    log_most: float
    low_share: float
    """Share of sizes between `log_least` and `log_middle`."""
    alpha_1: float
    beta_1: float
    alpha_2: float
    beta_2: float
    slope: float
    intercept: float
    """The first gamma's share is ``slope * nodes + intercept``."""
    alpha_gap: float
    """Shape at all hours: the paper's at rush hour times its ratio of all to rush hours."""
    beta_gap: float
    alpha_cycle: float
    beta_cycle: float


BATCH: Final = LublinParameters(
    0.2927, 0.6686, 1.2, 5.0, 7.0, 0.875, 6.57, 0.823, 639.1, 0.0156, -0.003, 0.6986,
    6.0415 * 1.0519, 0.8531, 6.1271, 5.2740,
)  # fmt: skip

INTERACTIVE: Final = LublinParameters(
    0.1541, 0.625, 1.0, 3.0, 5.5, 0.705, 3.8351, 0.6605, 7.073, 0.6856, -0.0118, 0.9156,
    6.5510 * 0.9797, 0.6621, 8.9186, 3.6680,
)  # fmt: skip

ALL: Final = LublinParameters(
    0.244, 0.576, 0.8, 4.5, 7.0, 0.86, 4.2, 0.94, 312.0, 0.03, -0.0054, 0.78,
    10.2303 * 1.0225, 0.4871, 8.1737, 3.9631,
)  # fmt: skip

CLASSES: Final = {
    "both": (BATCH, INTERACTIVE),
    "batch": (BATCH,),
    "interactive": (INTERACTIVE,),
    "all": (ALL,),
}
"""Classes of jobs: ``both`` mixes batch and interactive jobs; ``all`` has one class."""


def lublin(classes: str, nodes: int, random: Random) -> Iterator[tuple[float, int, int, bool]]:
    """Yield endless ``(submit_s, run_s, nodes, interactive)`` in order of submission, from midnight on."""
    streams = [
        _stream(parameters, nodes, Random(random.getrandbits(64)), parameters is INTERACTIVE)
        for parameters in CLASSES[classes]
    ]
    return merge(*streams)


def _stream(
    parameters: LublinParameters, nodes: int, random: Random, interactive: bool
) -> Iterator[tuple[float, int, int, bool]]:
    for submit_s in arrivals(parameters, random):
        size = size_of(parameters, nodes, random)
        yield submit_s, run_time_of(parameters, size, random), size, interactive


def size_of(parameters: LublinParameters, nodes: int, random: Random) -> int:
    """Return the nodes of a job on a machine of `nodes`, to which the published sizes are shifted."""
    kind = random.random()
    if kind < parameters.serial_share:
        return 1
    shift = math.log2(nodes) - _PUBLISHED_LOG_NODES
    most = max(parameters.log_most + shift, 0.0)
    middle = min(max(parameters.log_middle + shift, 0.0), most)
    least = min(parameters.log_least, middle)
    low, high = (least, middle) if random.random() < parameters.low_share else (middle, most)
    log_size = low + random.random() * (high - low)
    if kind < parameters.serial_share + parameters.power_of_two_share:
        log_size = math.floor(log_size + 0.5)
    return min(int(2.0**log_size + 0.5), nodes)


def run_time_of(parameters: LublinParameters, size: int, random: Random) -> int:
    """Return a run time in whole seconds, at least 1."""
    short_share = parameters.slope * size + parameters.intercept
    while True:
        if random.random() < short_share:
            log_run = gamma(random, parameters.alpha_1, parameters.beta_1)
        else:
            log_run = gamma(random, parameters.alpha_2, parameters.beta_2)
        if log_run <= LOG_RUN_MAX:
            return max(int(math.exp(log_run)), 1)


def arrivals(parameters: LublinParameters, random: Random) -> Iterator[float]:
    """Yield endless arrival times: each gap buys time, which costs more in busier half hours."""
    weights = cycle(parameters)
    slot, used, slots_before = 0, 0.0, 0
    while True:
        log_gap = LOG_GAP_MAX + 1
        while log_gap > LOG_GAP_MAX:
            log_gap = gamma(random, parameters.alpha_gap, parameters.beta_gap)
        points = math.exp(log_gap) / SLOT_S + used
        while points > weights[slot]:
            points -= weights[slot]
            slot = (slot + 1) % SLOTS
            slots_before += 1
        used = points
        yield SLOT_S * (slots_before + used / weights[slot])


def cycle(parameters: LublinParameters) -> list[float]:
    """Return the jobs that arrive in each half hour from midnight on, 1 on average."""
    weights = [0.0] * SLOTS
    for slot in range(_FIRST_SLOT, _FIRST_SLOT + SLOTS):
        weights[(slot - 1) % SLOTS] = _gamma_share(
            slot - 0.5, slot + 0.5, parameters.alpha_cycle, parameters.beta_cycle
        )
    mean = math.fsum(weights) / SLOTS
    return [weight / mean for weight in weights]


def _gamma_share(low: float, high: float, shape: float, scale: float) -> float:
    """Return the probability of a gamma variable between two values, by Simpson's rule on its density."""
    steps = 32
    width = (high - low) / steps
    density = [
        math.exp(
            (shape - 1) * math.log(x / scale) - x / scale - math.lgamma(shape)
        ) / scale
        for x in (low + width * step for step in range(steps + 1))
    ]  # fmt: skip
    # Not sum, which adds floats otherwise since Python 3.12.
    inside = 4 * math.fsum(density[1:-1:2]) + 2 * math.fsum(density[2:-1:2])
    return width / 3 * (density[0] + density[-1] + inside)
