"""Polling of candidates as lines of text: a small plot of the cost over the number asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kalends.contract.calls import PollPoint, PollView

ROWS_MAX: Final = 16
BAR_WIDTH: Final = 32


def poll_lines(view: PollView, sign: str = "#") -> list[str]:
    """Return a line for the term, then one for each number polled with a bar of `sign`.

    The longest bar is the most expensive poll shown. An arrow points at the cheapest, which is used first.
    Of a long curve the chosen point, both ends and evenly spaced points between are shown.
    """
    told = [
        f"term {view.term + 1}: {view.needed} of {view.candidates}, "
        f"each taken with a chance of {view.busy:.0%}: {view.chosen} are asked first"
    ]
    points = _shown(view.curve, view.chosen)
    if not points:
        return told
    dearest_ms = max(point.delay_ms for point in points)
    width = max(len("polled"), len(str(points[-1].polled)) + 2)
    told.append(f"{'polled':>{width}}  {'delay':>9}  enough")
    for point in points:
        mark = "> " if point.polled == view.chosen else "  "
        bar = sign * max(1, round(BAR_WIDTH * point.delay_ms / dearest_ms)) if dearest_ms else ""
        told.append(
            f"{mark + str(point.polled):>{width}}  {point.delay_ms:>6,.0f} ms  "
            f"{point.chance:>6.1%}  {bar}".rstrip()
        )
    return told


def _shown(curve: Sequence[PollPoint], chosen: int) -> list[PollPoint]:
    """Return at most `ROWS_MAX` points of `curve`: the chosen one, the ends and some between."""
    if len(curve) <= ROWS_MAX:
        return list(curve)
    steps = ROWS_MAX - 2
    spaced = {round(number * (len(curve) - 1) / steps) for number in range(steps + 1)}
    return [
        point for number, point in enumerate(curve) if number in spaced or point.polled == chosen
    ]
