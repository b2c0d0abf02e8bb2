"""Users whose jobs run in step on several machines; and what really ran, against what they were told."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

import kalends
from kalends.contract.calls import RequestView
from kalends.core.jobs import JobRequest
from tests.shells.facility import Facility
from tests.shells.job_host import HOSTS, Run
from tests.shells.job_judging import judge_hosts
from tests.shells.placing import runs_by_command
from tests.shells.scenarios import Broken, all_over
from tests.shells.substitutes import WALL_AT_BEGIN_S

TRIES_MAX: Final = 600
AGAIN_S: Final = 0.5
LIMIT_S: Final = 600
"""As long as the grain of the calendars."""
APART_S_MAX: Final = 1.0
"""Where nothing fails, the parts of a job begin within so long of each other."""
LATE_S_MAX: Final = 10.0
"""And so long after their start: a start is told some seconds ahead."""
AROUND_S: Final = 30.0
"""A host that died so long before the others began, or after they ended, is why its part did not begin."""

Runs = list[tuple[str, Run]]


@dataclass
class StepWish:
    """A job in step that somebody has asked for. `view` is what they were told last."""

    user: str
    broker: str
    command: tuple[str, ...]
    sites: tuple[str, ...]
    view: RequestView | None = None


@dataclass
class StepCustomers:
    """`count` users of the brokers of a facility, each with `jobs` jobs in step."""

    facility: Facility
    chance: random.Random
    count: int = 3
    jobs: int = 5
    pause_s: float = 200.0
    waits_s: tuple[int, ...] = (0,)
    """For how long parts wait for each other; 0: as long as they do without a word."""
    wishes: list[StepWish] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tasks = [
            self.facility.client(f"user{number}", self._live(f"user{number}", self._draw()))
            for number in range(self.count)
        ]

    async def end(self, within_s: float) -> None:
        """Wait until everybody is answered; `Broken` when some never are."""
        await all_over(self._tasks, within_s, f"users are not answered within {within_s} s")

    def due(self, start: int) -> list[StepWish]:
        """Return the jobs whose users were told that they start then."""
        return [wish for wish in self.wishes if wish.view is not None and wish.view.start == start]

    def _draw(self) -> random.Random:
        return random.Random(self.chance.random())

    async def _live(self, user: str, chance: random.Random) -> None:
        for number in range(self.jobs):
            sites = tuple(chance.sample(self.facility.sites, chance.choice((2, 2, 3))))
            command = ("program", f"{chance.uniform(0, 200):.3f}", f"{user}-{number}")
            wish = StepWish(user, chance.choice(self.facility.replicas), command, sites)
            self.wishes.append(wish)
            nodes, wait_s = chance.choice((1, 2)), chance.choice(self.waits_s)
            await self._ask(wish, f"a-step-of-{user}-{number:04}", nodes, wait_s)
            await asyncio.sleep(chance.uniform(0, self.pause_s))

    async def _ask(self, wish: StepWish, key: str, nodes: int, wait_s: int) -> None:
        text = " + ".join(f"{site}/cluster:{nodes}" for site in wish.sites)
        job = JobRequest(machine="", limit_s=LIMIT_S, command=wish.command, parts_wait_s=wait_s)
        begin_s = WALL_AT_BEGIN_S + int(self.facility.world.loop.now_s)
        window = (begin_s, begin_s + 7 * 86_400)
        async with self.facility.connect(wish.broker, wish.user, timeout_s=10) as client:
            for _ in range(TRIES_MAX):
                try:
                    view = await client.submit_in_step(text, job, key=key, window=window)
                except kalends.OutcomeUnknown:
                    pass
                except kalends.Unavailable as error:
                    if error.request_id:
                        return  # That is the answer, and will be it for ever.
                except kalends.KalendsError as error:
                    self.facility.world.note("refused", repr(error))
                    return
                else:
                    if view.state != "open":
                        wish.view = view
                        return
                await asyncio.sleep(AGAIN_S)
        raise Broken(f"no answer after {TRIES_MAX} tries")


async def judge_steps(facility: Facility, customers: StepCustomers, *, punctual: bool) -> None:
    """Raise `Broken` unless each part ran once, where its user was told, and none ran alone.

    What ran is what the hosts have recorded. A part that began needs all others to have begun, unless a
    host of the job died. `punctual`: nothing has failed, so every job runs whole, its parts begin together,
    and its user is told when each began.
    """
    judge_hosts()
    ran = runs_by_command()
    for wish in customers.wishes:
        runs = ran.pop(wish.command, [])
        story = None
        if wish.view is not None:
            async with facility.connect(wish.broker, wish.user) as client:
                wish.view = await client.show(wish.view.id)
                story = await client.why(wish.view.id)
        told = wish.view and (wish.view.state, wish.view.parts)
        what = f"{wish.command} on {wish.sites}, told as {told}, ran as {runs}"
        _ran_where_it_was_told(wish, runs, what)
        whole = len(runs) == len(wish.sites)
        if runs and not whole:
            if not _host_died(wish, runs):
                raise Broken(f"some parts ran without the others: {what}")
            facility.counts["a host died"] += 1
        if punctual:
            _ran_as_told(wish, runs, what)
        if story is not None:
            begins = [event.detail for event in story.events if event.kind == "began"]
            if len(set(begins)) < len(begins) or len(begins) > len(runs):
                raise Broken(f"its user is told that {begins} began: {what}")
            if punctual and len(begins) < len(runs):
                raise Broken(f"its user is told only of {begins} that they began: {what}")
        facility.counts["in step" if whole else "alone" if runs else "not run"] += 1
    if ran:
        raise Broken(f"what nobody has asked for ran: {ran}")


def _ran_where_it_was_told(wish: StepWish, runs: Runs, what: str) -> None:
    hosts = [host for host, _ in runs]
    if len(set(hosts)) < len(hosts):
        raise Broken(f"a part ran twice: {what}")
    if not set(hosts) <= set(wish.sites):
        raise Broken(f"it ran elsewhere: {what}")
    if wish.view is None:
        if runs:
            raise Broken(f"it ran, and its user was told of nothing: {what}")
        return
    numbers = {part.machine.partition("/")[0]: part.job for part in wish.view.parts}
    for host, run in runs:
        if numbers.get(host, 0) not in (0, int(run.name.partition(".")[0])):
            raise Broken(f"{run.name} of {host} is no part that its user was told of: {what}")
        if not any(
            claim.resource.startswith(f"{host}/") and claim.units == len(run.nodes)
            for claim in wish.view.claims
        ):
            raise Broken(f"{run.name} of {host} has other nodes than were reserved: {what}")


def _host_died(wish: StepWish, runs: Runs) -> bool:
    """Whether a host of the job lost its power, or a part its shepherd, while the parts began or ran."""
    since_s = min(run.since_s for _, run in runs) - AROUND_S
    until_s = max(run.until_s for _, run in runs) + AROUND_S
    return any(run.name in HOSTS[host].deaths for host, run in runs) or any(
        since_s <= at_s <= until_s for site in wish.sites for at_s in HOSTS[site].dark_s
    )


def _ran_as_told(wish: StepWish, runs: Runs, what: str) -> None:
    """Where nothing fails."""
    if wish.view is None:
        raise Broken(f"it was refused, and nothing was in its way: {what}")
    if len(runs) != len(wish.sites):
        raise Broken(f"it never ran: {what}")
    if not wish.view.parts_ended_at:
        raise Broken(f"its slots were not given back when all parts had ended: {what}")
    begun_s = [run.since_s for _, run in runs]
    if max(begun_s) - min(begun_s) > APART_S_MAX:
        raise Broken(f"its parts did not begin together: {what}")
    start_s = min(claim.start for claim in wish.view.claims) - WALL_AT_BEGIN_S
    if not start_s <= min(begun_s) <= start_s + LATE_S_MAX:
        raise Broken(f"it was to start at {start_s}: {what}")
