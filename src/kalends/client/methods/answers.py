"""The meaning of answers: a failed booking is an error, a new length follows from the old one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kalends.client.inputs.request_builder import Duration, length_s
from kalends.contract.calls import RequestView
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput, error_from_problem


def settled(answer: RequestView) -> RequestView:
    """Return `answer`, or raise the error of a failed one, with the request's id."""
    if answer.state == "failed" and answer.problem is not None:
        error = error_from_problem(answer.problem)
        error.request_id = error.request_id or answer.id
        raise error
    return answer


class NewLength:
    """The new length of a reservation: `by` longer (`direction` 1) or shorter (-1), or `duration`.

    Raises `InvalidInput` unless exactly one of the two is given and can be understood.
    """

    def __init__(
        self, by: Duration | None, duration: Duration | None, direction: Literal[1, -1]
    ) -> None:
        self._direction = direction
        self.step_s = None if by is None else direction * length_s(by, where="by")
        self.target_s = None if duration is None else length_s(duration)
        if (self.step_s is None) == (self.target_s is None):
            raise InvalidInput(
                "the new length is missing or ambiguous",
                where="duration",
                remedy="give one of `by` and `duration`",
            )

    def length_s(self, view: RequestView) -> int:
        """Return the new length of `view`.

        Raises `InvalidInput` if the change has the wrong direction, or leaves nothing.

        The present length is not an error, so that a repeated call has the same result.
        """
        present_s = _common_length_s(view)
        wanted_s = present_s + (self.step_s or 0) if self.target_s is None else self.target_s
        if wanted_s < 1 or self._direction * (wanted_s - present_s) < 0:
            verb = "extended" if self._direction > 0 else "shrunk"
            raise InvalidInput(
                f"the reservation lasts {format_duration(present_s)} and cannot be {verb} "
                f"to {format_duration(wanted_s)}",
                where="duration",
                remedy="use shrink to shorten, extend to lengthen, cancel to give up the reservation",
            )
        return wanted_s


def check_kept(units: Mapping[str, int], view: RequestView) -> None:
    """Raise `InvalidInput` if one of `units` is more than `view` has of that resource."""
    for resource, kept in units.items():
        present = max(
            (each.units for each in view.claims if each.resource == resource), default=kept
        )
        if kept > present:
            raise InvalidInput(
                f"the reservation has {present} units of {resource} and cannot be shrunk to {kept}",
                where="units",
                remedy="book further units separately",
            )


def _common_length_s(view: RequestView) -> int:
    """Return the length of a reservation whose stages are all equally long.

    Raises `InvalidInput` otherwise.
    """
    lengths_s = {claim.end - claim.start for claim in view.claims} or {view.end - view.start}
    if len(lengths_s) > 1:
        raise InvalidInput(
            "the stages differ in length, so one duration does not fit all",
            where="duration",
            remedy="book the stages you want, then cancel this reservation",
        )
    return lengths_s.pop()
