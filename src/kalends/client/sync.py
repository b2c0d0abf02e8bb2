"""The synchronous client: every method of `Client`, waiting for its answer."""

from __future__ import annotations

import queue
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Self,
    TypeVar,
    cast,
)

from kalends.client.client import Client
from kalends.client.connection import connect
from kalends.client.methods.follower import Progress
from kalends.client.transports.loop_thread import LoopThread, answer
from kalends.contract.calls import RequestView

if TYPE_CHECKING:
    from kalends.client.client_settings import ClientSettings
    from kalends.client.terminals.job_terminal import JobTerminal

P = ParamSpec("P")
T = TypeVar("T")


def _at_once(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Wrap `method` of `Client`, which calls no server and does not wait."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **keywords: P.kwargs) -> T:
        return method(self._client, *args, **keywords)

    return call


def _waiting(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Wrap `method` of `Client` to run on the client's own event loop until it answers."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **keywords: P.kwargs) -> T:
        return self._run(method(self._client, *args, **keywords))

    return call


def _reporting(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Wrap a method with `on_progress`, which is called in the caller's own thread."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **keywords: P.kwargs) -> T:
        on_progress = cast(Progress | None, keywords.get("on_progress"))
        if on_progress is None:
            return self._run(method(self._client, *args, **keywords))
        seen: queue.SimpleQueue[RequestView | None] = queue.SimpleQueue()
        keywords["on_progress"] = seen.put
        return self._run_reporting(method(self._client, *args, **keywords), seen, on_progress)

    return call


def _iterating(
    method: Callable[Concatenate[Client, P], AsyncIterator[T]],
) -> Callable[Concatenate[SyncClient, P], Iterator[T]]:
    """Wrap a method that yields; waits for each item when it is requested."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **keywords: P.kwargs) -> Iterator[T]:
        items = method(self._client, *args, **keywords)
        while (item := self._run(_next(items))) is not None:
            yield item

    return call


class SyncClient:
    """A synchronous `Client`, usable from several threads. `connect_sync` makes one.

    It connects at its first call, and works inside a running event loop, as in a notebook, too: its
    connections live on a loop in a thread of their own. They end with `close`, at the end of a ``with``,
    when nobody has the client any more, and with the program. An interrupt (Ctrl-C) gives up the answer,
    not what was asked.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread = LoopThread(client.close)
        weakref.finalize(self, self._thread.end, 0.0).atexit = False

    def __repr__(self) -> str:
        return repr(self._client)

    def __enter__(self) -> Self:
        try:
            self._run(self._client.__aenter__())
        except BaseException:
            # Without `__enter__` no `__exit__` comes: end the thread here, and raise again.
            self.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread. A later call connects again."""
        self._thread.end()

    def at_site(self, site: str) -> SyncClient:
        """Return a client of a site that this broker books at, as the same user; see `Client.at_site`."""
        return SyncClient(self._run(self._client.at_site(site)))

    @property
    def settings(self) -> ClientSettings:
        """The settings of the connection to the server."""
        return self._client.settings

    request = _at_once(Client.request)
    time_s = _at_once(Client.time_s)
    period_s = _at_once(Client.period_s)
    start_s = _at_once(Client.start_s)
    new_key = _at_once(Client.new_key)
    ics = _at_once(Client.ics)
    health = _waiting(Client.health)
    whoami = _waiting(Client.whoami)
    resources = _waiting(Client.resources)
    calendar = _waiting(Client.calendar)
    find = _waiting(Client.find)
    book = _reporting(Client.book)
    hold = _reporting(Client.hold)
    book_copies = _reporting(Client.book_copies)
    submit_in_step = _reporting(Client.submit_in_step)
    place_job = _waiting(Client.place_job)
    wait = _reporting(Client.wait)
    waiting_list = _waiting(Client.waiting_list)
    submit = _waiting(Client.submit)
    submit_many = _iterating(Client.submit_many)
    jobs = _waiting(Client.jobs)
    job = _waiting(Client.job)
    job_news = _waiting(Client.job_news)
    moved_jobs = _waiting(Client.moved_jobs)
    hold_job = _waiting(Client.hold_job)
    release_job = _waiting(Client.release_job)
    kill_job = _waiting(Client.kill_job)
    job_output = _waiting(Client.job_output)
    job_usage = _waiting(Client.job_usage)
    slots = _waiting(Client.slots)
    job_history = _waiting(Client.job_history)
    machine_plan = _waiting(Client.machine_plan)
    machine_gaps = _waiting(Client.machine_gaps)
    machine_delays = _waiting(Client.machine_delays)
    serve_nodes = _waiting(Client.serve_nodes)
    host_lost = _waiting(Client.host_lost)
    set_policy = _waiting(Client.set_policy)
    replan = _waiting(Client.replan)
    book_series = _waiting(Client.book_series)
    find_series = _waiting(Client.find_series)
    series = _waiting(Client.series)
    series_id = _waiting(Client.series_id)
    retry_series = _waiting(Client.retry_series)
    cancel_series = _waiting(Client.cancel_series)
    move_series = _waiting(Client.move_series)
    extend_series = _waiting(Client.extend_series)
    shrink_series = _waiting(Client.shrink_series)
    share = _waiting(Client.share)
    unshare = _waiting(Client.unshare)
    give = _waiting(Client.give)
    accept_offer = _waiting(Client.accept_offer)
    decline_offer = _waiting(Client.decline_offer)
    add_link = _waiting(Client.add_link)
    revoke_link = _waiting(Client.revoke_link)
    lock = _waiting(Client.lock)
    release = _waiting(Client.release)
    cancel = _waiting(Client.cancel)
    move = _waiting(Client.move)
    start_after_move_s = _waiting(Client.start_after_move_s)
    place_elsewhere = _waiting(Client.place_elsewhere)
    extend = _waiting(Client.extend)
    shrink = _waiting(Client.shrink)
    show = _waiting(Client.show)
    why = _waiting(Client.why)
    resolve = _waiting(Client.resolve)
    by_key = resolve
    list = _waiting(Client.list)
    events = _waiting(Client.events)
    full_id = _waiting(Client.full_id)
    reservations = _iterating(Client.reservations)
    watch = _iterating(Client.watch)
    watch_job = _iterating(Client.watch_job)
    watch_jobs = _iterating(Client.watch_jobs)
    follow_output = _iterating(Client.follow_output)
    past_jobs = _iterating(Client.past_jobs)
    past_slots = _iterating(Client.past_slots)
    upload_agent = _waiting(Client.upload_agent)
    notice_addresses = _waiting(Client.notice_addresses)
    add_notice_address = _waiting(Client.add_notice_address)
    remove_notice_address = _waiting(Client.remove_notice_address)
    test_notice_address = _waiting(Client.test_notice_address)
    feeds = _waiting(Client.feeds)
    add_feed = _waiting(Client.add_feed)
    revoke_feed = _waiting(Client.revoke_feed)
    agents = _waiting(Client.agents)
    agent = _waiting(Client.agent)
    delete_agent = _waiting(Client.delete_agent)
    tell_agent = _waiting(Client.tell_agent)
    agent_runs = _waiting(Client.agent_runs)
    agent_run = _waiting(Client.agent_run)
    audit = _waiting(Client.audit)
    bidders = _waiting(Client.bidders)
    drain = _waiting(Client.drain)
    reconcile = _waiting(Client.reconcile)
    reclaim = _waiting(Client.reclaim)
    reclaims = _waiting(Client.reclaims)
    close_site = _waiting(Client.close_site)
    open_site = _waiting(Client.open_site)
    end_reclaim = _waiting(Client.end_reclaim)
    check_in = _waiting(Client.check_in)
    today = _waiting(Client.today)
    approvals = _waiting(Client.approvals)
    approve = _waiting(Client.approve)
    decline = _waiting(Client.decline)
    grant_credits = _waiting(Client.grant_credits)
    take_credits = _waiting(Client.take_credits)
    credits = _waiting(Client.credits)
    credit_entries = _waiting(Client.credit_entries)
    broker_sites = _waiting(Client.broker_sites)
    announce_site = _waiting(Client.announce_site)
    add_site = _waiting(Client.add_site)
    remove_site = _waiting(Client.remove_site)

    def attach(
        self,
        machine: str,
        number: int,
        *,
        keys: bool = True,
        size: tuple[int, int] = (24, 80),
        whole: bool = False,
    ) -> SyncJobTerminal:
        """Return an attachment to a job's terminal, see `Client.attach`."""
        terminal = self._run(
            self._client.attach(machine, number, keys=keys, size=size, whole=whole)
        )
        return SyncJobTerminal(terminal, self._run)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return answer(self._thread.submit(work))

    def _run_reporting(
        self,
        work: Coroutine[Any, Any, T],
        seen: queue.SimpleQueue[RequestView | None],
        on_progress: Progress,
    ) -> T:
        """Run `work`, and pass items that it puts into `seen` to a function in this thread."""
        submitted = self._thread.submit(work)
        submitted.add_done_callback(lambda _: seen.put(None))
        try:
            while (view := seen.get()) is not None:
                on_progress(view)
        except BaseException:
            # Also at Ctrl-C, when the answer is no longer wanted.
            submitted.cancel()
            raise
        return answer(submitted)


def in_background(
    client: SyncClient, work: Callable[[Client], Coroutine[Any, Any, T]]
) -> Future[T]:
    """Start `work` with the asynchronous client behind `client`, on its event loop.

    Closing `client` cancels it.
    """
    return client._thread.submit(work(client._client))


async def _next(watching: AsyncIterator[T]) -> T | None:
    return await anext(watching, None)


class SyncJobTerminal:
    """A `JobTerminal` for code without an event loop. Its calls may be made from several threads."""

    def __init__(
        self, terminal: JobTerminal, run: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        self._terminal = terminal
        self._run = run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.detach()

    @property
    def at_keys(self) -> bool:
        """Whether this terminal has the keyboard input."""
        return self._terminal.at_keys

    def read(self) -> bytes:
        """Return the next output of the job, see `JobTerminal.read`."""
        data: bytes = self._run(self._terminal.read())
        return data

    def write(self, data: bytes) -> None:
        """Send keyboard input, see `JobTerminal.write`; another thread must read at the same time."""
        self._run(self._terminal.write(data))

    def end_input(self) -> None:
        """Send the end of input, see `JobTerminal.end_input`."""
        self._run(self._terminal.end_input())

    def resize(self, rows: int, columns: int) -> None:
        """Send the size of the window, see `JobTerminal.resize`."""
        self._run(self._terminal.resize(rows, columns))

    def detach(self) -> None:
        """Detach; the job continues."""
        self._run(self._terminal.detach())


def _synchronous(make: Callable[P, Client]) -> Callable[P, SyncClient]:
    @wraps(make)
    def made(*args: P.args, **keywords: P.kwargs) -> SyncClient:
        return SyncClient(make(*args, **keywords))

    return made


connect_sync = _synchronous(connect)
"""Connect synchronously, see `kalends.connect`: ``client = connect_sync(url)``, or ``with`` it."""
