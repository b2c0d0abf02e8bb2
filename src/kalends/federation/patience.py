"""Time that a broker waits for bids: not for the slowest site.

"A time-out period for replies" may be needed, "and perhaps only a subset of the replies will be waited for"
(Weissman and Grimshaw 1996, section 4.1). With a tenth of all sites dead, waiting for all makes most jobs
wait to the deadline. Yet bids that are left out are offers that are lost: so the fewer are in, the longer
the silent ones are waited for, by what is usual for them. Who has not answered in several times that is
probably dead.
"""

from __future__ import annotations

from typing import Final

MOST_TIMES: Final = 2
"""When three of four have answered, the others are waited for so many times as long as they usually take."""

HALF_TIMES: Final = 4
"""When half have."""


def enough(answered: int, asked: int, elapsed_ms: float, usual_ms: float, answer_ms: float) -> bool:
    """Return whether to decide now, `elapsed_ms` after `asked` sites were asked for bids.

    So it is when all have answered, bids and refusals alike; when three of four have, or half, and twice
    or four times `usual_ms` has passed, in which half of the silent ones should have answered
    (`Experience.usual_answer_ms`); or after `answer_ms`, the deadline. Whether there is anything to decide
    about is another question: a broker that has only refusals may wait on.
    """
    return answered >= asked or elapsed_ms >= enough_at_ms(answered, asked, usual_ms, answer_ms)


def enough_at_ms(answered: int, asked: int, usual_ms: float, answer_ms: float) -> float:
    """Return after how many milliseconds it is enough if no further answer comes.

    Three of four, or half, are rounded down, for of two sites one can be dead as well; but one it is.
    """
    if answered >= max(3 * asked // 4, 1):
        return min(MOST_TIMES * usual_ms, answer_ms)
    if answered >= max(asked // 2, 1):
        return min(HALF_TIMES * usual_ms, answer_ms)
    return answer_ms
