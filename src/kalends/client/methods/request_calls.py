"""The client's calls that make requests and wait for them."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import replace

from kalends.client.inputs.given_values import by_name, checked_job, every, milliseconds
from kalends.client.inputs.place_builder import attributes_in, preferences_in
from kalends.client.inputs.request_builder import (
    ArgumentValues,
    Duration,
    Preferred,
    Time,
    Window,
    length_s,
)
from kalends.client.inputs.scripts import Agent, NamedScript, named_script
from kalends.client.methods.answers import settled
from kalends.client.methods.follower import Follower, Progress
from kalends.client.methods.listing_calls import ListingCalls
from kalends.contract import calls
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.implementations import Implementation
from kalends.core.jobs import JobRequest
from kalends.core.requests import Request
from kalends.core.steps import Step

WATCH_WAIT_S: Final = 25.0
"""Duration of one call of `watch`, below the time after which proxies cut silent calls."""

CALL_WAIT_S_MAX: Final = 120.0
"""Maximum wait of one call that books; longer waits follow the request's events."""

PROMPT_S: Final = 1.0
"""Free slots are booked within this time; later there is progress to report."""

COPIES_MAX: Final = 100


class _BookingOptions(NamedTuple):
    """What the calls that book have in common beside their request, see `RequestCalls.book`."""

    patience: calls.Patience
    give_up_at: Time | None
    key: str
    wait_s: float | None
    on_progress: Progress | None


class RequestCalls(ListingCalls):
    """The part of `kalends.Client` about requests; subclasses provide times and a follower."""

    @property
    @abstractmethod
    def _follower(self) -> Follower:
        """Waits for what is open."""

    @abstractmethod
    def time_s(self, when: Time) -> int:
        """Return `when` in seconds UTC."""

    @abstractmethod
    def request(
        self, request: Request | str, *,
        duration: Duration | None = None, at: Time | None = None, window: Window = (None, None),
        note: str = "", priority: int = 0, prefer: Preferred = (), agent: Agent = "",
        arguments: ArgumentValues | None = None, agent_must_run: bool = False,
    ) -> Request:  # fmt: skip
        """Return the request that the arguments describe."""

    async def book(
        self, request: Request | str, *,
        duration: Duration | None = None, at: Time | None = None, window: Window = (None, None),
        note: str = "", priority: int = 0, prefer: Preferred = (), agent: Agent = "",
        arguments: ArgumentValues | None = None, agent_must_run: bool = False,
        patience: calls.Patience = "held", give_up_at: Time | None = None, key: str = "",
        wait_s: float | None = 30.0, on_progress: Progress | None = None,
    ) -> calls.RequestView:  # fmt: skip
        """Book all of `request` or nothing; arguments as for `request`, and further ones.

        `patience` says what it may wait for: nothing ("none"), what others hold and may give up, and sites
        that do not answer ("held", the default), or also what is taken, until somebody cancels ("taken":
        waiting lists); it gives up at `give_up_at` (default: a minute for what is held, the last possible
        start for what is taken). `key` makes it safe to repeat (default: a new one). `on_progress` is called
        with the request while it waits, each time that something has changed.

        The answer's state is ``reserved``, or ``open`` when it is still being decided after
        `wait_s` (default: 30; None: wait until it is settled), or at once when it waits for the approval of
        owners; then it goes on by itself, and `wait`
        waits on. Raises what stood in the way: `NoCommonTime`, `NotAllowed`, `LostRace`, ...; then
        nothing is booked. An `agent` that fails stops nothing, unless `agent_must_run`: the sites choose
        for it, `agent_failed` names them, and `why` tells what went wrong.
        """
        script = named_script(agent)
        wanted = self.request(
            request, duration=duration, at=at, window=window, note=note, priority=priority,
            prefer=prefer, agent=script.name, arguments=arguments, agent_must_run=agent_must_run,
        )  # fmt: skip
        options = _BookingOptions(patience, give_up_at, key, wait_s, on_progress)
        (view,) = await self._booked(wanted, script, options)
        return settled(view)

    async def hold(
        self, request: Request | str, *, keep: Duration = "15m",
        duration: Duration | None = None, at: Time | None = None, window: Window = (None, None),
        note: str = "", priority: int = 0, prefer: Preferred = (), agent: Agent = "",
        arguments: ArgumentValues | None = None, agent_must_run: bool = False,
        patience: calls.Patience = "held", give_up_at: Time | None = None, key: str = "",
        wait_s: float | None = 30.0, on_progress: Progress | None = None,
    ) -> calls.RequestView:  # fmt: skip
        """Hold the slots of `request` for `keep`, to `lock` or `release` them by id.

        With patience "taken" they are held for `keep` from the moment they are free. An older
        request may want them meanwhile: `recalled_until` then says until when `lock` still wins.
        """
        keep_s = length_s(keep, where="keep", longest_s=limits.HOLD_MS_MAX // 1000)
        script = named_script(agent)
        wanted = self.request(
            request, duration=duration, at=at, window=window, note=note, priority=priority,
            prefer=prefer, agent=script.name, arguments=arguments, agent_must_run=agent_must_run,
        )  # fmt: skip
        options = _BookingOptions(patience, give_up_at, key, wait_s, on_progress)
        (view,) = await self._booked(wanted, script, options, hold_s=keep_s)
        return settled(view)

    async def submit_in_step(
        self,
        request: Request | str,
        job: JobRequest | None = None,
        jobs: Mapping[str, JobRequest] = MappingProxyType({}),
        *,
        duration: Duration | None = None, at: Time | None = None, window: Window = (None, None),
        note: str = "", priority: int = 0, prefer: Preferred = (), agent: Agent = "",
        arguments: ArgumentValues | None = None, agent_must_run: bool = False,
        patience: calls.Patience = "held", give_up_at: Time | None = None, key: str = "",
        wait_s: float | None = 30.0, on_progress: Progress | None = None,
    ) -> calls.RequestView:  # fmt: skip
        """Book all of `request`, and have `job` run on each of its machines, all parts at the same time.

        `jobs` names other jobs for some of the machines; without `job` nothing runs on the rest, which are
        only booked. A job has the nodes and the time of its slot, whatever it says of them. All parts start
        in one moment, once all have their nodes, or none does; if one does not end with exit status 0, is
        killed, or cannot start, the others are ended, and the reservation is cancelled. When all have ended
        well, what is left of all slots is given back, unless one of the jobs has `keep_slot`; then
        `parts_ended_at` tells when.

        Other arguments as for `book`, of which `duration` is left out where it is that of `job`. `parts` of
        the answer say which job each part is: ask the site of its machine about it.
        """
        jobs = by_name(jobs, where="jobs")
        each = [
            checked_job(one) for one in ([*jobs.values()] if job is None else [job, *jobs.values()])
        ]
        Step(job=job, jobs=jobs).check()
        if isinstance(request, str) and each and duration is None:
            duration = max(one.limit_s for one in each)
        script = named_script(agent)
        wanted = self.request(
            request, duration=duration, at=at, window=window, note=note, priority=priority,
            prefer=prefer, agent=script.name, arguments=arguments, agent_must_run=agent_must_run,
        )  # fmt: skip
        options = _BookingOptions(patience, give_up_at, key, wait_s, on_progress)
        (view,) = await self._booked(wanted, script, options, job=job, jobs=jobs)
        return settled(view)

    async def place_job(
        self, job: JobRequest, *, on: str = "", end_by: Time | None = None,
        prefer: Mapping[str, Duration] = MappingProxyType({}), homes: Sequence[str] = (),
        implementations: Sequence[Implementation] = (), pick: str = "",
        at_most_once: bool = False, redundant: bool = False, by_limits: bool = False,
        key: str = "", wait_s: float = CALL_WAIT_S_MAX / 4,
    ) -> calls.RequestView:  # fmt: skip
        """Let sites bid for `job`, which names no machine, and submit it where it ends first.

        `on` are attributes that a machine must have, as in requests (``memory>=64, site=sdsc``); a site that
        cannot end it by `end_by` does not count. `prefer` says what it is worth to have it on some machines:
        with ``{"site=sdsc": "30m"}`` it may end half an hour later there; what a machine meets is added up.
        The sites `homes` are always asked. With `implementations` each machine is asked for the one that
        would end first there, whose program, nodes and limit replace those of `job`: `implementations_in` and
        `job_of` (`kalends.client.inputs.implementation_file`) read them from a file. `pick` is the source of
        a script whose ``pick(bids)`` orders the bids; one that fails changes nothing.

        With `at_most_once` the broker writes down where it starts before it does: then it starts nowhere
        else, whatever fails; it waits while the broker is away. A `redundant` job has a place at two sites
        (at one, where nobody else bids), and starts once, at the first that comes up. A job with `rerun` may
        start again elsewhere, when it is moved (`place_elsewhere`), its site is drained, or that is lost;
        never twice at a time, but where its site is lost, and not even there with `at_most_once`. Bids are
        compared by how long your last jobs have run; with `by_limits` as if this one ran to its limit. `key`
        makes it safe to repeat (default: a new one).

        `placed` of the answer says where the job is: ask its site about it (`job`, `watch_job`). The state is
        ``open`` when it is still being decided after `wait_s`; then `wait` waits on. Raises what stood in the
        way, `NotFound` where no machine could ever run it; then it is nowhere.
        """
        checked_job(job)
        once = job.at_most_once or at_most_once or (redundant and not job.rerun)
        job = checked_job(replace(job, at_most_once=bool(once)))
        job.check_offered()
        body = calls.PlaceJob(
            key=key or self.new_key(),
            job=job,
            on=attributes_in(on, "on") if on else (),
            end_by=self.time_s(end_by) if end_by is not None else 0,
            prefer=preferences_in(prefer),
            homes=every(homes, where="homes"),
            implementations=every(implementations, where="implementations"),
            pick=pick,
            redundant=redundant,
            by_limits=by_limits,
            wait_ms=milliseconds(wait_s),
        )
        return settled(await self._caller.call(body, "job_place", calls.RequestView))

    async def book_copies(
        self, request: Request | str, count: int, *,
        duration: Duration | None = None, at: Time | None = None, window: Window = (None, None),
        note: str = "", priority: int = 0, prefer: Preferred = (), agent: Agent = "",
        arguments: ArgumentValues | None = None, agent_must_run: bool = False,
        patience: calls.Patience = "held", give_up_at: Time | None = None, key: str = "",
        wait_s: float | None = 30.0, on_progress: Progress | None = None,
    ) -> list[calls.RequestView]:  # fmt: skip
        """Book `request` `count` times over: independent copies, each all or nothing by itself.

        Other arguments as for `book`. Copy n has the key ``KEY-n``, so that a repeated call books
        each copy once. The views come in that order, those of copies that failed among them, with
        their `problem`. Raises what is wrong with all of them; and what went wrong with some call,
        after all have ended: then `resolve` tells what became of each key.
        """
        if not isinstance(count, int) or not 1 <= count <= COPIES_MAX:
            raise InvalidInput(
                f"{count!r} copies",
                where="count",
                remedy=f"ask for 1 to {COPIES_MAX}",
            )
        numbers = [f"-{number}" for number in range(1, count + 1)]
        script = named_script(agent)
        wanted = self.request(
            request, duration=duration, at=at, window=window, note=note, priority=priority,
            prefer=prefer, agent=script.name, arguments=arguments, agent_must_run=agent_must_run,
        )  # fmt: skip
        options = _BookingOptions(patience, give_up_at, key, wait_s, on_progress)
        return list(await self._booked(wanted, script, options, numbers=numbers))

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

        With `until_listed` also once it is on waiting lists, with `until_asked` once owners are to
        approve it. Raises what stood in its way, as `book`
        does, and nothing is booked then.
        """
        if wait_s is not None:
            milliseconds(wait_s)
        return settled(
            await self._follower.settled(
                await self.full_id(id),
                wait_s=wait_s,
                on_progress=on_progress,
                until_listed=until_listed,
                until_asked=until_asked,
            )
        )

    async def resolve(self, key: str) -> calls.RequestView:
        """Settle an `OutcomeUnknown`: the request made with `key`, in whatever state it is now.

        Raises `NotFound` when it never arrived: it is safe to send it again with the same key.
        """
        return await self._caller.call(calls.ByKey(key=key), "by_key", calls.RequestView)

    by_key = resolve

    async def watch(self, id: str = "", *, after: int = -1) -> AsyncIterator[calls.Event]:
        """Yield the events of the caller's requests (or of `id`); never end by itself.

        Goes on after event number `after` (to resume), or from now on; lost connections are made
        again without missing an event.
        """
        id = await self.full_id(id) if id else ""
        wait_s = 0.0 if after < 0 else WATCH_WAIT_S
        while True:
            seen = await self.events(after, id=id, wait_s=wait_s)
            for event in seen.events:
                yield event
            after, wait_s = seen.next, WATCH_WAIT_S

    async def events(
        self, after: int = -1, *, id: str = "", wait_s: float = WATCH_WAIT_S
    ) -> calls.Events:
        """Return one look for `watch`: what happened after event number `after`, -1 for from now on."""
        id = await self.full_id(id) if id else ""
        body = calls.Watch(after=after, id=id, wait_ms=milliseconds(wait_s))
        return await self._caller.call(body, "watch", calls.Events)

    async def _booked(
        self,
        request: Request,
        script: NamedScript,
        options: _BookingOptions,
        *,
        hold_s: int | None = None,
        numbers: Sequence[str] = ("",),
        job: JobRequest | None = None,
        jobs: Mapping[str, JobRequest] = MappingProxyType({}),
    ) -> tuple[calls.RequestView, ...]:
        """Return the view of one booking for each of `numbers`, which ends its key.

        Held where `hold_s` is given.
        """
        asked = calls.Book(
            key=options.key or self.new_key(),
            request=request,
            hold=hold_s is not None,
            patience=options.patience,
            give_up_at=0 if options.give_up_at is None else self.time_s(options.give_up_at),
            job=job,
            jobs=dict(jobs),
        )
        if hold_s is not None:
            asked = replace(asked, hold_s=hold_s)
        bodies = [replace(asked, key=f"{asked.key}{number}") for number in numbers]
        await self._upload(script)
        answers = await asyncio.gather(
            *(self._decided(body, options) for body in bodies), return_exceptions=True
        )
        views: tuple[calls.RequestView, ...] = ()
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            views += (answer,)
        return views

    async def _decided(self, body: calls.Book, options: _BookingOptions) -> calls.RequestView:
        """Send `body` and follow the request if one call does not wait long enough."""
        wait_s, on_progress = options.wait_s, options.on_progress
        if wait_s is not None:
            milliseconds(wait_s)
        first_s = CALL_WAIT_S_MAX if wait_s is None else min(wait_s, CALL_WAIT_S_MAX)
        if on_progress is not None:
            first_s = min(first_s, PROMPT_S)
        elif wait_s is None:
            first_s = WATCH_WAIT_S
        body = replace(body, wait_ms=milliseconds(first_s))
        view = await self._caller.call(body, "book", calls.RequestView)
        left_s = None if wait_s is None else wait_s - first_s
        if view.state != "open" or (left_s is not None and left_s <= 0):
            return view
        return await self._follower.settled(
            view.id, wait_s=left_s, on_progress=on_progress, until_asked=True
        )
