"""Between the queues of a site and its post office: whom to tell what has become of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from kalends.batch.job_letters import letter_of
from kalends.batch.queue.milestones import Milestone
from kalends.core.errors import KalendsError
from kalends.core.jobs import JobRequest
from kalends.notices.letter import Letter
from kalends.notices.outbox import OutboxTerms
from kalends.notices.post_office import PostOffice
from kalends.notices.webhooks import owners_secret
from kalends.serving.configuration import NoticesConfiguration
from kalends.serving.logs import Logger
from kalends.serving.metrics import Metrics


def job_post_office(
    rules: NoticesConfiguration | None,
    *,
    now_s: Callable[[], int],
    chance: Callable[[], float],
    reported: Callable[[str, str], None],
    logger: Logger,
    metrics: Metrics,
) -> PostOffice:
    """Return the post office of a site; its webhooks are all signed with the owner's secret.

    Raises as `PostOffice`, and `InvalidInput` for a secret that cannot be used.
    """
    secret: bytes | None = None
    if rules is not None and rules.webhook_key is not None:
        secret = owners_secret(rules.webhook_key, "site.notices.webhook_key")
    return PostOffice(
        rules, secret_of=lambda letter: secret,
        hourly_max=rules.hourly_max if rules is not None else OutboxTerms().hourly_max,
        now_s=now_s, chance=chance, reported=reported, logger=logger, metrics=metrics,
    )  # fmt: skip


class JobNotices:
    """Notices of a site's queues for their users."""

    def __init__(self, office: PostOffice) -> None:
        self._office = office

    def check(self, user: str, request: JobRequest) -> None:
        """Raise `NotAllowed` or `InvalidInput` where the owner does not let `user` be told as they wish."""
        if request.notify is not None:
            self._office.address_of(user, request.notify.to)

    def post(self, machine: str, milestones: Iterable[Milestone], now: int) -> Sequence[Letter]:
        """Return the notices to store together with their events. Then call `stored`."""
        letters = []
        for each in milestones:
            notify = each.job.request.notify
            assert notify is not None, "nobody else has milestones"
            letter = letter_of(machine, each, notify.to, now)
            try:
                to = self._office.address_of(letter.user, notify.to)
            except KalendsError as error:  # The owner has changed what is allowed since.
                self._office.lose(letter.id, error.detail)
            else:
                letters.append(structs.replace(letter, to=to))
        return self._office.post(letters)

    def stored(self, letters: Iterable[Letter]) -> None:
        self._office.stored(letters)
