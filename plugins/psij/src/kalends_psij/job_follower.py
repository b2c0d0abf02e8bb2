"""Jobs of one machine that somebody waits for: one call at a time follows all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from kalends.client.client import Client
from kalends.contract.job_calls import JobView, MovedJobs
from kalends.core.errors import KalendsError, NotFound, OutcomeUnknown, Unavailable
from kalends.core.jobs import JobRequest
from kalends.core.limits import LISTING_MAX

logger = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""So long after a failure it tries again, beyond the retries of the client itself; then ever later."""

AGAIN_S_MAX: Final = 15.0

Heard = Callable[[JobView], None]


class JobFollower:
    """Submits to `machine`, and tells what becomes of jobs until they are over. Lives on one event loop."""

    def __init__(self, client: Client, machine: str) -> None:
        self.client = client
        self.machine = machine
        self._heard: dict[int, list[Heard]] = {}
        self._early: dict[int, JobView] = {}
        """What was heard of others while submissions are under way: they may be those."""
        self._submissions = 0
        self._skips = 0
        self._watching: asyncio.Task[None] | None = None

    async def submit(
        self, request: JobRequest, key: str, heard: Heard, patience_s: float
    ) -> JobView:
        """Submit a job once, and follow it; repeats what may or may not have been done for `patience_s`."""
        self._submissions += 1
        try:
            while True:
                skips = self._skips
                view = await self._submitted(request, key, patience_s)
                view = self._early.get(view.job, view)
                if skips == self._skips:
                    break
                # What it did before the site was lost from sight is told by nobody: ask once more.
            self._follow(view, heard)
            return view
        finally:
            self._submissions -= 1
            if not self._submissions:
                self._early.clear()

    async def attach(self, number: int, heard: Heard) -> JobView:
        """Follow a job of the caller's; raises `NotFound` for somebody else's."""
        while True:
            skips = self._skips
            own = {view.job for view in (await self._present())}
            view = await self.client.job(self.machine, number)
            if not view.end and number not in own:
                raise NotFound(
                    f"job {number} is not yours, or was not a moment ago",
                    where="native_id",
                    remedy="attach to what list() returns",
                )
            if skips == self._skips:
                self._follow(view, heard)
                return view

    def _follow(self, view: JobView, heard: Heard) -> None:
        heard(view)
        if view.end:
            return
        self._heard.setdefault(view.job, []).append(heard)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    async def _submitted(self, request: JobRequest, key: str, patience_s: float) -> JobView:
        deadline_s = time.monotonic() + patience_s
        unknown: OutcomeUnknown | None = None
        while True:
            try:
                return (await self.client.submit(request, key=key)).job
            except OutcomeUnknown as error:
                unknown = error
            except Unavailable:
                if unknown is None:
                    raise
            if time.monotonic() >= deadline_s:
                raise unknown
            await asyncio.sleep(AGAIN_S)

    async def _watch(self) -> None:
        known: MovedJobs | None = None
        again_s = AGAIN_S
        while self._heard:
            try:
                known = await self._look(known)
                again_s = AGAIN_S
            except KalendsError as error:
                logger.warning("%s: jobs cannot be followed at present: %s", self.machine, error)
                await asyncio.sleep(again_s)
                again_s = min(2 * again_s, AGAIN_S_MAX)

    async def _look(self, known: MovedJobs | None) -> MovedJobs:
        moved = await self.client.moved_jobs(self.machine, known)
        views = list(moved.jobs)
        if moved.skipped:
            self._skips += 1
            views = await self._all_followed()
        for view in views:
            if self._submissions:
                self._early[view.job] = view
            self._tell(view)
        return moved

    async def _all_followed(self) -> list[JobView]:
        wanted = set(self._heard)
        present = await self._present()
        views = [view for view in present if view.job in wanted]
        for number in sorted(wanted - {view.job for view in views}):
            try:
                views.append(await self.client.job(self.machine, number))
            except NotFound as error:
                # Its site was restored from a copy that is older than the job.
                views.append(_forgotten(self.machine, number, str(error)))
        return views

    async def _present(self) -> tuple[JobView, ...]:
        return (await self.client.jobs(self.machine, count=LISTING_MAX)).jobs

    def _tell(self, view: JobView) -> None:
        for heard in self._heard.get(view.job, ()):
            heard(view)
        if view.end:
            self._heard.pop(view.job, None)


def _forgotten(machine: str, number: int, detail: str) -> JobView:
    return JobView(
        job=number, machine=machine, user="", phase="lost", nodes=1, limit_s=0, submitted=0,
        end="lost", detail=detail,
    )  # fmt: skip
