"""The owner's day as a mail, each morning: once a day, also over restarts and changes of the clock.

The day whose mail was made last is stored in one transaction with that mail. A site that was down at the time
sends the mail late, but not by more than `LATE_S`: then the day is nearly over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kalends.contract.day_calls import DayView
from kalends.contract.day_text import day_lines
from kalends.core.errors import Unavailable
from kalends.core.local_clocks import instant
from kalends.notices.delivery import Delivery
from kalends.notices.notifier import Notifier
from kalends.resource_servers.journal.contract import MORNING, Setting
from kalends.resource_servers.owners_day import OwnersDay
from kalends.resource_servers.service import SiteEngine
from kalends.serving.configuration import NoticesConfiguration
from kalends.serving.logs import Logger

LATE_S: Final = 6 * 3_600
"""A mail that is later than this is left out."""

LOOK_EVERY_S: Final = 20.0


def due_day(now_s: int, at: time, zone: ZoneInfo) -> date | None:
    """Return the day whose mail is due at `now_s`, or was due at most `LATE_S` before; None: there is none.

    It is due when the clock of `zone` first shows `at`, or a later time if that hour is skipped.
    """
    day = datetime.fromtimestamp(now_s, zone).date()
    if instant(datetime.combine(day, at), zone) > now_s:
        day -= timedelta(days=1)
    return day if now_s <= instant(datetime.combine(day, at), zone) + LATE_S else None


class MorningMail:
    """Posts the mails that `rules` ask for, of the `day` as it is then."""

    def __init__(
        self,
        rules: NoticesConfiguration | None,
        notifier: Notifier,
        day: OwnersDay,
        logger: Logger,
    ) -> None:
        self._at = (
            time.fromisoformat(rules.morning) if rules is not None and rules.morning else None
        )
        self._addresses = rules.morning_to if rules is not None else ()
        self._notifier, self._day, self._logger = notifier, day, logger
        self._looking: asyncio.Task[None] | None = None

    def begin_life(self, engine: SiteEngine, made: int) -> None:
        """Look from now on; `made` is the day of the last mail, as it was stored."""
        if self._at is not None:
            self._looking = asyncio.create_task(self._run(engine, self._at, made))

    def end_life(self) -> None:
        """The store has failed, or is about to be closed."""
        if self._looking is not None:
            self._looking.cancel()

    async def _run(self, engine: SiteEngine, at: time, made: int) -> None:
        while True:
            try:
                day = due_day(self._day.now_s(), at, self._day.zone())
                if day is not None and day.toordinal() != made:
                    self._post(engine, day.toordinal())
                    made = day.toordinal()
            except Unavailable:
                pass  # The life is about to end, or has just begun: the next look is soon.
            except Exception as error:
                # The boundary of one look: whatever it met is in the log, and it is tried again.
                self._logger.error("morning_mail_broken", exc_info=error)
            await asyncio.sleep(LOOK_EVERY_S)

    def _post(self, engine: SiteEngine, made: int) -> None:
        mails = [*morning_mails(self._day.view(), self._addresses, made, self._day.now_s())]
        kept = self._notifier.post(mails)
        engine.persist((Setting(MORNING, made), *kept), lambda: self._notifier.stored(kept))


def morning_mails(
    view: DayView, addresses: Iterable[str], made: int, now_s: int
) -> Iterable[Delivery]:
    """Yield a mail of the day to each address; `made` is the number of the day."""
    lines = day_lines(view)
    for to in addresses:
        yield Delivery(
            id=f"{view.site}-morning-{made}:{to}", user=to, to=to, subject=f"kalends: {lines[0]}",
            text="".join(f"{line}\n" for line in lines), made_s=now_s,
            facts={"about": "day", "event": "morning", "site": view.site, "day": view.day},
        )  # fmt: skip
