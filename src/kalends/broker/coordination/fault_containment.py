"""What goes wrong with one request ends with it: the request is set aside, and all others go on.

A step of the coordinator that breaks off half way leaves a request of which nobody knows what is true.
What it had begun to do for that request is not done, its case is forgotten, and who waits is told that
the outcome is unknown. The register knows the truth: the request is read from there, and gone on with,
as after a restart. One that breaks again and again is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kalends.broker.coordination.coordinator import Coordinator
from kalends.core.errors import IllegalEvent, KalendsError

T = TypeVar("T")

STEPS_MAX: Final = 1_000
"""Requests that one step may lose before it is taken for a fault of the whole."""


def asked(coordinator: Coordinator, step: Callable[[Coordinator], T]) -> T:
    """The answer of `step`, for a caller; raises what it raises.

    A refusal is no fault: then nothing has happened. After anything else the request is set aside.
    """
    since = coordinator.effects_mark()
    coordinator.at_work_on = ""
    try:
        return step(coordinator)
    except Exception as error:
        # The boundary of one request, as below.
        refused = isinstance(error, KalendsError) and not isinstance(error, IllegalEvent)
        if coordinator.at_work_on and not refused:
            coordinator.set_aside(coordinator.at_work_on, error, since)
        raise


def contained(
    coordinator: Coordinator, step: Callable[[], object], *, goes_on: bool = False
) -> None:
    """Carry out `step`, and set aside the request that it breaks at.

    `goes_on`: it is about many requests, and is carried out again for the rest of them. Raises what
    the step raises when that is no request's fault: then nothing that the coordinator knows can be
    believed any more.
    """
    for _ in range(STEPS_MAX):
        since = coordinator.effects_mark()
        coordinator.at_work_on = ""
        try:
            step()
        except Exception as error:
            # The boundary of one request: whatever it was, the others are not to suffer for it.
            if not coordinator.at_work_on:
                raise
            coordinator.set_aside(coordinator.at_work_on, error, since)
            if not goes_on:
                return
        else:
            return
    raise RuntimeError(f"{STEPS_MAX} requests broke in one step")
