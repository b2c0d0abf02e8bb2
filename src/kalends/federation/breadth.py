"""Number of sites to ask for bids: the more computing a job asks for, the more sites.

"The number of sites selected should be related to the computational weight of the job. A long-running
job can tolerate the additional overhead associated with the consideration of a larger number of
candidate sites. A metric that relates the computation weight to k needs to be developed." (Weissman and
Grimshaw 1996, section 4.3.) The paper has none; ours is

    k = 2 log2(1 + work / 120 s)

of the node-seconds that the job asks for, between 2 and 32. What one more bid can better shrinks as bids
grow in number, while each costs the same; so k grows with the logarithm, by two for each doubling of the
work. A job of two minutes on one node, which no choice can better by much, asks two.
"""

from __future__ import annotations

from math import log2
from typing import Final

LIGHT_WORK_S: Final = 120
"""Node-seconds of a job for which asking more than two sites would not pay."""

SITES_PER_DOUBLING: Final = 2

ASKED_MIN: Final = 2
"""A single one may be away, or have just filled up; with one alone, mean waits are many times as long."""

ASKED_MAX: Final = 32
"""Beyond it messages and room that is held in vain grow, and waits become no shorter."""


def sites_to_ask(nodes: int, limit_s: int, sites: int) -> int:
    """Return how many of `sites` are asked to bid for a job of `nodes` nodes for at most `limit_s` seconds.

    All of them where there are fewer than the job is worth.
    """
    asked = round(SITES_PER_DOUBLING * log2(1 + nodes * limit_s / LIGHT_WORK_S))
    return min(max(asked, ASKED_MIN), ASKED_MAX, sites)
