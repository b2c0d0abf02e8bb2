"""Delivery of notices: one replica makes letters of what the register has to tell, and sends them.

That is the first by name of those that live; where two believe it of themselves for a while, a letter may
come twice, with one id. Notices are looked for with every beat of the heart, and when this replica has stored
some. A notice and its letters change places in one write, so that after a crash at any point each notice is
told, by the same letters.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kalends.broker.lives.life import Life, Lives
from kalends.broker.lives.replica import Leases
from kalends.broker.register.broker_store import Result
from kalends.broker.register.notice_table import (
    MakeLetters,
    NoticeAddress,
    addresses_of,
    waiting_notices,
)
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.times import zone_named
from kalends.notices.bundles import Bundler
from kalends.notices.letter import Letter
from kalends.notices.letter_table import LettersDone, stored_letters
from kalends.notices.notice_letters import letter_about
from kalends.notices.post_office import PostOffice
from kalends.notices.request_notice import RequestNotice
from kalends.serving.configuration import BrokerNotices
from kalends.serving.logs import Logger
from kalends.serving.metrics import Metrics

LOOKED_AT_MAX: Final = 500
"""Notices made into letters at one go: the rest follows with the next."""

SECTION: Final = "broker.notices"


class NoticeDelivery:
    """The notices of a broker; without `rules` of its operator nothing is told, and what waits is dropped.

    `reported` is told of a receiver that is away, and with "" that it is back. Raises as `PostOffice`.
    """

    def __init__(
        self,
        rules: BrokerNotices | None,
        lives: Lives,
        leases: Leases,
        *,
        reported: Callable[[str, str], None],
        logger: Logger,
        metrics: Metrics,
    ) -> None:
        self._lives = lives
        self._leases = leases
        self._delivering: Life | None = None
        """The life in which this replica delivers."""
        self._making = False
        """What was looked at is being made into letters."""
        self._closed = False
        self._bundler = Bundler(rules.minute_max if rules is not None else 1)
        self.office = PostOffice(
            rules, section=SECTION, where="to", secret_of=self._secret_of, wanted=self._wanted,
            now_s=self._now_s, chance=random.random, reported=reported, logger=logger, metrics=metrics,
        )  # fmt: skip

    def beat(self) -> None:
        """Look whether it is for this replica to deliver, and what there is."""
        life = self._lives.current
        if life is None or self._closed or not self._is_mine(life):
            self.end_life()
            return
        # What cannot be read now is looked for at the next beat.
        with contextlib.suppress(Unavailable):
            self._deliver(life)

    def _deliver(self, life: Life) -> None:
        if self._delivering is not life:
            self.end_life()
            letters = life.store.read(stored_letters)
            self._delivering = life
            self.office.begin_life(*letters, partial(self._forget, life))
        if self.office.has_room and not self._making:
            self._make_letters(life)

    def end_life(self) -> None:
        """The store cannot be used, or another replica delivers."""
        if self._delivering is not None:
            self._delivering = None
            self._making = False
            self.office.end_life()

    async def close(self) -> None:
        self._closed = True
        self._delivering = None
        await self.office.close()

    def _is_mine(self, life: Life) -> bool:
        me = life.coordinator.identity.owner
        certain = life.recognition.is_certain(self._lives.moment().monotonic_ms)
        return certain and me == min(self._leases.all_alive(), default=me)

    def _make_letters(self, life: Life) -> None:
        waiting = life.store.read(waiting_notices, self._bundler.at_once_max, LOOKED_AT_MAX)
        for number in waiting.unreadable:
            self.office.lose(str(number), "its record in the store cannot be read")
        letters: list[Letter] = []
        numbers = list(waiting.unreadable)
        for bundle in self._bundler.bundles(waiting.notices, self._now_s()):
            numbers += bundle
            letters += self._letters(life, [waiting.notices[number] for number in bundle])
        if not numbers:
            return
        self._making = True
        write = MakeLetters(tuple(numbers), tuple(letters))
        life.store.writer.submit((write,), partial(self._made, life, letters), self._lives.fail)

    def _letters(self, life: Life, notices: Sequence[RequestNotice]) -> list[Letter]:
        """One letter to each address of the user; of a notice to one of them, to that."""
        letters = []
        for address in life.store.read(addresses_of, notices[0].user):
            told = [
                each for each in notices if each.occasion != "test" or each.to == address.receiver
            ]
            if not told:
                continue
            try:
                to = self.office.address_of(address.user, address.receiver)
                letters.append(letter_about(told, to, zone_named(address.zone), self._now_s()))
            except KalendsError as error:  # The operator has changed what is allowed since.
                self.office.lose(told[0].id, error.detail)
            except Exception as error:
                # The boundary of one letter: what breaks it keeps nobody else from being told.
                self.office.lose(told[0].id, repr(error))
        return letters

    def _made(self, life: Life, letters: Sequence[Letter], results: Sequence[Result]) -> None:
        if self._delivering is not life:
            return
        self._making = False
        if results == [1]:
            self.office.take_up(letters)
            self.beat()  # There may be more since.

    def _forget(self, life: Life, ids: Sequence[str]) -> None:
        if self._lives.current is life:
            done = LettersDone(tuple(ids))
            life.store.writer.submit((done,), lambda results: None, self._lives.fail)

    def _address_of(self, letter: Letter) -> NoticeAddress | None:
        """Return the address of its user that a letter is for; None where it was removed."""
        life = self._delivering
        if life is None:
            return None
        for address in life.store.read(addresses_of, letter.user):
            try:
                if self.office.address_of(address.user, address.receiver) == letter.to:
                    return address
            except KalendsError:
                continue
        return None

    def _wanted(self, letter: Letter) -> bool:
        return self._address_of(letter) is not None

    def _secret_of(self, letter: Letter) -> bytes | None:
        address = self._address_of(letter)
        return address.secret if address is not None and address.secret else None

    def _now_s(self) -> int:
        return self._lives.moment().wall_s
