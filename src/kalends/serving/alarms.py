"""Alarms: what the operator of a server must know, and whether it still holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kalends.serving.logs import Logger

ALARMS_KEPT_MAX: Final = 1_000
"""A server tells the newest again when it is asked; all of them are in its log."""


Report = Callable[[str, str], None]
"""Takes what a problem is about, and its text; "" when it is over."""


@dataclass(slots=True)
class _Alarm:
    text: str
    about: str
    is_over: bool = False


class Alarms:
    """The newest alarms since a server was started.

    An alarm `about` something is a problem until `settle` says that it is over. One about nothing in
    particular tells what must never happen: it stays a problem until the next start. `count` hears of each.
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
        """What was told `about` this is over."""
        for alarm in self._kept:
            if alarm.about == about and not alarm.is_over:
                alarm.is_over = True
                self._logger.info("alarm_is_over", detail=alarm.text)

    def reporter(self, about: str) -> Callable[[str], None]:
        """Return what takes a problem `about` something, or "" when that is over."""

        return partial(self.report, about)

    def report(self, about: str, text: str) -> None:
        """Take the state of a problem about something; what is known of it already is not told again."""
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
        """What still holds, oldest first."""
        return tuple(alarm.text for alarm in self._kept if not alarm.is_over)

    @property
    def settled(self) -> tuple[str, ...]:
        """What was a problem since the start, and is over."""
        return tuple(alarm.text for alarm in self._kept if alarm.is_over)
