"""PSI/J as a kind of batch system: it takes jobs for many systems, and no slots are reserved."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.backends.desks.handed_over import JobLaunch, QueueAccess
from kalends.backends.kinds import OwnQueue, SystemKind
from kalends.core.identifiers import QUEUE_PATTERN, perhaps, whole
from kalends.core.resources import AttributeValue

Queue = Annotated[str, Meta(pattern=whole(QUEUE_PATTERN))]
QueueIfAny = Annotated[str, Meta(pattern=whole(perhaps(QUEUE_PATTERN)))]


class PsijSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of ``[[site.batch_systems]]`` that only PSI/J has: its executor, and terms of all jobs."""

    executor: Queue
    queue: QueueIfAny = ""
    """The queue of all jobs."""
    project: QueueIfAny = ""
    """The project that all jobs are charged to."""
    attributes: Annotated[dict[str, AttributeValue], Meta(max_length=32)] = {}
    """Custom attributes of all jobs, e.g. ``"pbs.l"``."""


def settings_of(access: QueueAccess) -> PsijSettings:
    return msgspec.convert(access.settings, PsijSettings)


def facts(access: QueueAccess, version: str) -> list[str]:
    """Return the facts about a system; `version` is PSI/J's."""
    executor = settings_of(access).executor
    return [
        *([f"{version} reaches it through its executor {executor}"] if version else []),
        "advisory: it makes no reservations, so it takes jobs, but no bookings",
        f"the states of its jobs in PSI/J are read every {access.look_s} s",
    ]


def _launch(access: QueueAccess) -> JobLaunch:
    from kalends_psij_queues.launch import Launch

    return Launch(access, settings_of(access))


KIND: Final = SystemKind(
    PsijSettings,
    queue=OwnQueue(_launch, facts, "PSI/J", foresees=False, takes_options=False),
)
