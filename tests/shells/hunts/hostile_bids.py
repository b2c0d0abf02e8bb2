"""Jobs that are left to brokers, among others who lie: what liars harm is their own."""

from __future__ import annotations

from tests.shells import job_substitutes, mutations_of_jobs, mutations_of_places  # noqa: F401  # before a site is built

# isort: split
import asyncio
import random
from collections.abc import Collection
from typing import Final

from kalends.broker.coordination.coordinator import Coordinator
from kalends.resource_servers.jobs.queue_hooks import QueueHooks
from kalends.resource_servers.participation.participant import Participant
from kalends.virtual_sites.overheard import Overheard
from tests.shells import books
from tests.shells.belongings import greatest
from tests.shells.facility import Facility, Plan
from tests.shells.job_host import host_called
from tests.shells.liars import LYING_BROKER, Liars
from tests.shells.lying import Liar
from tests.shells.place_oracles import Permits
from tests.shells.placing import PlaceCustomers, judge_places, until_all_is_over
from tests.shells.scenarios import Broken, scenario
from tests.shells.stage import NODE

SETTLE_S: Final = 12.0
"""A broker listens for ten seconds to what its sites remember of it; some say nothing."""
QUEUED_S: Final = 3 * 3_600.0
CALM_S: Final = 60.0
LIMITS_S: Final = (10, 40)

ANSWER_S_MAX: Final = 60.0
ROWS_PER_WISH: Final = 3
"""Each has a row; and one more for each time that it is placed elsewhere."""
STAKES_MAX: Final = 300
REMEMBERED_MAX: Final = 300
STUMBLES: Final = (
    "left alone", "set aside", "store_failed", "link_failed", "QueueBroken", "no bid could", "exc_info",
    "exception",
)  # fmt: skip
"""What the logs say of servers that have broken at something."""


@scenario(
    Plan(
        sites=12,
        brokers=3,
        replicas=2,
        keys=True,
        machine=True,
        audited=False,
        policy="conservative",
        vouches={LYING_BROKER: "mallory*"},
        virtual={
            "hall": ("site4", "site5", "site6", "west"),
            "west": ("site7", "site8", "site9"),
        },
    ),
    least={"placed": 32, "ran": 8},
)
async def hostile_bids(facility: Facility, chance: random.Random) -> None:
    """Of eight managers three lie, and of twelve sites three: who has no job with them loses nothing.

    Managers are the replicas of brokers, and those of the virtual sites.
    """
    liars = Liars(facility, chance)
    machines = Machines(liars.names)
    await facility.up(SETTLE_S)
    for site in facility.sites:
        host_called(facility.world, site)
    liars.invent()
    honest = [each for each in facility.replicas if each not in liars.names]
    customers = PlaceCustomers(
        facility, chance, count=4, jobs=8, pause_s=6.0, deadlines=0.3, brokers=honest,
        limits_s=LIMITS_S,
    )  # fmt: skip
    accomplices = PlaceCustomers(
        facility, chance, count=1, jobs=8, pause_s=6.0, brokers=[*liars.brokers], named="mallory",
        limits_s=LIMITS_S,
    )  # fmt: skip
    permits = Permits(facility, customers.once_at, liars.sites)
    await customers.end(QUEUED_S)
    accomplices.leave()
    liars.fall_silent()
    await asyncio.sleep(CALM_S)
    await until_all_is_over(facility, QUEUED_S, liars.untrue)
    await judge_places(facility, customers, punctual=True, liars=liars.untrue, slow=liars.astray)
    permits.judge()
    _judge_answers(facility, customers)
    _judge_logs(facility, liars)
    _judge_rows(facility, liars, customers)
    _judge_memory(facility, machines)


class Machines:
    """The machines of all servers but the `liars`, as they are made."""

    def __init__(self, liars: Collection[str]) -> None:
        self.made: dict[str, object] = {}
        for kind in (Coordinator, Participant, Overheard):
            self._note(kind, liars)

    def _note(self, kind: type, liars: Collection[str]) -> None:
        initial = kind.__init__  # type: ignore[misc]  # It is not called on an instance.

        def noted(machine: object, *arguments: object, **more: object) -> None:
            initial(machine, *arguments, **more)
            if (node := NODE.get()) is not None and node.name not in liars:
                self.made[node.name] = machine

        kind.__init__ = noted  # type: ignore[misc]


def _judge_answers(facility: Facility, customers: PlaceCustomers) -> None:
    """Everybody has an answer soon, and a place: most sites are honest, and have room."""
    longest_s = max(wish.answered_after_s for wish in customers.wishes)
    if longest_s > ANSWER_S_MAX:
        raise Broken(f"somebody was answered after {longest_s:.0f} s")
    refused = [wish.key for wish in customers.wishes if wish.view is None]
    if refused:
        raise Broken(f"{refused} were refused, and most sites are honest")
    facility.counts["seconds to an answer, at most"] += int(longest_s)


def _judge_logs(facility: Facility, liars: Liars) -> None:
    for name in facility.servers:
        for word in STUMBLES if name not in liars.names else ():
            if lines := facility.logged(word, name):
                raise Broken(f"{name} has stumbled: {lines[:2]}")


def _judge_rows(facility: Facility, liars: Liars, customers: PlaceCustomers) -> None:
    """What liars ask for leaves few rows with others, and none in other registers."""
    # Nobody is the client of a job that was placed elsewhere.
    known = {"", *(wish.user for wish in customers.wishes)}
    for broker in (each for each in facility.brokers if each != LYING_BROKER):
        rows = books.rows(facility, broker)
        strange = {row.client for row in rows.values()} - known
        if strange or len(rows) > ROWS_PER_WISH * len(customers.wishes):
            raise Broken(f"{broker} has {len(rows)} rows, some of {strange}")
    for site in (each for each in facility.sites if each not in liars.sites):
        stakes = len(books.stakes(facility, site))
        facility.counts["stakes at a site, at most"] = max(
            facility.counts["stakes at a site, at most"], stakes
        )
        if stakes > STAKES_MAX:
            raise Broken(f"{site} has {stakes} stakes")


def _judge_memory(facility: Facility, machines: Machines) -> None:
    for name, machine in machines.made.items():
        # The hooks lead to the queues, and from there to the whole shell.
        count, way = greatest(machine, (Facility, Liar, QueueHooks))
        if count > REMEMBERED_MAX:
            raise Broken(f"{name} remembers {count} of {way}")
