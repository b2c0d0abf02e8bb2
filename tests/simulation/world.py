"""One simulated world: sites, broker replicas, clients, network, and the faults of one schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.record.views import view_of
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.series.joint_commits import JointCommits
from kalends.calendars import AccessList, AccessRule, ResourceCalendar, open_access
from kalends.core.errors import Conflict, IllegalEvent, KalendsError, NotFound
from kalends.core.resources import ResourceInfo
from kalends.resource_servers.participation.credits.accounts import PayingAccounts
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.provision.provisions import Provisions
from tests.simulation.auditor import Auditor
from tests.simulation.clocks import FASTEST, SKEW_MS_MAX, SLOWEST
from tests.simulation.disks import RegisterDisk
from tests.simulation.hand_overs import HandOvers
from tests.simulation.kernel import Kernel
from tests.simulation.line_books import Waiter
from tests.simulation.network import Network, Weather
from tests.simulation.nodes import BrokerNode, Node, SiteNode
from tests.simulation.shipped_site import SHIPPED
from tests.simulation.workload import Client, Size

SITES = ("argo", "bode", "cray", "dune", "echo")
USERS = ("ann", "bob", "eve", "cyd")


class Judge(Protocol):
    """Whoever has watched a schedule."""

    def finish(self) -> Iterable[str]:
        """Return all that was wrong, once all is quiet."""


class World:
    """Everything of one schedule. `crash_at` loses power at that point (see `Node.point`)."""

    make_participant: Any = staticmethod(SHIPPED)
    make_guard: Any = Provisions
    make_payments: Any = Credits
    accounts: PayingAccounts | None = None
    """Those of all owners; None: users' own accounts alone."""
    make_coordinator: Any = Coordinator
    joint_commits: Any = JointCommits
    register_disk = RegisterDisk
    site_node = SiteNode
    broker_node = BrokerNode
    broker_names: tuple[str, ...] = ("red", "blue")

    def __init__(
        self, seed: int | str, *, size: Size, files: bool = False, keep_trace: bool = False
    ) -> None:
        self.kernel = Kernel(seed, keep_trace=keep_trace)
        self.auditor = Auditor(self.kernel)
        self.network = Network(self.kernel)
        self.files = files
        self.clocks_wrong_ms_max = SKEW_MS_MAX
        self.points = 0
        self.crash_at = 0
        self.register = self.register_disk(self.kernel, self.auditor)
        self.auditor.connection = self.register.connection
        self.site_names = list(SITES[: size.sites])
        self._rules()
        self.near = self._near(Random(f"near:{seed}"))
        self.sites = [self.site_node(self, name, self._calendars(name)) for name in self.site_names]
        self.brokers = [self.broker_node(self, name) for name in self.broker_names]
        self.nodes: list[Node] = [*self.sites, *self.brokers]
        self.judges: list[Judge] = []
        """More judges, who say in the end what was wrong."""
        self.hand_overs = HandOvers(self)
        self.hostile: list[Node] = []
        self.batch = False
        """Whether batch systems stand behind sites: lines and slots are then theirs to refuse."""
        self.forgetful = False
        """Whether stores of sites are put back: what a site says of its lines is then taken back, too."""
        self.limited = False
        """Whether owners limit users: what is free may then be refused, and not be shown."""
        self.can_pay: Callable[[str, Waiter], bool] = lambda site, waiter: True
        """Whether who waits at a site has the credit for it, whatever its owner charges."""
        self.involved: set[str] = set()
        """Clients who may deal with a hostile site; the others do not name it."""
        self.clients = [
            Client(self, number, USERS[number % len(USERS)], size) for number in range(size.clients)
        ]

    @property
    def honest_sites(self) -> list[SiteNode]:
        return [site for site in self.sites if site not in self.hostile]

    def is_apart(self, rid: str) -> bool:
        """Whether the request is none of a hostile site's business."""
        row = self.auditor.rows.get(rid)
        if row is None or not row.key:
            return False
        client, _, number = row.key.partition("-key-")
        return not self.involved or bool(number and client not in self.involved)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        for client in self.clients:
            client.start()

    def close(self) -> None:
        for site in self.sites:
            site.disk.close()
        self.register.close()

    @property
    def all_users(self) -> tuple[str, ...]:
        return USERS

    # Owners' rules

    def _rules(self) -> None:
        """One owner bars eve altogether; another lets her hold, but not lock."""
        random = self.kernel.random
        self._capacity = {name: random.choice((3, 4, 6)) for name in self.site_names}
        self._bars = self.site_names[0]
        self._hold_only = self.site_names[1]
        for name in self.site_names:
            self.auditor.capacities[f"{name}/x"] = 1
            self.auditor.capacities[f"{name}/n"] = self._capacity[name]
        self.auditor.barred = {
            ("eve", f"{self._bars}/x", "hold"),
            ("eve", f"{self._bars}/x", "lock"),
            ("eve", f"{self._hold_only}/x", "lock"),
        }

    def _near(self, random: Random) -> dict[str, tuple[str, ...]]:
        """In most worlds some sites pass agents on to others."""
        if random.random() < 0.3:
            return dict.fromkeys(self.site_names, ())
        return {
            name: tuple(
                other for other in self.site_names if other != name and random.random() < 0.6
            )
            for name in self.site_names
        }

    def _calendars(self, site: str) -> Any:
        def make() -> dict[str, ResourceCalendar]:
            single = ResourceInfo(name=f"{site}/x", attributes={"kind": "single"})
            nodes = ResourceInfo(
                name=f"{site}/n", capacity=self._capacity[site], attributes={"kind": "node"}
            )
            return {
                single.name: ResourceCalendar(single, self._access(site)),
                nodes.name: ResourceCalendar(nodes, open_access()),
            }

        return make

    def _access(self, site: str) -> AccessList:
        if site not in (self._bars, self._hold_only):
            return open_access()
        rules = [
            AccessRule(user, f"user:{user}", ("see", "hold", "lock"))
            for user in USERS
            if user != "eve"
        ]
        if site == self._hold_only:
            rules.append(AccessRule("eve", "user:eve", ("see", "hold")))
        return AccessList(rules)

    # What clients and brokers ask

    def any_broker(self) -> BrokerNode:
        return self.kernel.random.choice(self.brokers)

    def rid_of(self, user: str, key: str) -> str:
        row = self.register.connection.execute(
            "select rid from request where client = ? and key = ?", (user, key)
        ).fetchone()
        return row[0] if row else ""

    def view_of(self, record: Record | None) -> Any:
        return view_of(record) if record is not None else NotFound("no such request")

    def not_changeable(self, record: Record | None) -> KalendsError:
        return Conflict("only a reservation can be changed")

    def is_answer(self, error: Exception) -> bool:
        return isinstance(error, KalendsError) and not isinstance(error, IllegalEvent)

    # Quiet

    def quiet(self) -> bool:
        """Nothing is going on any more, and nothing is left to do."""
        if not all(client.finished or self._is_kept_waiting(client) for client in self.clients):
            return False
        if not all(node.in_place for node in self.nodes):
            return False
        brokers = [broker for broker in self.brokers if broker.up]
        if any(self._works_on(broker) or not broker.idle for broker in brokers):
            return False
        if any(not site.idle or self._pending(site) for site in self.honest_sites):
            return False
        if any(self._unmirrored(site) or self._compares(site) for site in self.sites):
            return False
        return not any(self._unfinished(rid) for rid in self.auditor.rows)

    def _compares(self, site: SiteNode) -> bool:
        """Whether brokers may still bring back what `site` has forgotten."""
        return self.forgetful and site.participant.recovery.refusal() is not None

    def _unmirrored(self, site: SiteNode) -> list[str]:
        """How the batch system of `site` differs from what is locked there."""
        if site.system is None:
            return []
        stakes = self.auditor.stored[site.name].values()
        claims = [
            (claim["start"], claim["end"], claim["units"], stake["principal"]["user"])
            for stake in stakes
            for claim in stake["claims"]
            if claim["state"] == "locked" and claim["resource"] == f"{site.name}/n"
        ]
        return site.system.differences(claims)

    def _is_kept_waiting(self, client: Client) -> bool:
        """Whether it waits for a hostile site to say that it has freed what was cancelled."""
        waiting = client._waiting
        return client.name in self.involved and waiting is not None and waiting.kind == "cancel"

    def _works_on(self, broker: BrokerNode) -> list[Transaction]:
        """Cases that should come to an end: a hostile site may keep its own from being told."""
        cases = broker.coordinator.cases.values()
        return [
            case
            for case in cases
            if case.phase not in ("telling", "cancelling") or not self._may_last(case.rid)
        ]

    def _pending(self, site: SiteNode) -> list[str]:
        """What is neither locked nor free at `site`, of those who are not hostile."""
        stakes = site.participant.book.stakes.values()
        found = [
            f"{site.name} has {stake.rid} {stake.claims[0].state}"
            for stake in stakes
            if stake.claims and stake.claims[0].state in ("held", "intended", "prepared", "queued")
            if stake.register not in self.auditor.hostile_registers
        ]
        waiting = site.participant.waiting_here()
        rows = self.auditor.rows
        ours = [rid for rid in waiting if rid in rows or not self.auditor.hostile_registers]
        return [*found, *(f"{rid} waits at {site.name}" for rid in ours)]

    def _unfinished(self, rid: str) -> bool:
        row = self.auditor.rows[rid]
        return row.state == "open" if self._may_last(rid) else not row.done

    def _may_last(self, rid: str) -> bool:
        """Whether a hostile site can keep it from being told to all."""
        row = self.auditor.rows.get(rid)
        return row is not None and bool(self.auditor.hostile & row.body.get("chosen", {}).keys())

    def forgotten(self) -> bool:
        """No site keeps anything, in memory or stored, so that nobody asks a broker any more."""
        return not any(
            site.participant.book.stakes or self.auditor.stored[site.name] for site in self.sites
        )

    def kept(self) -> str:
        """What sites keep, for people."""
        found = [
            f"{site.name} has {rid} {stake['claims']}, the register {self.auditor.rows.get(rid)}"
            for site in self.sites
            for rid, stake in self.auditor.stored[site.name].items()
        ]
        return "; ".join(found)

    def unquiet(self) -> str:
        """What is still going on, for people."""
        found = [f"{client.name} waits for {client._waiting}" for client in self.clients
                 if not client.finished and not self._is_kept_waiting(client)]  # fmt: skip
        found += [f"{node.name} is down" for node in self.nodes if not node.in_place]
        for broker in self.brokers:
            if broker.up:
                for case in self._works_on(broker):
                    found.append(f"{broker.name} has {case.rid} {case.phase}")
                if not broker.idle:
                    found.append(f"{broker.name} is writing")
        for site in self.honest_sites:
            if site.up:
                found += self._pending(site)
                if self._compares(site):
                    found.append(f"{site.name} compares its promises")
            found += self._unmirrored(site)
        rows = self.auditor.rows
        found += [
            f"the register has {rid} {rows[rid].state}, not done, of {rows[rid].owner}"
            for rid in rows if self._unfinished(rid)
        ]  # fmt: skip
        return "; ".join(found)


class Faults:
    """The faults of one schedule: which kinds, how often; drawn from the seed."""

    def __init__(self, world: World, *, until_ms: int, hard: float = 1.0) -> None:
        self._world = world
        self._kernel = world.kernel
        self._until_ms = until_ms
        random = self._kernel.random

        def maybe(rate: float, chance: float = 0.5) -> float:
            return rate * hard * random.random() if random.random() < chance else 0.0

        world.network.stream = random.random() < 0.5
        world.network.weather = Weather(
            loss=maybe(0.25),
            duplicate=maybe(0.3),
            late=maybe(0.06),
            break_session=maybe(0.04),
            delay_ms_max=random.choice((10, 100, 1_000)),
        )
        for node in world.nodes:
            node.trouble.crash = maybe(0.02)
            node.trouble.torn = maybe(0.04, 1.0 if world.files else 0.3)
            node.trouble.full = maybe(0.04, 0.3)
            node.trouble.sync = maybe(0.04, 0.3)
            node.trouble.commit_ms_max = random.choice((3, 30, 300))
            node.trouble.down_ms_max = random.choice((500, 5_000, 40_000))
        self._kinds = [
            kind
            for kind in ("partition", "one-way", "flap", "crash", "pause", "jump", "drift")
            if random.random() < 0.5 * hard
        ]
        if random.random() < 0.25 * hard:
            self._kernel.after(random.randrange(40_000), self._silence)
        if random.random() < 0.5 * hard:
            self._skew()
        if self._kinds:
            self._plan()

    def heal(self) -> None:
        """No more faults; clocks are set, and what is down starts again."""
        world = self._world
        world.network.heal()
        for node in world.nodes:
            trouble = node.trouble
            trouble.crash = trouble.torn = trouble.full = trouble.sync = 0.0
            trouble.commit_ms_max = 20
            node.paused_until_ms = 0
            node.clock.heal()
            node.start()
        for site in world.sites:
            if site.system is not None:
                site.system.heal()

    @property
    def _random(self) -> Random:
        return self._kernel.random

    def _plan(self) -> None:
        self._kernel.after(self._random.randrange(1, 12_000), self._strike)

    def _strike(self) -> None:
        if self._kernel.now_ms >= self._until_ms:
            return
        kind = self._random.choice(self._kinds)
        getattr(self, f"_{kind.replace('-', '_')}")()
        self._plan()

    def _ends(self) -> tuple[str, str]:
        first, second = self._random.sample(self._world.nodes, 2)
        return first.name, second.name

    def _partition(self) -> None:
        """One node, or one pair, is cut off."""
        if self._random.random() < 0.5:
            self._cut(*self._ends(), both=True)
            return
        alone = self._random.choice(self._world.nodes)
        length_ms = self._length_ms()
        for node in self._world.nodes:
            if node is not alone:
                self._cut(alone.name, node.name, both=True, length_ms=length_ms)

    def _one_way(self) -> None:
        self._cut(*self._ends(), both=False)

    def _flap(self) -> None:
        ends = self._ends()
        self._kernel.fault("flapping", str(ends))
        at_ms = 0
        for _ in range(self._random.randrange(2, 8)):
            length_ms = self._random.randrange(1, 1_500)
            self._kernel.after(at_ms, self._cut_quietly, ends, length_ms)
            at_ms += length_ms + self._random.randrange(1, 1_500)

    def _cut_quietly(self, ends: tuple[str, str], length_ms: int) -> None:
        if self._kernel.now_ms < self._until_ms:
            self._world.network.cut(*ends, both=True)
            self._kernel.after(length_ms, self._mend, ends, True)

    def _cut(self, one: str, other: str, *, both: bool, length_ms: int = 0) -> None:
        self._kernel.fault("partition" if both else "one-way partition", f"{one} {other}")
        self._world.network.cut(one, other, both=both)
        self._kernel.after(length_ms or self._length_ms(), self._mend, (one, other), both)

    def _mend(self, ends: tuple[str, str], both: bool) -> None:
        self._world.network.mend(*ends, both=both)

    def _length_ms(self) -> int:
        return self._random.choice((500, 5_000, 30_000, 90_000))

    def _crash(self) -> None:
        node = self._random.choice(self._world.nodes)
        if node.up:
            self._kernel.fault("crash", node.name)
            node.crash()

    def _silence(self) -> None:
        """No broker can be reached by anybody, for so long that sites ask each other."""
        self._kernel.fault("brokers silent")
        length_ms = self._random.choice((10_000, 60_000))
        for broker in self._world.brokers:
            for site in self._world.sites:
                self._world.network.cut(broker.name, site.name, both=True)
                ends = (broker.name, site.name)
                self._kernel.after(length_ms, self._mend, ends, True)

    def _pause(self) -> None:
        node = self._random.choice(self._world.nodes)
        self._kernel.fault("pause", node.name)
        node.paused_until_ms = self._kernel.now_ms + self._random.choice((2_000, 20_000, 60_000))

    def _jump(self) -> None:
        node = self._random.choice(self._world.nodes)
        self._kernel.fault("clock jump", node.name)
        node.clock.skew_ms = self._random.randrange(-SKEW_MS_MAX, SKEW_MS_MAX)

    def _drift(self) -> None:
        node = self._random.choice(self._world.nodes)
        self._kernel.fault("clock drift", node.name)
        node.clock.drift(self._random.uniform(SLOWEST, FASTEST))

    def _skew(self) -> None:
        for node in self._world.nodes:
            self._kernel.fault("clock skew", node.name)
            node.clock.skew_ms = self._random.randrange(-SKEW_MS_MAX, SKEW_MS_MAX)
