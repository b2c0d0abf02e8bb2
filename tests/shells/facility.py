"""The shipped servers in a world: sites, brokers with replicas that share a host, and clients."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections import Counter, deque
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import kalends
from kalends.client.client import Client
from kalends.contract.versions import KNOWN
from kalends.core.hosts import Host
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.servers.virtual import build_virtual
from kalends.serving.configuration import load_configuration
from kalends.serving.http.runner import Service, listen
from kalends.serving.logs import configure_logging
from tests.shells.job_host import MOVED, host_below
from tests.shells.keys import Keys
from tests.shells.nodes import Node
from tests.shells.stage import NOBODY, NODE
from tests.shells.substitutes import WALL_AT_BEGIN_S
from tests.shells.witness import Witness
from tests.shells.world import World

START_AGAIN_S = 1.0
LINES_MAX = 2_000

MACHINE = """
[[site.machines]]
resource = "cluster"
grace = "2s"
aim = "response"
policy = "{}"
"""

_STAMP = re.compile(r', "timestamp": "[^"]*"')


class Plan(NamedTuple):
    """What a facility consists of. `replicas` of each broker share its host and store.

    Each site has one resource, ``cluster``, of `capacity` units. With `keys`, each owner has a key of
    its own; without, access is open. `site_options` goes into each site's section as TOML, `broker_options`
    into each broker's.
    """

    sites: int = 2
    brokers: int = 1
    replicas: int = 1
    capacity: int = 4
    keys: bool = False
    site_options: str = ""
    broker_options: str = ""
    machine: bool = False
    """Each site runs jobs on its resource: on a simulated host (`job_host`)."""
    policy: str = "easy"
    """Of the queues of such sites."""
    vouches: Mapping[str, str] = {}
    """Brokers whose keys may speak for some users only, and the pattern of those; with `keys`."""
    virtual: Mapping[str, tuple[str, ...]] = {}
    """Virtual sites and their members, sites and virtual sites: brokers reach those by them alone."""
    ways: Mapping[str, str] = {}
    """Members that are no servers, and the paths that lead to them, which begin with a server's name."""
    audited: bool = True
    """Judged all the time, by the auditor and the oracles of `tests.simulation`; see `witness`."""


class Log(io.TextIOBase):
    """What all processes log; `lines` of each, the last ones."""

    def __init__(self, world: World) -> None:
        self.lines: dict[str, deque[str]] = {}
        self._world = world

    def write(self, text: str) -> int:
        node = NODE.get()
        name = node.name if node is not None else "world"
        line = _STAMP.sub("", text.strip())  # It comes from C, and is real.
        line = line.replace(str(self._world.folder), "")  # Another one in each process.
        if line:
            self._world.note("logs", name, line)
            lines = self.lines.setdefault(name, deque(maxlen=LINES_MAX))
            lines.append(f"{self._world.loop.now_s:.3f} {line}")
        return len(text)

    def isatty(self) -> bool:
        return False


class Facility:
    """Sites are called ``site0``, brokers ``broker0``, and their replicas ``broker0-0``."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.log = Log(world)
        configure_logging("info", "json", self.log)
        self.sites = [f"site{number}" for number in range(plan.sites)]
        self.brokers = [f"broker{number}" for number in range(plan.brokers)]
        self.replicas = [
            f"{broker}-{number}" for broker in self.brokers for number in range(plan.replicas)
        ]
        self.servers = [*self.sites, *plan.virtual, *self.replicas]
        self._address = {name: f"127.0.0.{n + 1}" for n, name in enumerate(self.servers)}
        self.counts: Counter[str] = Counter()
        """What a story has done, and how often, for the report."""
        self.features: dict[str, frozenset[str]] = {}
        """What servers know at their next start, if that is not all."""
        self._clients = 0
        self._keys = Keys(world.folder, self.brokers, plan.vouches) if plan.keys else None
        self._configured = {name: self._site(name) for name in self.sites}
        self._configured |= {name: self._virtual(name) for name in plan.virtual}
        self._configured |= {name: self._replica(name) for name in self.replicas}
        self.witness = Witness(self) if plan.audited else None
        for name in self.servers:
            world.disk_of(self.host_of(name)).mkdir(exist_ok=True)

    @property
    def everything(self) -> str:
        """One unit at each site, as a request."""
        return " + ".join(f"{site}/cluster:1" for site in self.sites)

    @property
    def tomorrow(self) -> int:
        """A start that fits the grain, in true time."""
        return WALL_AT_BEGIN_S - WALL_AT_BEGIN_S % 600 + 86_400

    def host_of(self, name: str) -> str:
        return name.partition("-")[0]

    # Life

    def start(self, name: str) -> Node:
        """The process of the server `name` begins; it is started again until it serves."""
        node = self.world.node(name, self._address[name], self.host_of(name))
        node.run(self._serve(name))
        return node

    async def up(self, settle_s: float = 3.0) -> None:
        """Start all servers, and let them find each other."""
        for name in self.servers:
            self.start(name)
        await asyncio.sleep(settle_s)

    def restart(self, name: str, *, dark: bool = False) -> None:
        """Kill `name`, and start it again."""
        self.world.kill(name, dark=dark)
        self.start(name)

    def move(self, name: str, host: str) -> None:
        """Kill `name`, and start it with its store on another host for its jobs."""
        self.world.kill(name)
        MOVED[self.host_of(name)] = host
        self.world.note("moves", name, host)
        self.start(name)

    async def _serve(self, name: str) -> None:
        folder = self.world.disk_of(self.host_of(name))
        version: Any = {"version": "simulated", "features": self.features.get(name, KNOWN)}
        try:
            configuration = load_configuration(self._configured[name], folder)
            if configuration.site is not None:
                below = host_below(self.host_of(name))
                application = build_site(configuration.site, host=Host(below, below), **version)
                address = configuration.site.listen
            elif configuration.virtual is not None:
                application = build_virtual(configuration.virtual, **version)
                address = configuration.virtual.listen
            else:
                assert configuration.broker is not None
                application = build_broker(configuration.broker, **version)
                address = configuration.broker.listen
            await listen(Service(name, application, address))
        except Exception as error:
            self.log.write(f"does not start: {error!r}")
            loop = self.world.loop
            loop.call_later(START_AGAIN_S, self._start_again, NODE.get(), context=NOBODY)

    def _start_again(self, node: Node) -> None:
        if not node.dead:
            self.restart(node.name)

    # Clients

    def client(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """`work` as a process of its own, on its own host."""
        self._clients += 1
        return self.world.node(name, f"127.0.1.{self._clients}").run(work)

    def connect(self, server: str, user: str, **more: Any) -> Client:
        """The shipped client, as `user` of `server`."""
        proof = {"token": self._keys.token(user, self._names)} if self._keys else {"user": user}
        return kalends.connect(f"http://{self._address[server]}:80", zone="UTC", **proof, **more)

    @property
    def _names(self) -> list[str]:
        return [*self.brokers, *self.sites, *self.plan.virtual]

    def logged(self, word: str, name: str = "") -> list[str]:
        """Lines of the logs, of `name` or of all, that have `word` in them."""
        names = [name] if name else sorted(self.log.lines)
        return [line for each in names for line in self.log.lines.get(each, ()) if word in line]

    # Configurations

    def _site(self, name: str) -> str:
        return f"""
[site]
name = "{name}"
listen = "{self._address[name]}:80"
plain_http = true
url = "http://{self._address[name]}:80"
store = "{name}.sqlite"
{self.plan.site_options}
[site.agents]
enabled = false
{self._keys.listed("site", brokers=True) if self._keys else ""}
[[site.resources]]
name = "cluster"
capacity = {self.plan.capacity}
grain = "10m"
{MACHINE.format(self.plan.policy) if self.plan.machine else ""}
"""

    def _virtual(self, name: str) -> str:
        members = "".join(
            f'[[virtual.members]]\nname = "{each}"\nurl = "{self._url(each)}"\n'
            for each in self.plan.virtual[name]
        )
        return f"""
[virtual]
name = "{name}"
listen = "{self._address[name]}:80"
plain_http = true
{members}"""

    def _url(self, member: str) -> str:
        server, slash, path = self.plan.ways.get(member, member).partition("/")
        return f"http://{self._address[server]}:80{slash}{path}"

    def _ways(self, virtual: str) -> Iterator[str]:
        """Return the ways to the sites below a virtual site; of a site, none."""
        for name in self.plan.virtual.get(virtual, ()):
            below = [f"{name}/{way}" for way in self._ways(name)]
            yield from below or [name]

    def _replica(self, name: str) -> str:
        broker, _, number = name.partition("-")
        siblings = [each for each in self.replicas if each.startswith(f"{broker}-")]
        coords = ", ".join(f'"http://{self._address[each]}:80"' for each in siblings)
        nested = {name for members in self.plan.virtual.values() for name in members}
        sites = "".join(
            f'[[broker.sites]]\nname = "{name}"\nurl = "http://{self._address[name]}:80"\n'
            f"members = {list(self._ways(name))}\n"
            for name in [*self.sites, *self.plan.virtual]
            if name not in nested
        )
        return f"""
[broker]
name = "{broker}"
replica = "{number}"
listen = "{self._address[name]}:80"
plain_http = true
url = "http://{self._address[name]}:80"
store = "{broker}.sqlite"
coords = [{coords}]
{self.plan.broker_options}
{self._keys.own(broker) if self._keys else ""}
[broker.agents]
enabled = false
{self._keys.listed("broker", brokers=False) if self._keys else ""}
{sites}"""


def world_folder() -> Path:
    """Where disks of worlds lie: in memory where there is such a place."""
    return Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp")
