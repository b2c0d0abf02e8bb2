"""Between the queues of a site and its notifier: whom to tell what has become of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from kalends.batch.job_delivery import job_delivery
from kalends.batch.queue.milestones import Milestone
from kalends.core.errors import KalendsError
from kalends.core.jobs import JobRequest
from kalends.notices.delivery import Delivery
from kalends.notices.notifier import Notifier
from kalends.notices.outbox import OutboxTerms
from kalends.notices.webhooks import owners_secret
from kalends.serving.configuration import NoticesConfiguration
from kalends.serving.logs import Logger
from kalends.serving.metrics import Metrics


def job_notifier(
    rules: NoticesConfiguration | None,
    *,
    now_s: Callable[[], int],
    chance: Callable[[], float],
    reported: Callable[[str, str], None],
    logger: Logger,
    metrics: Metrics,
) -> Notifier:
    """Return the notifier of a site; its webhooks are all signed with the owner's secret.

    Raises as `Notifier`, and `InvalidInput` for a secret that cannot be used.
    """
    secret: bytes | None = None
    if rules is not None and rules.webhook_key is not None:
        secret = owners_secret(rules.webhook_key, "site.notices.webhook_key")

    async def secret_of(delivery: Delivery) -> bytes | None:
        return secret

    return Notifier(
        rules, secret_of=secret_of,
        hourly_max=rules.hourly_max if rules is not None else OutboxTerms().hourly_max,
        now_s=now_s, chance=chance, reported=reported, logger=logger, metrics=metrics,
    )  # fmt: skip


class JobNotices:
    """Notices of a site's queues for their users."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    def check(self, user: str, request: JobRequest) -> None:
        """Raise `NotAllowed` or `InvalidInput` where the owner does not let `user` be told as they wish."""
        if request.notify is not None:
            self._notifier.address_of(user, request.notify.to)

    def post(self, machine: str, milestones: Iterable[Milestone], now: int) -> Sequence[Delivery]:
        """Return the notices to store together with their events. Then call `stored`."""
        deliveries = []
        for each in milestones:
            notify = each.job.request.notify
            assert notify is not None, "nobody else has milestones"
            delivery = job_delivery(machine, each, notify.to, now)
            try:
                to = self._notifier.address_of(delivery.user, notify.to)
            except KalendsError as error:  # The owner has changed what is allowed since.
                self._notifier.lose(delivery.id, error.detail)
            else:
                deliveries.append(structs.replace(delivery, to=to))
        return self._notifier.post(deliveries)

    def stored(self, deliveries: Iterable[Delivery]) -> None:
        self._notifier.stored(deliveries)
