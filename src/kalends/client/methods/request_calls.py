"""The client's calls that make requests and wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Unpack

from msgspec.structs import asdict, replace

from kalends.client.inputs.given_values import by_name, checked_job, every, milliseconds
from kalends.client.inputs.machine_requirements import attributes_in, preferences_in
from kalends.client.inputs.request_builder import (
    Duration,
    RequestOptions,
    Time,
    length_s,
    request_from,
)
from kalends.client.inputs.scripts import named_script
from kalends.client.methods.agent_calls import AgentCalls
from kalends.client.methods.answers import settled
from kalends.client.methods.follower import Follower, Progress
from kalends.client.methods.listing_calls import WATCH_WAIT_S, ListingCalls
from kalends.client.transports.call_line import CallLine
from kalends.contract import calls
from kalends.contract.sharing_calls import BookFor
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.implementations import Implementation
from kalends.core.jobs import JobRequest
from kalends.core.requests import Request
from kalends.core.signatures import names_options
from kalends.core.steps import Step
from kalends.core.transport import data_named

CALL_WAIT_S_MAX: Final = 120.0
"""Maximum wait of one call that books; longer waits follow the request's events."""

PROMPT_S: Final = 1.0
"""Free slots are booked within this time; later there is progress to report."""

COPIES_MAX: Final = 100


class BookOptions(RequestOptions, total=False):
    """The options of all calls that book."""

    patience: calls.Patience
    give_up_at: Time | None
    key: str
    wait_s: float | None
    on_progress: Progress | None
    on_behalf_of: str


class RequestCalls:
    """The part of `kalends.Client` about requests."""

    def __init__(self, line: CallLine, listing: ListingCalls, agents: AgentCalls) -> None:
        self._line = line
        self._settings = line.settings
        self._listing = listing
        self._agents = agents
        around = line.settings.surroundings
        self._follower = Follower(listing, clock=around.clock, sleep=around.sleep)

    async def _booked(
        self,
        request: Request | str,
        further: Mapping[str, object],
        numbers: Sequence[str] = ("",),
        /,
        *,
        patience: calls.Patience = "held",
        give_up_at: Time | None = None,
        key: str = "",
        wait_s: float | None = 30.0,
        on_progress: Progress | None = None,
        on_behalf_of: str = "",
        **options: Unpack[RequestOptions],
    ) -> tuple[calls.RequestView, ...]:
        """Return the view of one booking for each of `numbers`, which ends its key.

        `further` are other fields of the call.
        """
        script = named_script(options.get("agent", ""))
        options["agent"] = script.name
        asked = calls.Book(
            request=self.request(request, **options),
            key=key or self._settings.new_key(),
            patience=patience,
            give_up_at=0 if give_up_at is None else self._settings.time_s(give_up_at),
        )
        asked = replace(asked, **further)
        bodies = [replace(asked, key=f"{asked.key}{number}") for number in numbers]
        await self._agents.upload(script)
        answers = await asyncio.gather(
            *(self._decided(body, wait_s, on_progress, on_behalf_of) for body in bodies),
            return_exceptions=True,
        )
        views: tuple[calls.RequestView, ...] = ()
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            views += (answer,)
        return views

    _names_options = names_options(BookOptions, request_from, _booked)

    @names_options(RequestOptions, request_from)
    def request(self, request: Request | str, **options: Unpack[RequestOptions]) -> Request:
        """Return the request that `find`, `book` and `hold` would send; send nothing.

        `request` is a `Request`, taken as it is, or the text form of its terms together with `duration` and
        either `at` (the start) or `window` (earliest start, latest end, None leaves an end open; or a text
        such as ``next week``). `prefer` are preferred times of the start: phrases such as ``mornings`` or
        ``fri -2`` (see `kalends.core.language.preferences`), `TimePreference`s, or ``price``: the cheapest of
        the best. `at_most` is a budget, in credits: ``40``, or by site ``sdsc=40,caltech=10`` or a mapping.
        `project` pays instead of you: ``dna``, or by site ``sdsc=dna``. `rates` (likewise) are the worth of
        a credit of each site, to compare prices. `traffic` (``20MB``) is what each node exchanges with all
        others in a second, where a virtual site splits ``midwest/members:48``. `priority` gives a head start
        in wait queues, as far as the broker allows it. `agent` chooses among the slots at each site: a script
        by name or hash, ``ready:NAME``, or the `Path` of a file, which `book` and `hold` upload; `arguments`
        are passed to it. With `agent_must_run` nothing is booked if it fails at a site. Raises
        `InvalidInput`, and `TooLarge` for a script's file.
        """
        around = self._settings
        return request_from(request, now_s=around.now_s(), zone=around.zone, **options)

    @_names_options
    async def book(
        self, request: Request | str, **options: Unpack[BookOptions]
    ) -> calls.RequestView:
        """Book all of `request` or nothing; arguments as for `request`, and further ones.

        `patience` is what the request may wait for: nothing ("none"); slots that others hold, and sites that
        do not answer ("held", the default); or also locked slots, on waiting lists ("taken"). It gives up at
        `give_up_at` (default: after a minute for held slots, at the last possible start for locked ones).
        `key` makes the call safe to repeat (default: a new one). `on_progress` is called with the waiting
        request after each change. `on_behalf_of` is another user, whose reservation it becomes: the operator
        of the broker must allow that.

        The answer's state is ``reserved``, or ``open`` if it is still being decided after `wait_s` (default:
        30; None: wait until it is settled), or waits for the approval of owners. An open request continues
        on its own, and `wait` waits for it. Raises the reason for a failure: `NoCommonTime`, `NotAllowed`,
        `LostRace`, ...; then nothing is booked. If an `agent` fails, its site chooses, unless
        `agent_must_run`: `agent_failed` names these sites, and `why` shows the error.
        """
        (view,) = await self._booked(request, {}, **options)
        return settled(view)

    @_names_options
    async def hold(
        self, request: Request | str, *, keep: Duration = "15m", **options: Unpack[BookOptions]
    ) -> calls.RequestView:
        """Hold the slots of `request` for `keep`, to `lock` or `release` them by id.

        With patience "taken" they are held for `keep` from the moment they are free. An older request may
        recall them: then `lock` must come before `recalled_until`.
        """
        keep_s = length_s(keep, where="keep", longest_s=limits.HOLD_MS_MAX // 1000)
        (view,) = await self._booked(request, {"hold": True, "hold_s": keep_s}, **options)
        return settled(view)

    @_names_options
    async def submit_in_step(
        self,
        request: Request | str,
        job: JobRequest | None = None,
        jobs: Mapping[str, JobRequest] = MappingProxyType({}),
        **options: Unpack[BookOptions],
    ) -> calls.RequestView:
        """Book all of `request`, and run `job` on each of its machines, all parts at the same time.

        `jobs` names other jobs for some of the machines; without `job` nothing runs on the rest, which are
        only booked. A job has the nodes and the time of its slot, not those in the job itself. All parts
        start together, once all have their nodes, or none does. If one is killed, cannot start, or does not
        end with exit status 0, the others are ended, and the reservation is cancelled. When all have ended
        with 0, the rest of all slots is released, unless one of the jobs has `keep_slot`; `parts_ended_at`
        is that time.

        Other arguments as for `book`; `duration` may be left out if it is that of `job`. `parts` of the
        answer are the jobs of the parts: call the site of the machine for one.
        """
        jobs = by_name(jobs, where="jobs")
        each = [
            checked_job(one) for one in ([*jobs.values()] if job is None else [job, *jobs.values()])
        ]
        Step(job=job, jobs=jobs).check()
        if isinstance(request, str) and each and options.get("duration") is None:
            options["duration"] = max(one.limit_s for one in each)
        (view,) = await self._booked(request, {"job": job, "jobs": dict(jobs)}, **options)
        return settled(view)

    async def place_job(
        self, job: JobRequest, *, on: str = "", end_by: Time | None = None,
        prefer: Mapping[str, Duration] = MappingProxyType({}), homes: Sequence[str] = (),
        implementations: Sequence[Implementation] = (), pick: str = "", rank: str = "",
        data: Sequence[str] = (), at_most_once: bool = False, redundant: bool = False,
        by_limits: bool = False, key: str = "", wait_s: float = CALL_WAIT_S_MAX / 4,
    ) -> calls.RequestView:  # fmt: skip
        """Ask sites to bid for `job`, which names no machine, and submit it where it ends first.

        `on` are required attributes of the machine, as in requests (``memory>=64, site=sdsc``); bids that
        end after `end_by` do not count. `prefer` are attributes and the delay that they are worth: with
        ``{"site=sdsc": "30m"}`` the job may end half an hour later there; delays of several attributes are
        added. The sites `homes` are always asked. With `implementations` each machine is asked for the one
        that would end first there, whose program, nodes and limit replace those of `job`:
        `implementations_in` and `job_of` (`kalends.client.inputs.implementation_file`) read them from a
        file. `pick` is the source of a script whose ``pick(bids)`` orders the bids, and
        `rank` of one whose ``rank(schedules, machine)`` orders, in the sandbox of each site, the ways to run
        the job there; a script that fails changes nothing. `data` are sites with input, and how much
        (``sdsc:20GB``): the time to transport it counts in the end at each site, by the broker's links.

        With `at_most_once` the broker stores the place of the start before the job starts. Then it starts
        nowhere else, whatever fails, and waits while the broker is down. A `redundant` job has a place at two
        sites (at one, if no other bids), and starts once, at the first that can. A job with `rerun` may start
        again elsewhere, if it is moved (`place_elsewhere`), or its site is drained or lost. It never runs
        twice at a time, except if its site is lost, and not even then with `at_most_once`. Bids are compared
        by the run times of your last jobs; with `by_limits`, by the limit of this one. `key` makes the call
        safe to repeat (default: a new one).

        `placed` of the answer is the place of the job: call its site (`job`, `watch_job`). The state is
        ``open`` if the job is still being decided after `wait_s`; then `wait` waits for it. Raises the reason
        for a failure, `NotFound` if no machine could ever run the job; then it is queued nowhere.
        """
        checked_job(job)
        once = job.at_most_once or at_most_once or (redundant and not job.rerun)
        job = checked_job(replace(job, at_most_once=bool(once)))
        job.check_offered()
        body = calls.PlaceJob(
            key=key or self._settings.new_key(),
            job=job,
            on=attributes_in(on, "on") if on else (),
            end_by=self._settings.time_s(end_by) if end_by is not None else 0,
            prefer=preferences_in(prefer),
            homes=every(homes, where="homes"),
            implementations=every(implementations, where="implementations"),
            pick=pick,
            rank=rank,
            data=tuple(map(data_named, every(data, where="data"))),
            redundant=redundant,
            by_limits=by_limits,
            wait_ms=milliseconds(wait_s),
        )
        return settled(await self._line.call(body, "job_place", calls.RequestView))

    @_names_options
    async def book_copies(
        self, request: Request | str, count: int, **options: Unpack[BookOptions]
    ) -> list[calls.RequestView]:
        """Book `request` `count` times: independent copies, each all or nothing.

        Other arguments as for `book`. Copy n has the key ``KEY-n``, so that a repeated call books
        each copy once. The views are in that order, with those of failed copies, which have a `problem`.
        Raises errors of all copies at once; and the error of one call after all have ended: then `resolve`
        returns the outcome of each key.
        """
        if not isinstance(count, int) or not 1 <= count <= COPIES_MAX:
            raise InvalidInput(
                f"{count!r} copies",
                where="count",
                remedy=f"ask for 1 to {COPIES_MAX}",
            )
        numbers = [f"-{number}" for number in range(1, count + 1)]
        return list(await self._booked(request, {}, numbers, **options))

    async def wait(
        self,
        id: str,
        *,
        wait_s: float | None = None,
        until_listed: bool = False,
        until_asked: bool = False,
        on_progress: Progress | None = None,
    ) -> calls.RequestView:
        """Return request `id` once it is settled, or as it is after `wait_s` (None: no limit).

        With `until_listed` also once it is on waiting lists, with `until_asked` once owners are asked to
        approve it. Raises the reason for a failure, like `book`; then nothing is booked.
        """
        if wait_s is not None:
            milliseconds(wait_s, limits.WINDOW_S_MAX)
        return settled(
            await self._follower.settled(
                await self._listing.full_id(id),
                wait_s=wait_s,
                on_progress=on_progress,
                until_listed=until_listed,
                until_asked=until_asked,
            )
        )

    async def resolve(self, key: str) -> calls.RequestView:
        """Settle an `OutcomeUnknown`: the request made with `key`, in whatever state it is now.

        Raises `NotFound` if the call never arrived: it is safe to send it again with the same key.
        """
        return await self._line.call(calls.ByKey(key=key), "by_key", calls.RequestView)

    by_key = resolve

    async def _decided(
        self, body: calls.Book, wait_s: float | None, on_progress: Progress | None, user: str
    ) -> calls.RequestView:
        """Send `body` and follow the request if one call does not wait long enough."""
        if wait_s is not None:
            milliseconds(wait_s)
        first_s = CALL_WAIT_S_MAX if wait_s is None else min(wait_s, CALL_WAIT_S_MAX)
        if on_progress is not None:
            first_s = min(first_s, PROMPT_S)
        elif wait_s is None:
            first_s = WATCH_WAIT_S
        body = replace(body, wait_ms=milliseconds(first_s))
        if user:
            named = BookFor(user=user, **asdict(body))
            view = await self._line.call(named, "book_for", calls.RequestView)
        else:
            view = await self._line.call(body, "book", calls.RequestView)
        left_s = None if wait_s is None else wait_s - first_s
        if view.state != "open" or (left_s is not None and left_s <= 0):
            return view
        return await self._follower.settled(
            view.id, wait_s=left_s, on_progress=on_progress, until_asked=True
        )
