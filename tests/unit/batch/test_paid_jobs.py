"""A machine's jobs are paid by the ledger of the site: reserved when submitted, charged once when over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.test_queue_service import BOX, STORED_S, TERMS, Clock, queues_of_a_site

from kalends.batch.journal.sqlite.job_journal import SqliteJobJournal
from kalends.batch.queue import facts as f
from kalends.batch.queue.accounts import liens_of
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.service import QueueService
from kalends.calendars import OwnerRules, PriceRule, Prices, Recurrence
from kalends.core.errors import LimitExceeded, NoCommonTime, NotAllowed, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.money import CREDIT
from kalends.core.principals import Principal
from kalends.resource_servers.jobs.job_ledger import JobLedger
from kalends.resource_servers.journal.sqlite.credit_table import stored_entries
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.resource_servers.participation.credits.accounts import PayingAccount, PayingAccounts
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.participant import Participant
from kalends.stores.group_commit import GroupCommit

HOUR = 3_600
ANN = Principal("ann")
MIDNIGHT = STORED_S // 86_400 * 86_400
"""The night is cheap, until 06:00 UTC; the tests begin then."""

PRICES = Prices(
    [
        PriceRule(
            "night", "everyone", 1_000, (Recurrence("FREQ=DAILY", "00:00", 6 * HOUR, "UTC"),)
        ),
        PriceRule("all", "everyone", 10_000),
    ]
)
ACCOUNTS = PayingAccounts(
    [
        PayingAccount("project:dna", ("user:ann",), parent="project:chem"),
        PayingAccount("project:chem"),
    ]
)


class Paid:
    """A site with a machine of four nodes, whose nodes cost 10 credits for an hour, at night 1."""

    def __init__(self, clock: Clock, queue: BatchQueue) -> None:
        self.clock, self.queue = clock, queue
        self.service: QueueService
        self.credits: Credits
        self.keys = 0

    def made(self, participant: Participant) -> None:
        self.credits = participant.wing(Credits)

    def grant(self, account: str, credits: float) -> None:
        self.keys += 1
        amount, now = int(credits * CREDIT), Moment(0, self.clock.wall_s * 1_000)
        self.credits.grant(f"grant-{self.keys}", account, amount, now)

    def submit(self, **asked: object) -> int:
        self.keys += 1
        fields = {"machine": BOX, "limit_s": HOUR, "command": ("true",), **asked}
        request, key = JobRequest(**fields), f"key-{self.keys}"  # type: ignore[arg-type] # as typed
        ledger: JobLedger = self.service._ledger  # type: ignore[assignment] # it is this one
        return self.service.step(
            BOX,
            lambda queue, now: queue.submit(
                ANN, request, key, now, ledger.reserve(ANN, queue, request)
            )[0],
        )

    def end(self, number: int, kind: f.EndKind = "exit", ran_s: float = 0.0) -> None:
        attempt = self.queue.job(number).attempt
        self.service.step(BOX, lambda queue, now: queue.begun(number, attempt, now))
        ending = f.JobEnding(kind=kind, ran_s=ran_s)
        self.service.step(BOX, lambda queue, now: queue.ended(number, attempt, ending, now))
        self.credits.check()

    def has(self, account: str = "user:ann") -> tuple[float, float]:
        """The balance, and what of it is reserved."""
        balance = self.credits.ledger.balance(account)
        return balance / CREDIT, self.credits.reserved(account) / CREDIT


@asynccontextmanager
async def paid(path: Path, start: int = MIDNIGHT, **terms: int) -> AsyncIterator[Paid]:
    store = SiteStore.open(path, "lab", sync="off")
    with store.file.connection as connection:
        entries = [*SqliteJobJournal(connection).entries_after(BOX, 0)]
        known = stored_entries(connection)
    store.close()
    queue = BatchQueue(BOX, TERMS, start, entries)
    clock = Clock(max(start, queue.last_s))
    site = Paid(clock, queue)
    async with queues_of_a_site(
        path, clock, queue, made=site.made, rules=OwnerRules(prices=PRICES),
        payments=partial(
            Credits, accounts=ACCOUNTS, entries=known, of_jobs=[queue.flow.accounts.reserved]
        ),
    ) as service:  # fmt: skip
        site.service = service
        service.begin()
        yield site


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lab.sqlite"


async def test_a_job_reserves_what_it_costs_at_most_and_is_charged_what_it_used(path: Path) -> None:
    async with paid(path) as site:
        site.grant("user:ann", 50)
        number = site.submit(nodes=2)
        assert site.has() == (50, 20), "an hour of two nodes at the dearest price"
        site.clock.pass_s(HOUR // 2)
        site.end(number)
        assert site.has() == (49, 0), "it ran for half an hour at night"


async def test_a_job_over_the_end_of_the_night_pays_each_price_for_its_time(path: Path) -> None:
    async with paid(path, MIDNIGHT + 6 * HOUR - 600) as site:
        site.grant("user:ann", 50)
        number = site.submit()
        site.clock.pass_s(1_200)
        site.end(number)
        balance, _ = site.has()
        assert balance == pytest.approx(50 - (1 + 10) / 6)


async def test_what_a_job_runs_beyond_its_limit_is_the_owners(path: Path) -> None:
    async with paid(path, MIDNIGHT + 12 * HOUR) as site:
        site.grant("user:ann", 50)
        number = site.submit()
        site.clock.pass_s(HOUR + 300)
        site.end(number, "limit")
        assert site.has() == (40, 0)


@pytest.mark.parametrize("held_s", [10 * HOUR, 60, 0])
async def test_what_its_shepherd_has_measured_is_paid_where_the_sites_clock_cannot_be_right(
    path: Path, held_s: int
) -> None:
    """A site that was down for long learns late of an end; a clock that was set back is too early."""
    async with paid(path, MIDNIGHT + 12 * HOUR) as site:
        site.grant("user:ann", 50)
        number = site.submit(nodes=2)
        site.clock.pass_s(held_s)
        site.end(number, ran_s=HOUR / 3)
        assert site.has()[0] == pytest.approx(50 - 2 * 10 / 3)


async def test_the_prices_of_the_time_that_it_ran_are_paid_though_its_end_is_heard_late(
    path: Path,
) -> None:
    async with paid(path, MIDNIGHT + 6 * HOUR - 600) as site:
        site.grant("user:ann", 50)
        number = site.submit()
        site.clock.pass_s(10 * HOUR)
        site.end(number, ran_s=1_200.0)
        assert site.has()[0] == pytest.approx(50 - (1 + 10) / 6)


async def test_a_job_that_cannot_be_paid_is_refused_and_nothing_is_reserved(path: Path) -> None:
    async with paid(path) as site:
        site.grant("user:ann", 15)
        with pytest.raises(LimitExceeded, match=r"costs 20\.00 credits, and user:ann has 15\.00"):
            site.submit(nodes=2)
        assert site.has() == (15, 0)
        site.submit()
        with pytest.raises(
            LimitExceeded, match=r"has 5\.00 free here for that time: 10\.00 are reserved"
        ):
            site.submit()
        with pytest.raises(NotAllowed, match="no project rna"):
            site.submit(project="rna")
        assert not site.queue.flow.table.jobs.keys() - {1}


async def test_a_job_that_may_cost_more_than_its_budget_is_refused_whoever_could_pay_for_it(
    path: Path,
) -> None:
    async with paid(path) as site:
        site.grant("user:ann", 100)
        with pytest.raises(NoCommonTime, match="above your limit") as refused:
            site.submit(nodes=2, at_most=int(19.5 * CREDIT))
        (refusal,) = refused.value.refusals
        assert (refusal.where, refusal.code) == (BOX, RefusalCode.PRICE)
        assert refusal.detail == "it may cost 20.00 credits, of at most 19.50"
        with pytest.raises(NoCommonTime):
            site.submit(indices=(1, 2, 3), at_most=29 * CREDIT)
        assert site.has() == (100, 0)
        site.submit(nodes=2, at_most=20 * CREDIT)
        assert site.has() == (100, 20)


async def test_a_project_pays_with_the_budget_that_it_is_part_of(path: Path) -> None:
    async with paid(path) as site:
        site.grant("project:dna", 50)
        site.grant("project:chem", 15)
        number = site.submit(project="dna")
        assert site.has("project:dna") == (50, 10)
        assert site.has("project:chem") == (15, 10)
        with pytest.raises(LimitExceeded, match="the budget that project:dna is part of"):
            site.submit(project="dna")
        site.clock.pass_s(HOUR)
        site.end(number)
        assert site.has("project:dna") == (49, 0)
        assert site.has("project:chem") == (14, 0)


async def test_each_job_of_an_array_gives_back_its_own_part(path: Path) -> None:
    async with paid(path, MIDNIGHT + 12 * HOUR) as site:
        site.grant("user:ann", 15)
        site.grant("user:ann", 25)
        first = site.submit(indices=(1, 2, 3), nodes=1)
        assert site.has() == (40, 30)
        site.clock.pass_s(HOUR // 2)
        site.end(first)
        assert site.has() == (35, 20)
        site.service.step(BOX, lambda queue, now: queue.cancel(first + 2, "", now))
        site.end(first + 2, "killed")
        site.clock.pass_s(HOUR // 2)
        site.end(first + 1)
        assert site.has() == (20, 0)
        assert set(site.queue.flow.accounts.reserved.values()) == {0}


@pytest.mark.parametrize("kind", ["lost", "node-failed", "not-started"])
async def test_nobody_pays_for_what_was_not_their_doing(path: Path, kind: f.EndKind) -> None:
    async with paid(path) as site:
        site.grant("user:ann", 50)
        number = site.submit()
        site.clock.pass_s(60)
        site.end(number, kind)
        assert site.has() == (50, 0)


async def test_a_restart_keeps_what_is_reserved_and_charges_no_job_twice(path: Path) -> None:
    async with paid(path) as site:
        site.grant("user:ann", 50)
        done, runs = site.submit(), site.submit(nodes=2)
        site.clock.pass_s(HOUR // 2)
        site.end(done)
        before = site.has()
    assert before == (49.5, 20)
    async with paid(path) as again:
        assert again.has() == before
        job = again.queue.job(runs)
        again.clock.pass_s(HOUR // 2)
        again.end(runs)
        after = again.has()
        again.credits.job_over(BOX, runs, "ann", "user:ann", job.charge, (), again.clock.wall_s)
        assert again.has() == after == (47.5, 0)
    async with paid(path) as last:
        assert last.has() == after


async def test_a_job_is_charged_by_the_write_that_stores_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash in between would charge it, keep its credit reserved, and tell another cost later."""
    written: list[set[str]] = []
    submit = GroupCommit.submit

    def noted(self: Any, operations: Any, done: Any, failed: Any) -> None:
        written.append({type(each).__name__ for each in operations})
        submit(self, operations, done, failed)

    async with paid(path) as site:
        site.grant("user:ann", 50)
        number = site.submit(nodes=2)
        site.clock.pass_s(HOUR)
        monkeypatch.setattr(GroupCommit, "submit", noted)
        site.end(number)
        assert site.has() == (48, 0)
    with_charges = [each for each in written if "EntryStored" in each]
    assert with_charges == [{"EntryStored", "JobOver", "JobEntries"}]


async def test_a_price_that_changes_while_a_job_runs_does_not_change_its_cost(path: Path) -> None:
    async with paid(path) as site:
        site.grant("user:ann", 50)
        number = site.submit()
        calendar = site.credits.book.calendars[BOX]
        calendar.rules.prices = Prices([PriceRule("dear", "everyone", 9_999_000)])
        site.clock.pass_s(HOUR)
        site.end(number)
        assert site.has() == (49, 0)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=4),
    st.integers(1, 20),
    st.integers(1, 9),
)
def test_the_parts_of_all_jobs_of_an_array_are_what_is_reserved(
    lots: list[int], most: int, count: int
) -> None:
    amounts, left = [], most * count
    for lot in lots:
        amounts.append(min(lot, left))
        left -= amounts[-1]
    amounts.append(left)
    shares = tuple(
        f.JobShare(account, f"lot {number}", amount)
        for account in ("user:ann", "project:dna")
        for number, amount in enumerate(amounts)
        if amount
    )
    pays = f.JobPays("user:ann", most, shares)
    parts = [pays.shares_of(place) for place in range(count)]
    for account in ("user:ann", "project:dna"):
        for part in parts:
            assert sum(each.amount for each in part if each.account == account) == most
    for share in shares:
        found = [each for part in parts for each in part]
        same = [each for each in found if (each.account, each.lot) == (share.account, share.lot)]
        assert sum(each.amount for each in same) == share.amount


async def test_the_facts_alone_tell_what_jobs_have_reserved(path: Path) -> None:
    """Also if no queue can be made of them."""
    async with paid(path) as site:
        site.grant("user:ann", 500)
        runs, again, ends = site.submit(), site.submit(rerun=True), site.submit()
        site.submit(nodes=2, indices=(1, 2, 3))
        waits = site.submit(not_before=site.clock.wall_s + HOUR)
        site.service.step(BOX, lambda queue, now: queue.cancel(waits, "", now))
        site.end(runs)
        site.end(again, "lost")
        site.end(ends, "node-failed")
        reserved = site.queue.flow.accounts.reserved
        assert site.has()[1] == 10 + 3 * 20
    store = SiteStore.open(path, "lab", sync="off")
    with store.file.connection as connection:
        assert liens_of(SqliteJobJournal(connection).entries_after(BOX, 0)) == +reserved
    store.close()
