"""The running outbox: deliveries are stored first, then sent, and their outcome is reported.

A life of it is a life of the site's store: what is under way when the store fails is under way for nobody,
and comes back from the store.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

from kalends.core.errors import NotAllowed, Unavailable
from kalends.notices.address_book import AddressBook
from kalends.notices.delivery import MAIL, Delivery, FailedTry
from kalends.notices.mail import MailRelay
from kalends.notices.outbox import Outbox, OutboxTerms
from kalends.notices.webhooks import SecretOf, WebhookCalls
from kalends.serving.auth.peer_auth import trust_in
from kalends.serving.configuration import NoticeRules
from kalends.serving.logs import Logger
from kalends.serving.metrics import Metrics

LOOK_EVERY_S: Final = 60.0
CANCEL_AGAIN_S: Final = 0.1
"""A timer that was set by a clock that has jumped since is mended within this time."""


class Notifier:
    """All notices of a server. Without `rules` of the owner it takes none, and loses what was stored before.

    `section` is where the rules are written, and errors about addresses are about `where`. What `secret_of`
    gives signs the calls of webhooks; a delivery is dropped if `unwanted` returns why. `reported` is told
    of a way that is blocked, and with "" that it is free again. Raises `InvalidInput` for files of the
    configuration that cannot be used.
    """

    def __init__(
        self,
        rules: NoticeRules | None,
        *,
        section: str = "site.notices",
        where: str = "notify.to",
        secret_of: SecretOf | None = None,
        unwanted: Callable[[Delivery], Awaitable[str]] | None = None,
        hourly_max: int = OutboxTerms().hourly_max,
        now_s: Callable[[], int],
        chance: Callable[[], float],
        reported: Callable[[str, str], None],
        logger: Logger,
        metrics: Metrics,
    ) -> None:
        self._now_s = now_s
        self._chance = chance
        self._reported = reported
        self._logger = logger
        self._section = section
        self._unwanted = unwanted
        self._owners = {MAIL, *_ways_of(rules.webhook_hosts if rules is not None else ())}
        self._book: AddressBook | None = None
        self._mail: MailRelay | None = None
        self._webhooks: WebhookCalls | None = None
        self._terms = OutboxTerms()
        if rules is not None:
            self._terms = OutboxTerms(
                pause_s=int(rules.pause_s),
                give_up_s=int(rules.give_up_s),
                hourly_max=hourly_max,
            )
            trust = trust_in(rules.ca, f"{section}.ca")
            tls = ssl.create_default_context() if isinstance(trust, bool) else trust
            self._book = AddressBook(rules, section, where)
            self._mail = MailRelay(rules, tls, section) if rules.smtp else None
            if rules.webhook_hosts and secret_of is not None:
                self._webhooks = WebhookCalls(rules, self._book, tls, now_s, secret_of)
        self._outbox: Outbox | None = None
        self._forget: Callable[[Sequence[str]], None] = lambda ids: None
        self._blocked: set[str] = set()
        self._tries: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        metrics.gauge("kalends_notices_waiting", "Notices that wait.", value=self._waiting)
        self._count = metrics.counter("kalends_notices", "Notices, by outcome.", ("end",))

    def begin_life(
        self,
        deliveries: Iterable[Delivery],
        unreadable: Sequence[str],
        forget: Callable[[Sequence[str]], None],
    ) -> None:
        """The store was opened, and has these deliveries; `forget` removes those with such ids."""
        self._forget = forget
        for way in sorted(self._blocked):  # What blocks it in this life is told anew.
            self._report(way, "")
        for each in unreadable:
            self.lose(each, "its record in the store cannot be read")
        if unreadable:
            forget(unreadable)
        self._outbox = Outbox(self._terms, self._chance, deliveries, self._now_s())
        self._carry_out()

    def end_life(self) -> None:
        """The store has failed, or is about to be closed: nothing is tried until the next life."""
        self._outbox = None
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tries:
            task.cancel()

    async def close(self) -> None:
        self.end_life()
        while self._tries:
            # Again: before Python 3.12 asyncio.wait_for may swallow what has come with its result.
            for task in self._tries:
                task.cancel()
            await asyncio.wait(self._tries, timeout=CANCEL_AGAIN_S)
        if self._webhooks is not None:
            await self._webhooks.close()

    def address_of(self, user: str, to: str) -> str:
        """Return where a notice to `user` goes who asks for `to`, or "" for what the owner says.

        Raises `NotAllowed` and `InvalidInput` with what to do instead.
        """
        if self._book is None:
            raise NotAllowed(
                "this server sends no notices",
                where="notify",
                remedy=f"ask the owner to set up [{self._section}]",
            )
        return self._book.address_of(user, to)

    def post(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Take deliveries; return those to be stored, together with what they tell of. Then call `stored`."""
        if self._outbox is None:
            return []
        for delivery in deliveries:
            self._outbox.post(delivery, self._now_s())
        return self._carry_out()

    def take_up(self, deliveries: Iterable[Delivery]) -> None:
        """Take deliveries that are stored already."""
        if self._outbox is not None:
            self._outbox.take_up(deliveries, self._now_s())
            self._carry_out()

    @property
    def has_room(self) -> bool:
        """Whether it is open, and takes more deliveries."""
        return self._outbox is not None and len(self._outbox) < self._terms.waiting_max

    def lose(self, notice: str, why: str, *, said: bool = True) -> None:
        """Count the loss of the notice with this id, and log it if `said`."""
        self._count.labels("lost").inc()
        if said:
            self._logger.warning("notice_lost", notice=notice, reason=why)

    def stored(self, deliveries: Iterable[Delivery]) -> None:
        """These are durable."""
        if self._outbox is not None:
            self._outbox.stored([each.id for each in deliveries], self._now_s())
            self._carry_out()

    def _report(self, way: str, why: str) -> None:
        """Report that a way is blocked, or free again; if a user has chosen it, only the log has it."""
        if way not in self._owners:
            self._logger.info("notices_of_user", way=way, reason=why)
            return
        (self._blocked.add if why else self._blocked.discard)(way)
        self._reported(
            f"notices by {way}", f"{way} takes no notices, and they wait: {why}" if why else ""
        )

    def _waiting(self) -> int:
        return len(self._outbox) if self._outbox is not None else 0

    def _carry_out(self) -> list[Delivery]:
        outbox = self._outbox
        if outbox is None:
            return []
        effects = outbox.take_effects()
        for way, why in effects.ways.items():
            self._report(way, why)
        for loss in effects.lost:
            self.lose(loss.delivery.id, loss.why, said=loss.first)
        if effects.sent:
            self._count.labels("sent").inc(effects.sent)
        if effects.done:
            self._forget(effects.done)
        for delivery in effects.tries:
            task = asyncio.create_task(self._try(outbox, delivery))
            self._tries.add(task)
            task.add_done_callback(self._tries.discard)
        self._keep_time(outbox)
        return effects.kept

    async def _try(self, outbox: Outbox, delivery: Delivery) -> None:
        failed = await self._carried(delivery)
        if self._outbox is not outbox:
            return
        if failed is None:
            outbox.sent(delivery, self._now_s())
        else:
            outbox.failed(delivery, failed, self._now_s())
        self._carry_out()

    async def _carried(self, delivery: Delivery) -> FailedTry | None:
        """The boundary of carriers: a delivery that breaks one is lost, and no other."""
        carrier = self._mail if delivery.way == MAIL else self._webhooks
        try:
            if self._unwanted is not None and (why := await self._unwanted(delivery)):
                return FailedTry("refused", why)
            if carrier is None:
                return FailedTry("refused", f"the owner has no [{self._section}] for it")
            return await carrier.carry(delivery)
        except Unavailable as error:  # The store, where it says who is told.
            return FailedTry("later", error.detail)
        except Exception as error:
            self._logger.error("notice_broken", notice=delivery.id, exc_info=error)
            return FailedTry("refused", repr(error))

    def _keep_time(self, outbox: Outbox) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due_s = outbox.next_due_s()
        if due_s is not None:
            in_s = min(max(due_s - self._now_s(), 0.0), LOOK_EVERY_S)
            self._timer = asyncio.get_running_loop().call_later(in_s, self._advance)

    def _advance(self) -> None:
        if self._outbox is not None:
            self._outbox.advance(self._now_s())
            self._carry_out()


def _ways_of(hosts: Iterable[str]) -> Iterator[str]:
    """Yield the ways of deliveries to the hosts that the owner has listed."""
    for host in hosts:
        yield f"https://{host.lower().removesuffix(':443')}"
        yield f"http://{host.lower().removesuffix(':80')}"
