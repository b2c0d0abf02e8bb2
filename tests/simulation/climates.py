"""Worlds in which a schedule can run, by name: who wants what, and what goes wrong.

In `every-fault` all of it may go wrong at once. Some mistakes only show where one thing goes wrong
again and again and nothing else does; for each kind of them there is a climate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.participant import Participant
from tests.simulation.agents import DELAYS_MS, agreeable
from tests.simulation.batch_systems import BatchSystem
from tests.simulation.clocks import FASTEST, SKEW_MS_MAX, SLOWEST
from tests.simulation.common_times import CommonTimesJudge, LyingHub
from tests.simulation.hand_overs import handed_over
from tests.simulation.hostile import CHARACTERS, REGISTER, HostileBroker, HostileSite
from tests.simulation.job_sites import JobWorld, PostgresJobWorld
from tests.simulation.jobs_paid import BESIDE_JOBS, paid_jobs
from tests.simulation.network import Weather
from tests.simulation.nodes import BrokerNode, Node, SiteNode, Trouble
from tests.simulation.owners import Guarded, owners_answer, owners_think
from tests.simulation.owners_buffers import owners_keep_buffers
from tests.simulation.owners_charge import (
    CHARGED,
    CHARGED_RUNNING,
    Overcharging,
    charges_folded,
    charges_restored,
    owner_overcharges,
    owners_charge,
)
from tests.simulation.owners_limits import owners_limit, owners_limit_passed
from tests.simulation.owners_scripts import owners_scripts_decide
from tests.simulation.postgres_broker import PostgresWorld
from tests.simulation.postgres_register import DatabaseTrouble, PostgresRegister
from tests.simulation.postgres_site import PostgresSite, PostgresSitesWorld
from tests.simulation.restores import stores_put_back
from tests.simulation.schedule import FAULTS_MS, Report, run
from tests.simulation.series_together import series_together
from tests.simulation.shipped_site import SHIPPED, site_with
from tests.simulation.system_rooms import drawn_room
from tests.simulation.workload import Size
from tests.simulation.world import USERS, World


class Climate(NamedTuple):
    """`prepare` changes the world before it starts; `hard` scales the faults (0: none strike).

    Without a `size` the seed decides who wants what. `participant` makes the sites. With `forgets`
    every record must be dropped in the end.
    """

    name: str
    size: Size | None = None
    prepare: Callable[[World], object] | None = None
    faults_ms: int = FAULTS_MS
    hard: float = 1.0
    participant: Callable[..., Participant] = SHIPPED
    costs: int = 1
    """How much longer than others a schedule takes: so many fewer are run in CI."""
    forgets: bool = False
    world: type[World] = World

    def run(
        self, seed: int, *, world_type: type[World] | None = None, keep_trace: bool = False
    ) -> Report:
        """The schedule of `seed`; `world_type` in place of the shipped code."""

        class Shipped(self.world):  # type: ignore[name-defined, misc]
            make_participant = staticmethod(self.participant)

        return run(
            seed,
            size=self.size,
            world_type=world_type or Shipped,
            prepare=self.prepare,
            faults_ms=self.faults_ms,
            hard=self.hard,
            forgets=self.forgets,
            keep_trace=keep_trace,
        )


class RetainedBriefly(Retention):
    keep_after_end_s = 60
    sure_window_ms = 10_000


DroppedSoon = site_with(retention=RetainedBriefly)
"""The shipped code with records that are kept for a minute, not a day, after their slots."""


# Who wants what

CROWD: Final = Size(sites=3, clients=8, sagas=4, hours=5, pause_ms=600, kinds=(0, 0, 60, 40, 0, 0))
"""So many for so little that most attempts are refused, and tried again."""

WINDOWS: Final = CROWD._replace(kinds=(0, 0, 100, 0, 0, 0))
"""The same, and each refusal leads to another attempt of the same request at another time."""

SOON_MENDED_S: Final = 600
"""What is moved behind a repair of a day is not over when the schedule is."""

SOON: Final = Size(sites=3, clients=8, sagas=3, hours=3, begin_s=120, slot_s=120, pause_ms=6_000)
"""Slots that end while the schedule runs, so that records are dropped."""

AGENTS: Final = Size(sites=3, clients=8, sagas=4, hours=3, pause_ms=2_000,
                     kinds=(10, 10, 0, 0, 80, 0))  # fmt: skip
"""Agents everywhere, for the same few slots."""

MEETING: Final = AGENTS._replace(sites=4, hours=4)

RECALLED: Final = AGENTS._replace(
    sagas=3, pause_ms=600, kinds=(30, 0, 0, 0, 70, 0), patience=(0, 100, 0)
)
"""Agents and bookings in quick succession; all of them wait for what others hold."""

REPEATED: Final = Size(
    sites=3, clients=6, sagas=4, hours=9, pause_ms=8_000,
    kinds=(75, 10, 10, 0, 0, 5), series=0.7, uses=(30, 40, 30),
)  # fmt: skip
"""Series beside single requests, for slots that are enough for some of them."""

CHANGED_SERIES: Final = REPEATED._replace(
    clients=4, hours=14, kinds=(100, 0, 0, 0, 0, 0), series=0.9, series_changed=0.95
)
"""Series that are moved and extended, from some occurrence on; there is room for most of them."""

GIVING: Final = Size(
    sites=3, clients=6, sagas=4, hours=4, pause_ms=6_000,
    kinds=(80, 10, 5, 0, 0, 5), uses=(20, 30, 50), gives=0.7,
)  # fmt: skip
"""Most of what is reserved is offered to another user."""

RIVALS: Final = Size(
    sites=3, clients=8, sagas=4, hours=2, pause_ms=600,
    kinds=(80, 0, 0, 20, 0, 0), patience=(0, 100, 0),
)  # fmt: skip
"""Many for little, all patient, none of whom considers what they hold."""


LISTED: Final = Size(
    sites=3, clients=8, sagas=5, hours=3, pause_ms=4_000,
    kinds=(55, 0, 45, 0, 0, 0), patience=(20, 0, 80), long=0.4,
)  # fmt: skip
"""Many for little, most of whom wait on lists for what is locked."""


CHANGING: Final = Size(
    sites=3, clients=6, sagas=4, pause_ms=8_000,
    kinds=(35, 25, 10, 10, 15, 5), patience=(15, 45, 40), uses=(10, 20, 70), second_thoughts=0.4,
)  # fmt: skip
"""Most of what is reserved is changed, and much of that is cancelled while the change waits."""

CHANGING_CROWD: Final = CHANGING._replace(
    hours=2, clients=8, pause_ms=3_000, kinds=(40, 10, 0, 0, 45, 5), patience=(10, 80, 10)
)
"""The same for so little that older requests take what waits for an owner."""

SHARED: Final = Size(
    sites=3, clients=6, sagas=3, pause_ms=8_000,
    kinds=(35, 30, 10, 5, 10, 10), uses=(15, 35, 50), second_thoughts=0.3,
)  # fmt: skip
"""Much is held and changed, by all replicas."""

USED_UP: Final = Size(
    sites=3, clients=6, sagas=14, hours=2, begin_s=60, slot_s=120, pause_ms=30_000,
    kinds=(50, 20, 20, 5, 0, 5), uses=(40, 30, 30), long=0.2,
)  # fmt: skip
"""Slots that begin at once: many are cancelled and changed while they run."""

LIMITED: Final = Size(
    sites=3, clients=8, sagas=5, hours=6, pause_ms=3_000,
    kinds=(35, 20, 15, 10, 15, 5), patience=(30, 40, 30), long=0.3,
)  # fmt: skip
"""Room for more than owners allow anybody."""

BUFFERED: Final = LIMITED._replace(uses=(20, 20, 60), second_thoughts=0.2)
"""The same, and more of it is changed: what is moved or extended reaches into buffers."""


# What goes wrong

SILENCE_MS: Final = 120_000

HOSTILE_AFTER_MS: Final = 60_000
"""Who is hostile is so for another minute after all faults have stopped, and silent from then on."""

WRONG_MS: Final = tuple(hours * 3_600_000 for hours in (1, 30, 40 * 24, 3 * 365 * 24))
"""Nearly all clocks that are wrong are so by a time zone, a typing error or a battery."""


def calm(world: World) -> None:
    """Messages and nodes are reliable, and clocks are right: what happens takes its time only."""
    world.network.stream = True
    world.network.weather = Weather(delay_ms_max=300)
    for node in world.nodes:
        node.trouble = Trouble(commit_ms_max=300)
        node.clock.heal()


def late_answers(world: World) -> None:
    """Most messages arrive twice, half of them some attempts later; nothing else goes wrong."""
    calm(world)
    world.network.stream = False
    world.network.weather = Weather(duplicate=0.9, late=0.5, late_ms_max=6_000, delay_ms_max=1_000)


def brokers_silent(world: World) -> None:
    """Sites lose sight of all brokers one by one, which then stop; sites still reach each other."""
    calm(world)
    begin_ms = world.kernel.random.randrange(3_000, 30_000)
    for site in world.sites:
        delay_ms = begin_ms + world.kernel.random.randrange(2_000)
        world.kernel.after(delay_ms, _silence, world, [site])
    for broker in world.brokers:
        world.kernel.after(
            begin_ms + world.kernel.random.randrange(3_000), _pause, broker, SILENCE_MS
        )


def lying_peer(world: World) -> None:
    """The same, and to whoever asks, one of the sites says that another has refused."""
    brokers_silent(world)
    random = world.kernel.random
    liar = random.choice(world.site_names)
    others = [name for name in world.site_names if name != liar]
    world.auditor.expected_alarms = (f"sim://{liar} speaks for",)
    reply = world.network.reply

    def lie(token: str, message: m.Message) -> None:
        if isinstance(message, m.PeerSays) and message.site == liar:
            message = replace(message, site=random.choice(others), says="never", chosen={})
        reply(token, message)

    world.network.reply = lie  # type: ignore[method-assign]


def brokers_pause(world: World) -> None:
    """Brokers stop in the middle for longer than their leases, and go on."""
    calm(world)
    world.network.weather.delay_ms_max = 1_500
    for broker in world.brokers:
        for begin_ms in range(2_000, FAULTS_MS, 20_000):
            delay_ms = begin_ms + world.kernel.random.randrange(20_000)
            world.kernel.after(delay_ms, _pause, broker, 16_000)


def slow_lines(world: World) -> None:
    """What an agent holds is promised only after a second or two: time for others to want it."""
    calm(world)
    world.network.weather.delay_ms_max = 1_500


def slots_end(world: World) -> None:
    """Slots end, and records are dropped, while clocks are wrong by minutes."""
    world.auditor.horizon_back_s = 2 * SKEW_MS_MAX // 1_000
    world.auditor.kept_after_end_s = RetainedBriefly.keep_after_end_s


def weeks_pass(world: World) -> None:
    """Owners limit how much of a week anybody uses; slots end, and servers die now and then."""
    calm(world)
    slots_end(world)
    world.auditor.clocks_wrong_s = 0
    for node in world.nodes:
        node.trouble.crash = 0.001
    owners_limit_passed(world, USED_UP.slot_s)


def weeks_restored(world: World) -> None:
    """The same, and stores of sites are put back: what was used counts for good, whatever they forget."""
    weeks_pass(world)
    stores_put_back(world, FAULTS_MS)


def site_cut_off(world: World) -> None:
    """One site reaches no broker for four minutes; slots end, and others drop their records."""
    calm(world)
    slots_end(world)
    alone = world.kernel.random.choice(world.sites)
    world.kernel.after(world.kernel.random.randrange(3_000, 30_000), _silence, world, [alone])


def links_break(world: World) -> None:
    """Sessions break, and what is on its way is lost; nothing else goes wrong."""
    calm(world)
    world.network.weather = Weather(delay_ms_max=300, loss=0.1, break_session=0.05)


def wild_clocks(world: World) -> None:
    """Clocks are set wrong by hours, days and years, most of them for a minute, and set right again."""
    calm(world)
    world.clocks_wrong_ms_max = max(WRONG_MS)
    random = world.kernel.random
    for node in world.nodes:
        for _ in range(random.randrange(3)):
            begin_ms = random.randrange(1_000, FAULTS_MS)
            wrong_ms = random.choice(WRONG_MS) * random.choice((1, -1))
            world.kernel.after(begin_ms, _set_clock, node, wrong_ms)
            world.kernel.after(begin_ms + random.choice((5_000, 70_000)), _set_clock, node, 0)


def calm_owners(world: World) -> None:
    """Owners approve bookings, and all servers answer: whoever has all approvals gets the slots."""
    calm(world)
    owners_answer(world)


def owners_charge_and_think(world: World) -> None:
    """Owners charge for what they approve: it can be paid when they have thought."""
    owners_think(world)
    owners_charge(world, slots=(4, 8))


def old_charges_restored(world: World) -> None:
    """Slots end, records are dropped and charges are folded; in half of the worlds stores are put back."""
    calm(world)
    slots_end(world)
    charges_folded(world)
    if world.kernel.random.random() < 0.5:
        stores_put_back(world, FAULTS_MS)


def paid_jobs_restored(world: World) -> None:
    """Jobs are paid beside bookings, and stores of some sites are put back."""
    paid_jobs(world)
    stores_put_back(world, FAULTS_MS)


def paid_jobs_taken_over(world: World) -> None:
    """The same while sites pause for longer than their leases, and standbys take over."""
    sites_on_postgres(world)
    paid_jobs(world)


def owners_and_clocks(world: World) -> None:
    """Owners approve bookings while clocks are wrong by hours, days and years."""
    wild_clocks(world)
    owners_think(world)


def stores_restored(world: World) -> None:
    """Stores of sites are put back to earlier images; in half of the worlds nothing else goes wrong."""
    if world.kernel.random.random() < 0.5:
        calm(world)
    stores_put_back(world, FAULTS_MS)


def hostile_site(world: World) -> None:
    """One site says anything; half of the clients have nothing to do with it."""
    _calm_or_rough(world)
    _make_hostile(world, asks_peers=0.1)


def hostile_owner(world: World) -> None:
    """Owners charge for their slots, and one of them says anything of what it charges."""
    _calm_or_rough(world)
    _make_hostile(world, asks_peers=0.1, kind=Overcharging)
    owner_overcharges(world)


def hostile_near(world: World, kind: type[HostileSite] = HostileSite) -> None:
    """The same, and it is near to all others: agents' visits pass through it."""
    _calm_or_rough(world)
    names = world.site_names
    world.near = {name: tuple(other for other in names if other != name) for name in names}
    _make_hostile(world, asks_peers=0.6, kind=kind)


def lying_hub(world: World) -> None:
    """One site is near to all others, and lies about the times that they have in common."""
    hostile_near(world, LyingHub)
    for client in world.clients:
        client.only = None
    world.involved = {client.name for client in world.clients}
    _agents_agree(world)
    CommonTimesJudge().attach(world)


def near_sites(world: World) -> None:
    """Sites are near one another, in most worlds all of them but one; every fault strikes."""
    names = world.site_names
    apart = world.kernel.random.choice((*names, ""))
    world.near = {
        name: tuple(other for other in names if apart not in (name, other) and other != name)
        for name in names
    }
    _agents_agree(world)
    CommonTimesJudge().attach(world)


def _agents_agree(world: World) -> None:
    for site in world.sites:
        site.run_ends, site.delays_ms = agreeable, DELAYS_MS[:3]  # type: ignore[method-assign]


def hostile_broker(world: World) -> None:
    """A broker of somebody else is connected to all sites, and says anything."""
    _calm_or_rough(world)
    broker = HostileBroker(world, "grey")
    broker.turn()
    world.nodes.append(broker)
    world.hostile = [broker]
    world.auditor.hostile_registers = frozenset({REGISTER})
    world.auditor.expected_alarms = ("grey~",)
    world.kernel.after(FAULTS_MS + HOSTILE_AFTER_MS, broker.fall_silent)


def _calm_or_rough(world: World) -> None:
    calm(world)
    if world.kernel.random.random() < 0.3:
        links_break(world)


def _make_hostile(
    world: World, *, asks_peers: float, kind: type[HostileSite] = HostileSite
) -> None:
    random = world.kernel.random
    number = random.randrange(len(world.sites))
    name = world.site_names[number]
    site = kind(world, name, world._calendars(name))
    site.turn(random.choice(CHARACTERS), asks_peers)
    world.nodes[world.nodes.index(world.sites[number])] = site
    world.sites[number] = site
    site.trouble = Trouble(commit_ms_max=300)
    world.hostile = [site]
    world.auditor.hostile = frozenset({name})
    # What it asks of other sites comes by calls.
    world.auditor.expected_alarms = (name, "from call:")
    world.involved = {client.name for client in world.clients[1::2]}
    for client in world.clients[::2]:
        client.only = [other for other in world.site_names if other != name]
    world.kernel.after(FAULTS_MS + HOSTILE_AFTER_MS, site.fall_silent)


def _set_clock(node: Node, wrong_ms: int) -> None:
    node.kernel.fault("clock set wrong" if wrong_ms else "clock set right", node.name)
    node.clock.skew_ms = wrong_ms


def fair(world: World) -> None:
    """Nothing goes wrong: whoever waits must get it, or be told that it is locked."""
    calm(world)
    world.auditor.nobody_waits_in_vain = True
    world.auditor.nobody_dies = True


def series_calm(world: World) -> None:
    """Only replicas pause, and answers are late: those that are judged dead go on."""
    series_together(world)
    brokers_pause(world)


def series_on_postgres(world: World) -> None:
    series_together(world)
    register_on_postgres(world)


def batch_systems(world: World) -> None:
    """Batch systems stand behind the nodes of every site; they fail, and so does everything else."""
    random = world.kernel.random
    world.batch = True
    if random.random() < 0.4:
        calm(world)
    for site in world.sites:
        room = drawn_room(random, site.name, world.auditor.capacities[f"{site.name}/n"])
        users = {user: f"unix-{user}" for user in USERS}
        site.system = BatchSystem(world.kernel, site.name, room, users)
        site.system.strike_until(FAULTS_MS)
        world.auditor.systems[site.name] = site.system


def batch_promises_lost(world: World) -> None:
    """The same, and what others have, and nodes that are down, stay so: promises have to give way."""
    batch_systems(world)
    for site in world.sites:
        if site.system is not None:
            site.system.lasting = True


def reclaimed_and_charged(world: World) -> None:
    """Owners charge, and take back what their batch systems cannot keep."""
    batch_promises_lost(world)
    owners_charge(world)


def batch_slots_end(world: World) -> None:
    """The same, with slots that end, and records that are dropped."""
    slots_end(world)
    batch_systems(world)
    for site in world.sites:
        if site.system is not None:
            site.system.repair_s = SOON_MENDED_S


def register_on_postgres(world: World) -> None:
    """The register answers late or never, and fails over; brokers pause, and their clocks are wrong."""
    calm(world)
    register, random = world.register, world.kernel.random
    assert isinstance(register, PostgresRegister)
    world.network.weather.delay_ms_max = random.choice((30, 300, 1_500))
    for node in world.nodes:
        node.clock.drift(random.uniform(SLOWEST, FASTEST))
        node.clock.skew_ms = random.randrange(-60_000, 60_000)
    for broker in world.brokers:
        broker.trouble.crash = random.choice((0.0, 0.0, 0.002))
        for begin_ms in range(2_000, FAULTS_MS, 25_000):
            if random.random() < 0.5:
                delay_ms = begin_ms + random.randrange(20_000)
                length_ms = random.choice((3_000, 16_000, 24_000))
                world.kernel.after(delay_ms, _pause, broker, length_ms)
    register.trouble = DatabaseTrouble(
        late=random.choice((0.0, 0.02, 0.1)),
        hung=random.choice((0.0, 0.005, 0.02)),
        lost=random.choice((0.0, 0.005, 0.01)),
        lost_answer=random.choice((0.0, 0.01, 0.02)),
        cancelled=random.choice((0.0, 0.01)),
        sync_ms_max=random.choice((5, 50, 1_000)),
    )
    for _ in range(random.randrange(4)):
        fail_over = random.choice((register.fail_over, register.fail_over_at_commit))
        world.kernel.after(random.randrange(3_000, FAULTS_MS), fail_over)
    world.kernel.after(FAULTS_MS, register.heal)


def sites_on_postgres(world: World) -> None:
    """Sites pause for longer than their leases, are taken over, and go on with what they knew."""
    batch_systems(world)
    calm(world)
    world.network.stream = True
    random = world.kernel.random
    world.network.weather.delay_ms_max = random.choice((30, 300, 1_500))
    for site in world.sites:
        assert isinstance(site, PostgresSite)
        site.trouble.commit_ms_max = random.choice((5, 50, 1_000))
        for begin_ms in range(2_000, FAULTS_MS, 15_000):
            if random.random() < 0.6:
                delay_ms = begin_ms + random.randrange(12_000)
                length_ms = random.choice((3_000, 7_000, 9_000, 20_000))
                world.kernel.after(delay_ms, site.pause, length_ms)


def _pause(broker: BrokerNode, length_ms: int) -> None:
    broker.paused_until_ms = broker.kernel.now_ms + length_ms


def _silence(world: World, sites: list[SiteNode]) -> None:
    for broker in world.brokers:
        for site in sites:
            world.network.cut(broker.name, site.name, both=True)


EVERY_FAULT: Final = Climate("every-fault")
AGENTS_EVERYWHERE: Final = Climate("agents", AGENTS)
LATE_ANSWERS: Final = Climate("late-answers", WINDOWS, late_answers, hard=0.0)
BROKERS_PAUSE: Final = Climate("brokers-pause", CROWD, brokers_pause)
BROKERS_SILENT: Final = Climate("brokers-silent", None, brokers_silent, SILENCE_MS)
LYING_PEER: Final = Climate("lying-peer", None, lying_peer, SILENCE_MS)
SITE_CUT_OFF: Final = Climate(
    "site-cut-off", SOON, site_cut_off, 300_000, participant=DroppedSoon, forgets=True
)
SLOTS_END: Final = Climate("slots-end", SOON, slots_end, participant=DroppedSoon, forgets=True)
"""Every fault, and slots that end, so that all of it is forgotten."""

SLOW_LINES: Final = Climate("slow-lines", RECALLED, slow_lines)
LISTS: Final = Climate("lists", LISTED, calm, 2_000, hard=0.0)
LISTS_UNHEARD: Final = Climate("lists-unheard", LISTED, links_break, hard=0.0)
WILD_CLOCKS: Final = Climate("wild-clocks", None, wild_clocks, hard=0.0)
FAIR: Final = Climate("fair", RIVALS, fair, hard=0.0)
HOSTILE_SITE: Final = Climate("hostile-site", None, hostile_site, hard=0.0, costs=6)
HOSTILE_BROKER: Final = Climate("hostile-broker", None, hostile_broker, hard=0.0, costs=6)
HOSTILE_NEAR: Final = Climate("hostile-near", AGENTS, hostile_near, hard=0.0, costs=6)
HOSTILE_OWNER: Final = Climate("hostile-owner", CHARGED, hostile_owner, hard=0.0, costs=6)
LYING_HUB: Final = Climate("lying-hub", AGENTS, lying_hub, hard=0.0, costs=6)
NEAR_SITES: Final = Climate("near-sites", MEETING, near_sites, costs=2)

OWNERS_THINK: Final = Climate("owners-think", None, owners_think, participant=Guarded)
OWNERS_ANSWER: Final = Climate(
    "owners-answer", CHANGING_CROWD, calm_owners, hard=0.0, participant=Guarded, costs=4
)
OWNERS_AND_CHANGES: Final = Climate(
    "owners-and-changes", CHANGING, owners_think, participant=Guarded, costs=4
)
OWNERS_AND_CLOCKS: Final = Climate(
    "owners-and-clocks", CHANGING, owners_and_clocks, hard=0.0, participant=Guarded, costs=4
)
OWNERS_DECIDE: Final = Climate(
    "owners-decide", None, owners_scripts_decide, participant=Guarded, costs=2
)
OWNERS_LIMIT: Final = Climate("owners-limit", LIMITED, owners_limit, costs=3)
OWNERS_KEEP_BUFFERS: Final = Climate("owners-keep-buffers", BUFFERED, owners_keep_buffers, costs=3)
OWNERS_CHARGE: Final = Climate("owners-charge", CHARGED, owners_charge, costs=2)
RUNNING_CHARGED: Final = Climate("running-charged", CHARGED_RUNNING, owners_charge, costs=3)
CHARGES_RESTORED: Final = Climate("charges-restored", CHARGED, charges_restored, costs=2)
CHARGES_FOLDED: Final = Climate(
    "charges-folded", CHARGED_RUNNING, old_charges_restored, 420_000, hard=0.0,
    participant=DroppedSoon, costs=4,
)  # fmt: skip
APPROVED_AND_CHARGED: Final = Climate(
    "approved-and-charged", CHARGED, owners_charge_and_think, participant=Guarded, costs=3
)
PAID_JOBS: Final = Climate("paid-jobs", BESIDE_JOBS, paid_jobs, costs=3, world=JobWorld)
PAID_JOBS_RESTORED: Final = Climate(
    "paid-jobs-restored", BESIDE_JOBS, paid_jobs_restored, costs=3, world=JobWorld
)
PAID_JOBS_TAKEN_OVER: Final = Climate(
    "paid-jobs-taken-over", BESIDE_JOBS, paid_jobs_taken_over, hard=0.0, costs=4,
    world=PostgresJobWorld,
)  # fmt: skip
WEEKS_PASS: Final = Climate(
    "weeks-pass", USED_UP, weeks_pass, 420_000, hard=0.0, participant=DroppedSoon, costs=4
)

WEEKS_RESTORED: Final = Climate(
    "weeks-restored", USED_UP, weeks_restored, 420_000, hard=0.0, participant=DroppedSoon, costs=4
)
STORES_RESTORED: Final = Climate("stores-restored", None, stores_restored)

REGISTER_ON_POSTGRES: Final = Climate(
    "register-on-postgres", SHARED, register_on_postgres, hard=0.0, costs=4, world=PostgresWorld
)

SITES_ON_POSTGRES: Final = Climate(
    "sites-on-postgres", SHARED, sites_on_postgres, hard=0.0, costs=4, world=PostgresSitesWorld
)

BATCH_SYSTEMS: Final = Climate("batch-systems", None, batch_systems)
BATCH_PROMISES_LOST: Final = Climate("batch-promises-lost", None, batch_promises_lost, costs=2)
BATCH_SLOTS_END: Final = Climate(
    "batch-slots-end", SOON, batch_slots_end, participant=DroppedSoon, forgets=True
)

RECLAIMED_AND_CHARGED: Final = Climate(
    "reclaimed-and-charged", CHARGED, reclaimed_and_charged, costs=3
)

SERIES: Final = Climate("series", REPEATED, series_together)
SERIES_AND_PAUSES: Final = Climate("series-and-pauses", REPEATED, series_calm)
SERIES_ON_POSTGRES: Final = Climate(
    "series-on-postgres", REPEATED, series_on_postgres, hard=0.0, costs=4, world=PostgresWorld
)
SERIES_CHANGED: Final = Climate("series-changed", CHANGED_SERIES, series_together)
SERIES_CHANGED_ON_POSTGRES: Final = Climate(
    "series-changed-on-postgres",
    CHANGED_SERIES,
    series_on_postgres,
    hard=0.0,
    costs=4,
    world=PostgresWorld,
)

HAND_OVERS: Final = Climate("hand-overs", GIVING, handed_over)

CLIMATES: Final = {
    each.name: each
    for each in (
        EVERY_FAULT,
        AGENTS_EVERYWHERE,
        LATE_ANSWERS,
        BROKERS_PAUSE,
        BROKERS_SILENT,
        LYING_PEER,
        SITE_CUT_OFF,
        SLOTS_END,
        SLOW_LINES,
        LISTS,
        LISTS_UNHEARD,
        WILD_CLOCKS,
        FAIR,
        HOSTILE_SITE,
        HOSTILE_BROKER,
        HOSTILE_NEAR,
        HOSTILE_OWNER,
        LYING_HUB,
        NEAR_SITES,
        OWNERS_THINK,
        OWNERS_ANSWER,
        OWNERS_AND_CHANGES,
        OWNERS_AND_CLOCKS,
        OWNERS_DECIDE,
        OWNERS_LIMIT,
        OWNERS_KEEP_BUFFERS,
        OWNERS_CHARGE,
        RUNNING_CHARGED,
        CHARGES_RESTORED,
        CHARGES_FOLDED,
        APPROVED_AND_CHARGED,
        PAID_JOBS,
        PAID_JOBS_RESTORED,
        PAID_JOBS_TAKEN_OVER,
        WEEKS_PASS,
        WEEKS_RESTORED,
        STORES_RESTORED,
        REGISTER_ON_POSTGRES,
        SITES_ON_POSTGRES,
        BATCH_SYSTEMS,
        BATCH_PROMISES_LOST,
        BATCH_SLOTS_END,
        RECLAIMED_AND_CHARGED,
        SERIES,
        SERIES_AND_PAUSES,
        SERIES_ON_POSTGRES,
        SERIES_CHANGED,
        SERIES_CHANGED_ON_POSTGRES,
        HAND_OVERS,
    )
}


def run_by_name(climate: str, seed: int) -> Report:
    """The schedule of `seed` in the climate of that name."""
    return CLIMATES[climate].run(seed)
