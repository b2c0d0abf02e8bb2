"""Users whose jobs are paid by the ledger that their bookings are paid by, and a judge with its own books.

The books are made of what queues have stored, and of what has run on the hosts. The cost of a job is
reckoned here once more, second by second. Whatever happens to servers, no job is charged twice, for what did
not run, or beyond what was reserved for it; and once all is over nothing is reserved any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kalends.batch.journal.contract import JobEntries, JobOver
from kalends.batch.queue import facts as f
from kalends.batch.queue.offers import PlaceOffers
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import KalendsError, LimitExceeded, NotFound
from kalends.core.jobs import JobRequest
from kalends.core.money import CREDIT
from kalends.core.principals import Principal
from kalends.resource_servers.journal.contract import Loaded
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.credits.entries import JOB, CreditEntry, job_key
from kalends.resource_servers.participation.credits.ledger import DEBT as OWED
from kalends.resource_servers.participation.effects import SiteFact
from tests.simulation.clocks import EPOCH_S
from tests.simulation.job_hosts import Attempt
from tests.simulation.job_sites import NODES, JobSite, JobWorld
from tests.simulation.kernel import Violation
from tests.simulation.nodes import SiteNode
from tests.simulation.owners_charge import (
    CHARGED,
    DEBT,
    MACHINE_RATES,
    USERS,
    ChargesJudge,
    _fold_soon,
    owners_charge,
)
from tests.simulation.schedule import FAULTS_MS

if TYPE_CHECKING:
    from tests.simulation.world import World

BESIDE_JOBS: Final = CHARGED._replace(clients=3, sagas=4)
"""Some bookings, which are paid by the same accounts."""

JOBS: Final = 9
"""So many times each user submits something."""

AGAIN_MS: Final = 5_000
"""A call that was not answered is repeated after so long."""

RELEASED_MS: Final = 30_000

LIMITS_S: Final = (5, 20, 60)
NOT_CHARGED: Final = ("lost", "node-failed", "not-started")
LATE_S: Final = 60
FOLLOWED_S: Final = 10
"""A queue's clock and its host's may differ by so much before the host's is believed."""


@dataclass
class JobBook:
    """What was stored of a job that is paid."""

    user: str
    account: str
    most: int
    reserved: Counter[tuple[str, str]]
    offered: bool
    is_over: bool = False
    steps: tuple[tuple[int, int, int], ...] = ()
    ended_s: int = 0

    def take(self, fact: f.AnyFact, now_s: int) -> None:
        match fact:
            case f.JobPriced():
                self.steps = fact.steps
            case f.JobEnded():
                self.ended_s = now_s
            case f.OfferTaken():
                self.offered = False
            case f.JobWithdrawn():
                self.is_over |= self.offered
            case _:
                pass


class PaidJobsJudge(ChargesJudge):
    """Judges what jobs have reserved and cost, beside what bookings have."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.jobs_charged = self.jobs_over = self.jobs_refused = 0
        self._jobs: defaultdict[str, dict[int, JobBook]] = defaultdict(dict)
        self._over: defaultdict[str, dict[int, int]] = defaultdict(dict)
        """The jobs of each site that are over, and what they cost."""
        self._keys: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.told: set[tuple[str, str]] = set()
        """Sites and keys of what users were told was submitted."""

    def opened(self, node: SiteNode, loaded: Loaded) -> None:
        """Read again what is stored: it may be less than there was, or one write more."""
        super().opened(node, loaded)
        assert isinstance(node, JobSite)
        self._jobs[node.name], self._over[node.name] = {}, {}
        self._keys[node.name] = Counter()
        self._take(node, node.disk.job_entries(node.machine))
        for over in node.disk.jobs_over(node.machine):
            self._ends(node, over)

    def _stored(self, site: str, facts: Sequence[SiteFact]) -> None:
        node = self._site(site)
        for fact in facts:
            if isinstance(fact, JobEntries):
                self._take(node, fact.entries)
        super()._stored(site, facts)
        for fact in facts:
            if isinstance(fact, JobOver):
                self._ends(node, fact)
                self._is_charged(site, fact.number)
        if not self._recovers(site):
            self._in_debt(site)

    def _site(self, name: str) -> JobSite:
        return next(each for each in self._of_jobs() if each.name == name)

    def _of_jobs(self) -> list[JobSite]:
        assert isinstance(self._world, JobWorld)
        return self._world.job_sites

    # On the way

    def _take(self, node: JobSite, entries: Iterable[f.JournalEntry]) -> None:
        for entry in entries:
            fact = entry.said
            if isinstance(fact, f.JobSubmitted):
                self._submitted(node, fact)
            elif (job := self._jobs[node.name].get(getattr(fact, "job", 0))) is not None:
                job.take(fact, entry.now)

    def _submitted(self, node: JobSite, fact: f.JobSubmitted) -> None:
        request, pays = fact.request, fact.pays
        count = max(len(request.indices), 1)
        if not fact.offered_s:  # An offer that nobody took may be made again.
            self._keys[node.name][fact.key] += 1
        if pays is None:
            raise Violation(f"{node.name} takes job {fact.first}, which nobody pays")
        seconds = request.nodes * request.limit_s
        if not seconds * min(MACHINE_RATES) <= pays.most <= seconds * max(MACHINE_RATES):
            raise Violation(f"{node.name} reserves {pays.most} for {seconds} seconds of a node")
        if sum(each.amount for each in pays.shares) != count * pays.most:
            raise Violation(f"{node.name} reserves {pays.shares} for {count} times {pays.most}")
        for place in range(count):
            reserved: Counter[tuple[str, str]] = Counter()
            for each in pays.shares_of(place):
                reserved[each.account, each.lot] += each.amount
            self._jobs[node.name][fact.first + place] = JobBook(
                fact.principal.user, pays.account, pays.most, reserved, fact.offered_s > 0
            )

    def _enters(self, site: str, entry: CreditEntry) -> None:
        """A charge is for a job that has run, by what was reserved for it."""
        if not entry.key.startswith(JOB):
            return
        self.jobs_charged += 1
        number = int(entry.about.rpartition("/")[2])
        job = self._jobs[site].get(number)
        if job is None or (entry.account, entry.user) != (job.account, job.user):
            raise Violation(f"{site} charges {entry.account} for {entry.about}, which is {job}")
        if not self._site(site).host.ran(number):
            raise Violation(f"{site} charges {entry.about}, which has never run")
        if not 0 < -entry.amount <= job.most:
            raise Violation(f"{site} charges {-entry.amount} for {entry.about}, of {job.most}")
        for share in entry.shares:
            if -share.amount > job.reserved[share.account, share.lot]:
                raise Violation(f"{site} charges {share} for {entry.about}, of {job.reserved}")

    def _ends(self, node: JobSite, over: JobOver) -> None:
        job = self._jobs[node.name][over.number]
        if job.is_over:
            raise Violation(f"{node.name} ends job {over.number} twice")
        job.is_over = True
        self.jobs_over += 1
        cost = 0
        if over.ending is not None and over.ending.kind not in NOT_CHARGED:
            cost = self._cost(node, over, job, over.ending)
        self._over[node.name][over.number] = cost
        if over.credit_seconds != cost // 1_000:
            raise Violation(f"{node.name} tells {over}, which costs {cost}")

    def _cost(self, node: JobSite, over: JobOver, job: JobBook, ending: f.JobEnding) -> int:
        """Return what the last attempt costs, and compare that with what has run."""
        ran = node.host.ran(over.number)
        last = node.host.attempts[f"{over.number}.{over.attempt}"]
        if last.ending != ending or last.nodes != len(over.node_numbers):
            raise Violation(f"{node.name} tells {over}, which ran as {ran}")
        if last not in ran[-1:] and not self._world.forgetful:
            raise Violation(f"{node.name} tells {over}, which has run again: {ran}")
        cost = min(_cost_of(job, len(over.node_numbers), ending.ran_s), job.most)
        least, most = _bounds(last, over.request.limit_s)
        if not min(least, job.most) <= cost <= most:
            raise Violation(f"{node.name} charges {cost} for {over}, which ran as {last}")
        return cost

    def _is_charged(self, site: str, number: int) -> None:
        """A job that is over has been charged what it costs, and nothing if that is nothing."""
        key = job_key(self._site(site).machine, number)
        entry = self._entries[site].get(key) or self._carried(site).get(key)
        if (-entry.amount if entry is not None else 0) != self._over[site][number]:
            raise Violation(f"{site} has {entry} for {key}, which costs {self._over[site][number]}")

    def _reserved_beside(self, site: str) -> Counter[str]:
        """What open jobs may still cost; one that is charged can cost no more."""
        machine, found = self._site(site).machine, Counter[str]()
        known = self._entries[site].keys() | self._carried(site).keys()
        for number, job in self._jobs[site].items():
            if not job.is_over and job_key(machine, number) not in known:
                found[job.account] += job.most
        return found

    def refuses(self, site: JobSite, user: str, job: JobRequest, error: KalendsError) -> None:
        """Whoever has the credit for a job, whatever it may cost, is not refused for lack of it."""
        if not isinstance(error, LimitExceeded) or not error.refusals:
            raise Violation(f"{site.name} refuses {job}: {error!r}")
        self.jobs_refused += 1
        paying, account = site.participant.wing(Credits), f"user:{user}"
        at = max(site.queue.last_s, job.not_before)
        has = sum(left for _, left in paying.ledger.lots(account, at, at + 1))
        has += DEBT + paying.ledger.left((account, OWED))
        if error.refusals[0].code == "credit-promised":
            has -= paying.reserved(account)
        need = job.nodes * job.limit_s * max(len(job.indices), 1) * max(MACHINE_RATES)
        older = any(stake.has("held") for stake in site.participant.book.stakes.values())
        if need <= has and not older:
            raise Violation(f"{site.name} refuses {job}: {error}, and {account} has {has}")

    # The end

    def finish(self) -> Iterable[str]:
        yield from super().finish()
        for site in self._of_jobs():
            name = site.name
            yield from (
                f"{name} has job {number} of {job.user} open when all is quiet"
                for number, job in self._jobs[name].items()
                if not job.is_over
            )
            expected = {
                job_key(site.machine, n): -cost for n, cost in self._over[name].items() if cost
            }
            known = {**self._carried(name), **site.participant.wing(Credits).ledger.entries}
            found = {key: each.amount for key, each in known.items() if key.startswith(JOB)}
            if found != expected:
                yield f"{name} has charged {found} for jobs, not {expected}"
            if again := [key for key, count in self._keys[name].items() if count > 1]:
                yield f"{name} has taken {again} twice"
            yield from self._adds_up(site)
        if not self._world.forgetful:
            for name, key in sorted(self.told):
                if not self._keys[name][key]:
                    yield f"{name} has lost {key}, of which its user was told"

    def _adds_up(self, site: JobSite) -> Iterable[str]:
        """What an account has is what was granted, less what was charged, and paid back."""
        ledger = site.participant.wing(Credits).ledger
        all_of = {**self._carried(site.name), **self._entries[site.name]}
        sums: Counter[str] = Counter()
        for each in all_of.values():
            if each.kind != "carried":
                sums[each.account] += each.amount
        for account in ledger.accounts():
            if ledger.balance(account) != sums[account]:
                yield f"{site.name}: {account} has {ledger.balance(account)}, not {sums[account]}"


def _cost_of(job: JobBook, nodes: int, ran_s: float) -> int:
    """Return the cost of an attempt, second by second, and by its host's clock where the queue's is wrong."""
    since_s, until_s = job.steps[0][0], job.steps[-1][1]
    ended_s, held_s = job.ended_s, job.ended_s - since_s
    late = held_s > ran_s + max(LATE_S, ran_s / 10)
    if late or held_s < ran_s - FOLLOWED_S or (not held_s and ran_s >= 1):
        ended_s = since_s + int(ran_s)
    return sum(
        nodes * next(rate for start, end, rate in job.steps if start <= second < end)
        for second in range(since_s, min(ended_s, until_s))
    )


def _bounds(ran: Attempt, limit_s: int) -> tuple[int, int]:
    """Return between what the cost of what has run must be, whatever the clocks of servers show."""
    ran_s = (ran.ended_ms - ran.begun_ms) / 1_000
    least_s = min(max(int(ran_s) - FOLLOWED_S, 0), limit_s)
    most_s = int(ran_s + max(LATE_S, ran_s / 10)) + 1
    return ran.nodes * least_s * min(MACHINE_RATES), ran.nodes * most_s * max(MACHINE_RATES)


class JobUser:
    """A program that submits jobs, and repeats what was not answered."""

    def __init__(self, world: JobWorld, judge: PaidJobsJudge, user: str, name: str) -> None:
        self._world, self._judge, self._user, self._name = world, judge, user, name
        self._kernel, self._random = world.kernel, world.kernel.random
        self._left, self._keys = JOBS, 0
        self.waits: set[str] = set()
        """What was not answered yet."""

    def start(self) -> None:
        self._kernel.after(self._random.randrange(1, 8_000), self._next)

    @property
    def finished(self) -> bool:
        return not self._left and not self.waits

    def _next(self) -> None:
        if not self._left:
            return
        self._left -= 1
        self.start()
        site = self._random.choice(self._world.job_sites)
        job = self._job(site)
        self._keys += 1
        key = f"{self._name} {self._keys}"
        offered_s = 20 if not (job.held or job.indices or job.not_before) else 0
        offered_s *= self._random.random() < 0.25
        submit = partial(self._submit, site, job, key, offered_s)
        self._insist(site, key, submit, partial(self._answered, site, job, key, offered_s))

    def _job(self, site: JobSite) -> JobRequest:
        random = self._random
        now_s = EPOCH_S + self._kernel.now_ms // 1_000
        return JobRequest(
            machine=site.machine, limit_s=random.choice(LIMITS_S), command=("true",),
            nodes=random.randrange(1, NODES), rerun=random.random() < 0.4,
            held=random.random() < 0.1,
            indices=(1, 2) if random.random() < 0.15 else (),
            not_before=now_s + 20 if random.random() < 0.1 else 0,
        )  # fmt: skip

    def _submit(
        self, site: JobSite, job: JobRequest, key: str, offered_s: int, queue: BatchQueue, now: int
    ) -> None:
        """As the site does with what users and brokers ask for."""
        assert site.ledger is not None
        principal = Principal(self._user)
        known = queue.flow.table.submitted_before(self._user, key, job)
        if known is None:
            try:
                pays = site.ledger.reserve(principal, queue, job)
            except KalendsError as error:
                self._judge.refuses(site, self._user, job, error)
                raise
        else:
            pays = None
        if offered_s:
            PlaceOffers(queue).offer(principal, job, key, offered_s, now, pays)
        else:
            queue.submit(principal, job, key, now, pays)

    def _answered(self, site: JobSite, job: JobRequest, key: str, offered_s: int) -> None:
        if not offered_s:  # Nobody misses an offer that is lost.
            self._judge.told.add((site.name, key))
        if offered_s and self._random.random() < 0.7:
            self._later(site, f"take {key}", partial(self._with, key, _take), 12_000)
        elif offered_s or self._random.random() < 0.3:
            self._later(site, f"cancel {key}", partial(self._with, key, _cancel), 40_000)
        elif job.held:
            self._later(site, f"release {key}", partial(self._with, key, _release), 20_000)
        if job.held and self._random.random() < 0.3:
            self._later(site, f"end {key}", partial(self._with, key, _cancel), 60_000)

    def _with(
        self, key: str, do: Callable[[BatchQueue, int, int], None], queue: BatchQueue, now: int
    ) -> None:
        """Do something with all jobs of a submission that are not over."""
        for number in [job.number for job in queue.flow.table if job.key == key]:
            do(queue, number, now)

    def _later(
        self, site: JobSite, what: str, step: Callable[[BatchQueue, int], None], most_ms: int
    ) -> None:
        delay_ms = self._random.randrange(1, most_ms)
        self.waits.add(what)
        self._kernel.after(delay_ms, self._insist, site, what, step, lambda: None)

    def _insist(
        self,
        site: JobSite,
        what: str,
        step: Callable[[BatchQueue, int], None],
        answered: Callable[[], None],
    ) -> None:
        """Do it again and again until it is known to be stored, or refused."""
        self.waits.add(what)
        site.enter(self._ask, site, what, step, answered)
        self._kernel.after(AGAIN_MS, self._repeat, site, what, step, answered)

    def _repeat(self, site: JobSite, what: str, *arguments: Callable[..., None]) -> None:
        if what in self.waits:
            self._insist(site, what, *arguments)

    def _ask(
        self,
        site: JobSite,
        what: str,
        step: Callable[[BatchQueue, int], None],
        answered: Callable[[], None],
    ) -> None:
        # What was refused is asked no more: a late repetition would leave a job that its user does not know.
        if site.service is None or what not in self.waits:
            return
        try:
            site.step(step)
        except NotFound:
            pass
        except KalendsError:
            self.waits.discard(what)
            return
        site.when_durable(partial(self._heard, what, answered))

    def _heard(self, what: str, answered: Callable[[], None]) -> None:
        if what in self.waits:
            self.waits.discard(what)
            answered()


def _take(queue: BatchQueue, number: int, now: int) -> None:
    PlaceOffers(queue).take(number, now)


def _cancel(queue: BatchQueue, number: int, now: int) -> None:
    queue.cancel(number, "", now)


def _release(queue: BatchQueue, number: int, now: int) -> None:
    queue.release(number, ("user",), now)


def paid_jobs(world: World) -> PaidJobsJudge:
    """Owners charge for bookings, and for jobs on machines, of which some are put aside for a while."""
    assert isinstance(world, JobWorld)
    judge = owners_charge(world, judging=PaidJobsJudge)
    assert isinstance(judge, PaidJobsJudge)
    if world.kernel.random.random() < 0.3:
        for site in world.sites:
            _fold_soon(site)
    world.job_users = [JobUser(world, judge, each._user, each.name) for each in world.clients]
    for user in world.job_users:
        user.start()
    for site in world.job_sites:
        world.kernel.after(FAULTS_MS + 1_000, _bring_back, site)
        world.kernel.after(FAULTS_MS + RELEASED_MS, _release_all, site)
        for user in USERS[:2]:
            begin_ms = world.kernel.random.randrange(5_000, FAULTS_MS)
            world.kernel.after(begin_ms, _grant_more, site, f"user:{user}")
        for _ in range(world.kernel.random.randrange(3)):
            begin_ms = world.kernel.random.randrange(5_000, FAULTS_MS - 15_000)
            node = world.kernel.random.randrange(NODES)
            world.kernel.after(begin_ms, _node_fails, world.job_users[0], site, node)
    return judge


def _grant_more(site: JobSite, account: str) -> None:
    def granting() -> None:
        paying, amount = site.participant.wing(Credits), 10 * CREDIT
        paying.grant(f"more:{account}", account, amount, site.now())
        site._carry_out()

    site.enter(granting)


def _release_all(site: JobSite) -> None:
    """A store that was put back has forgotten whom its users have released."""
    site.enter(site.heard, _release_held)
    site.kernel.after(RELEASED_MS, _release_all, site)


def _release_held(queue: BatchQueue, now: int) -> None:
    for job in list(queue.flow.table):
        queue.release(job.number, ("user",), now)


def _bring_back(site: JobSite) -> None:
    """A machine that was put aside works again in the next life of its site."""
    if site.up and site.is_aside:
        site.crash()


def _node_fails(operator: JobUser, site: JobSite, node: int) -> None:
    if not site.up or site.service is None:
        return
    site.kernel.fault("node failed", site.name)
    site.enter(site.step, lambda queue, now: queue.fail([node], "it burns", now))
    operator._later(
        site, f"resume {site.name} {node}", lambda queue, now: queue.resume([node], now), 20_000
    )
