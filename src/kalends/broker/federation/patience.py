"""How long a broker waits for bids: not for the slowest.

With a tenth of all sites dead, waiting for all makes most jobs wait to the deadline; with three of four
bids the best one is in mostly, and who has not answered in twice the usual time is probably dead.
"""

from __future__ import annotations

from typing import Final

USUAL_TIMES: Final = 2


def enough(answered: int, asked: int, elapsed_ms: float, usual_ms: float, answer_ms: float) -> bool:
    """Return whether to decide now, `elapsed_ms` after `asked` sites were asked for bids.

    So it is when all have answered, bids and refusals alike; when three of four have, and twice `usual_ms`
    has passed, in which the silent ones mostly answer (`Experience.usual_answer_ms`); or after `answer_ms`,
    the deadline. Whether there is anything to decide about is another question: a broker that has only
    refusals may wait on.
    """
    return answered >= asked or elapsed_ms >= enough_at_ms(answered, asked, usual_ms, answer_ms)


def enough_at_ms(answered: int, asked: int, usual_ms: float, answer_ms: float) -> float:
    """Return after how many milliseconds it is enough if no further answer comes."""
    most = 4 * answered >= 3 * asked
    return min(USUAL_TIMES * usual_ms, answer_ms) if most else answer_ms
