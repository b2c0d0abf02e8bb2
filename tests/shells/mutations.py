"""The product gone wrong, one line at a time: what the scenarios must notice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from kalends.broker import service
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.record.decision_record import Unreadable
from kalends.broker.reconciliation.recognition import Recognition
from kalends.broker.reconciliation.reconciler import Reconciler
from kalends.broker.register.sqlite import notice_table
from kalends.broker.register.sqlite.register_reads import RegisterReads
from kalends.broker.register.sqlite.sqlite_rows import SqliteRows
from kalends.broker.sites import site_link
from kalends.broker.sites.site_link import SiteLink
from kalends.calendars.covers import Cover
from kalends.contract import agreement
from kalends.core.errors import NoCommonTime
from kalends.core.features import Feature
from kalends.notices import delivery_table
from kalends.notices.delivery import DeliveriesDone
from kalends.resource_servers.neighbours import links
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.contention.waiting_list import WaitingListEntry
from kalends.resource_servers.participation.memory.past import Past
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.reclaims import reclaim_choice
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.service import SiteEngine
from kalends.servers import restored_participant
from kalends.serving.http.dispatch import Dispatcher
from kalends.stores.sqlite import sqlite_file
from kalends.stores.sqlite.transactions import SqliteTransactions
from tests.simulation import (
    climates,
    mutations,
    mutations_of_forgetting,
    mutations_of_limits,
    mutations_of_waiting,
)
from tests.support.late_store import READS

MUTATIONS: dict[str, Callable[[], None]] = {}


def mutation(change: Callable[[], None]) -> Callable[[], None]:
    """`change` breaks the product in this process, for good."""
    MUTATIONS[change.__name__] = change
    return change


@mutation
def nothing_is_ever_booked() -> None:
    """Whoever asks for a reservation, or for a job, is refused; all else is done."""
    asked = {"book", "job_place", "job_submit", "jobs_submit"}
    initial = Dispatcher.__init__

    def refuse(caller: Any, body: Any) -> Any:
        raise NoCommonTime("no start suits all of it")

    def refusing(self: Dispatcher, misdirected: Any, handlers: Any, *more: Any) -> None:
        refused = dict.fromkeys(asked & handlers.keys(), refuse)
        initial(self, misdirected, {**handlers, **refused}, *more)

    Dispatcher.__init__ = refusing  # type: ignore[method-assign]


@mutation
def synchronous_normal() -> None:
    """Commits are not synced."""
    sqlite_file.open_store.__kwdefaults__["sync"] = "normal"


@mutation
def everybody_is_told_everything() -> None:
    """Servers do not look what others know."""
    site_link.fitted = lambda message, known: message
    links.fitted = lambda message, known: message


@mutation
def what_matters_is_left_out_like_a_hint() -> None:
    """What a site does not know is left out, and the rest is asked for."""
    fitted = agreement.fitted

    def halved(message, known):  # type: ignore[no-untyped-def]
        while isinstance(said := fitted(message, known), Feature):
            defaults = {
                name: mark.default
                for name, mark in agreement.marks(type(message)).items()
                if mark.since.feature == said
            }
            message = msgspec.structs.replace(message, **defaults)
        return said

    site_link.fitted = links.fitted = halved


@mutation
def say_then_store() -> None:
    """A site sends its messages before their facts are durable."""
    carry_out = SiteEngine._carry_out

    def too_early(self):  # type: ignore[no-untyped-def]
        take = self.participant.take_effects

        def taken():  # type: ignore[no-untyped-def]
            effects = take()
            self._deliver(effects.sends)
            return effects

        self.participant.take_effects = taken
        try:
            return carry_out(self)
        finally:
            self.participant.take_effects = take

    SiteEngine._carry_out = too_early  # type: ignore[method-assign]


@mutation
def links_prove_themselves_once() -> None:
    """A link is believed for as long as its first token, and no longer."""

    async def prove_nothing(self: SiteLink) -> None:
        await asyncio.Event().wait()

    SiteLink._prove = prove_nothing  # type: ignore[method-assign]


@mutation
def lists_take_every_word_as_heard() -> None:
    """What a list has told once is not told again, whatever became of the link."""
    WaitingListEntry.missed = property(lambda self: False)  # type: ignore[assignment, method-assign]


@mutation
def a_lock_is_a_failure() -> None:
    """A store that another replica keeps locked is given up, as one whose disk fails."""

    def begin(self: SqliteTransactions[Any, Any], closing: object) -> None:
        self._connection.execute("begin immediate")

    SqliteTransactions._begin = begin  # type: ignore[method-assign]


@mutation
def the_register_answers_late() -> None:
    """Nothing is broken by that: a broker's questions to its store are answered late."""
    chance = random.Random("late")

    async def answered_late(answer: Any) -> Any:
        found = await answer
        await asyncio.sleep(chance.choice((0, 0.001, 0.01, 0.1, 0.3)))
        return found

    for name in READS:
        read = getattr(RegisterReads, name)

        def late(store: RegisterReads, *asked: Any, read: Any = read) -> Any:
            return answered_late(read(store, *asked))

        setattr(RegisterReads, name, late)


@mutation
def one_row_spoils_all() -> None:
    """Whoever reads rows that nobody works on meets the unreadable one, and gets none."""
    left_behind = RegisterReads.left_behind

    async def all_or_none(*arguments: Any) -> Any:
        found = await left_behind(*arguments)
        if any(isinstance(row, Unreadable) for row in found):
            raise msgspec.DecodeError("a row cannot be read")
        return found

    RegisterReads.left_behind = all_or_none  # type: ignore[method-assign]


@mutation
def an_older_past_is_accepted() -> None:
    """A site looks at nothing that others remember of it, and at none of its epochs."""
    Past.includes = lambda past, register, mark, position: True  # type: ignore[method-assign]


@mutation
def a_new_life_waits_for_nobody() -> None:
    """A site that has just begun takes what the first broker asks, whoever else is to come."""
    Registers.missing = lambda registers: set()  # type: ignore[method-assign]


@mutation
def a_forgotten_promise_counts() -> None:
    """A broker goes on with the promises of a site that was put back, and compares only once; nor does the
    site say so when it hears what became of one.
    """
    Coordinator.site_forgot = lambda coordinator, site, now: None  # type: ignore[method-assign]
    begin = Reconciler.begin

    def begin_once(comparisons: Reconciler, site: str, *, again: bool = False) -> None:
        begin(comparisons, site)

    Reconciler.begin = begin_once  # type: ignore[method-assign]
    Recovery.tell_forgotten = lambda recovery, source, rid: None  # type: ignore[method-assign]


@mutation
def an_older_register_is_accepted() -> None:
    """A broker looks at nothing that sites remember of its register."""
    Recognition.hear = lambda recognition, site, marks, lives: True  # type: ignore[method-assign]


@mutation
def an_owner_asks_once() -> None:
    """What was promised when its time was taken back, or told to nobody, is not asked for again."""
    ReclaimReminders.ask_for_locked = lambda self, stake, rid, att: None  # type: ignore[method-assign]
    ReclaimReminders.remind_all = lambda self, now: None  # type: ignore[method-assign]
    ReclaimReminders.next_deadline_ms = lambda self: None  # type: ignore[method-assign]
    ReclaimReminders.advance = lambda self, now: None  # type: ignore[method-assign]


@mutation
def what_was_taken_back_is_forgotten() -> None:
    """A site that starts again knows nothing of what its owner has taken back."""
    ReclaimReminders.restore = lambda self, reclaims, now: None  # type: ignore[method-assign]


@mutation
def nobody_goes_for_a_part() -> None:
    """Units that an owner has taken back, and that somebody has, are asked of nobody."""
    reclaim_choice._fewest_beyond = lambda told, lacks: Cover(frozenset(), True)


@mutation
def a_second_word_is_taken() -> None:
    """A site that was put back takes a word again, before the broker has come that knows the first."""
    OwnerApproval._check_is_certain = lambda self, stake, rid: None  # type: ignore[method-assign]


def _as_participant(broken: Any) -> Callable[[], None]:
    def install() -> None:
        restored_participant.site_machine = broken  # type: ignore[misc]

    return install


def _as_coordinator(broken: type) -> Callable[[], None]:
    def install() -> None:
        service.Coordinator = mutations.coordinator_with(broken)  # type: ignore[misc]

    return install


def _of_the_machines() -> Iterator[tuple[str, Callable[[], None]]]:
    """The machines gone wrong, as `tests.simulation` has them, in the shipped shells."""
    for module in (mutations, mutations_of_forgetting, mutations_of_limits, mutations_of_waiting):
        for name, broken in vars(module).items():
            if isinstance(broken, partial) and name not in vars(climates):
                yield name, _as_participant(broken)
            elif not isinstance(broken, type) or broken.__module__ != module.__name__:
                continue
            elif mutations.is_of_coordinator(broken):
                yield name, _as_coordinator(broken)


MUTATIONS.update(_of_the_machines())


@mutation
def wake_up_lost_on_reconnect() -> None:
    """Whoever asks for a place on a list again has seen all that was offered there."""
    from kalends.resource_servers.participation.contention.waiting_list_offers import WaitingLists

    def follow(self, listed, known):  # type: ignore[no-untyped-def]
        listed.news = listed.wish.seen
        return self._end_offer(known)

    WaitingLists.follow = follow  # type: ignore[method-assign]


@mutation
def letters_live_in_memory() -> None:
    """What is made into deliveries is not told in the store any more, and the deliveries are not stored."""
    SqliteRows.put_delivery = lambda self, delivery: None  # type: ignore[method-assign]


@mutation
def all_are_told_of_everything() -> None:
    """Deliveries go to the addresses of every user."""

    def of_anybody(connection, user):  # type: ignore[no-untyped-def]
        found = connection.execute("select * from notice_address").fetchall()
        return tuple(notice_table.NoticeAddress(*row)._replace(user=user) for row in found)

    notice_table.addresses_of = of_anybody  # type: ignore[assignment]


@mutation
def what_was_told_stays_in_the_store() -> None:
    """Deliveries that were sent are not removed, and come again with the next start."""
    nothing = lambda connection, done: None  # noqa: E731
    delivery_table.remove_deliveries = nothing  # type: ignore[assignment]
    delivery_table.PART.handles[DeliveriesDone] = nothing  # type: ignore[index]
