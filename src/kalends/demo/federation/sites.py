"""Four sites with a machine each, one of them behind a virtual site, and a broker: all running.

The last is before a Slurm, where one can be run.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kalends.demo import processes
from kalends.demo.clusters import loopback_slurm
from kalends.demo.clusters.loopback_slurm import LoopbackSlurm
from kalends.demo.clusters.sites import UNIX_USER, slurms, top_folder
from kalends.demo.facility import Facility, FacilityPlan, facility, packaged

LAST: Final = "uva"
LAST_NODES: Final = 4
POLICIES: Final = {"sdsc": ("conservative", 8), "ctc": ("easy", 8), "ncsa": ("fcfs", 4)}
"""The policy of each queue of ours, and the nodes of its machine."""

VIRTUAL: Final = "northeast"
"""The virtual site through which the broker reaches `MEMBER`."""

MEMBER: Final = "ctc"

WITHOUT_SLURM: Final = "sjf"
"""The policy at the last site where no Slurm can be run."""


@dataclass(frozen=True)
class Federation:
    """The servers, and the Slurm at the last site, if there is one."""

    facility: Facility
    slurm: LoopbackSlurm | None

    async def stop(self, site: str) -> None:
        """End the server of a site; its jobs run on."""
        await processes.stop((self.facility.servers[site],))

    async def start(self, site: str) -> None:
        """Start it again, where its broker looks for it."""
        server, file = self.facility.servers[site], f"running-{site}.toml"
        configuration = self.facility.directory / file
        text = configuration.read_text("utf-8")
        address = server.url.removeprefix("http://")
        configuration.write_text(text.replace("127.0.0.1:0", address), "utf-8")
        self.facility.servers[site] = await processes.start(site, configuration)


@contextlib.asynccontextmanager
async def federation(
    directory: Path, now_s: int, said: Callable[[str], None]
) -> AsyncIterator[Federation]:
    """Run everything until this context ends; the files stay in `directory`, which is new or empty.

    Raises what `facility` raises. However the context ends, no server is left running.
    """
    async with contextlib.AsyncExitStack() as stack:
        slurm, home = None, Path()
        if why := loopback_slurm.why_not():
            said(f"{LAST} has a queue of ours as well: {why}")
        else:
            said(f"starting the Slurm of {LAST}")
            top = stack.enter_context(top_folder())
            slurm = (await stack.enter_async_context(slurms(top, (LAST,))))[LAST]
            home = await asyncio.to_thread(_home_in, top)
        plan = _plan(str(slurm.configuration_file) if slurm is not None else "", home)
        running = await stack.enter_async_context(facility(directory, now_s, said, plan))
        yield Federation(running, slurm)


def _home_in(top: Path) -> Path:
    """Make a home below `top` for the account that has none."""
    home = top / "home"
    home.mkdir(0o700)
    shutil.chown(home, UNIX_USER)
    return home


def _plan(slurm_file: str, home: Path) -> FacilityPlan:
    sites = {name: _queue(name, policy, nodes) for name, (policy, nodes) in POLICIES.items()}
    sites[LAST] = _queue(LAST, WITHOUT_SLURM, LAST_NODES)
    if slurm_file:
        text = packaged("federation", "site-slurm.toml").replace("SLURM_CONF", slurm_file)
        text = text.replace("FOLDER", str(home))
        sites[LAST] = text.replace("SITE", LAST).replace("NODES", str(LAST_NODES))
    return FacilityPlan(
        sites,
        packaged("federation", "broker.toml"),
        virtual={VIRTUAL: packaged("federation", "virtual.toml")},
    )


def _queue(name: str, policy: str, nodes: int) -> str:
    text = packaged("federation", "site-queue.toml").replace("SITE", name)
    return text.replace("POLICY", policy).replace("NODES", str(nodes))
