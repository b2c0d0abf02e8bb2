"""Between the queues of a site and its post office: whom to tell what has become of a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from kalends.batch.job_letters import letter_of
from kalends.batch.queue.milestones import Milestone
from kalends.core.errors import KalendsError
from kalends.core.jobs import JobRequest
from kalends.notices.letter import Letter
from kalends.notices.post_office import PostOffice


class JobNotices:
    """What the queues of a site have to tell their users."""

    def __init__(self, office: PostOffice) -> None:
        self._office = office

    def check(self, user: str, request: JobRequest) -> None:
        """Raise `NotAllowed` or `InvalidInput` where the owner does not let `user` be told as they wish."""
        if request.notify is not None:
            self._office.address_of(user, request.notify.to)

    def post(self, machine: str, milestones: Iterable[Milestone], now: int) -> Sequence[Letter]:
        """Return the letters to be stored together with what has happened. Then call `stored`."""
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
