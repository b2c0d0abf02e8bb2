"""Alarms: problems that the operator of a server must know, until they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kalends.serving.logs import Logger

ALARMS_KEPT_MAX: Final = 1_000
"""The newest alarms are also in the answer of `audit`; all alarms are in the log."""


Report = Callable[[str, str], None]
"""Takes the subject of a problem, and its text; "" when the problem has ended."""


@dataclass(slots=True)
class _Alarm:
    text: str
    about: str
    is_over: bool = False


class Alarms:
    """The newest alarms since a server was started.

    An alarm `about` something is a problem until `settle` ends it. An alarm without a subject reports an
    event that must never happen, and stays a problem until the next start. `count` is called for each.
    """

    def __init__(self, logger: Logger, count: Callable[[], None]) -> None:
        self._logger = logger
        self._count = count
        self._kept: deque[_Alarm] = deque(maxlen=ALARMS_KEPT_MAX)

    def tell(self, text: str, about: str = "") -> None:
        self._logger.error("alarm", detail=text)
        self._count()
        self._kept.append(_Alarm(text, about))

    def settle(self, about: str) -> None:
        """End the problem `about` this."""
        for alarm in self._kept:
            if alarm.about == about and not alarm.is_over:
                alarm.is_over = True
                self._logger.info("alarm_is_over", detail=alarm.text)

    def reporter(self, about: str) -> Callable[[str], None]:
        """Return a function that takes a problem `about` something, or "" when it has ended."""

        return partial(self.report, about)

    def report(self, about: str, text: str) -> None:
        """Take the state of a problem about something; report it only if it has changed."""
        known = next(
            (each for each in self._kept if each.about == about and not each.is_over), None
        )
        if not text:
            self.settle(about)
        elif known is None:
            self.tell(text, about)
        elif known.text != text:
            known.text = text
            self._logger.error("alarm", detail=text)

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems that still exist, oldest first."""
        return tuple(alarm.text for alarm in self._kept if not alarm.is_over)

    @property
    def settled(self) -> tuple[str, ...]:
        """The problems since the start that have ended."""
        return tuple(alarm.text for alarm in self._kept if alarm.is_over)
