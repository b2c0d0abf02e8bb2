"""Both Slurms, the sites before them, an instrument's site and a broker: all running, all ended."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from kalends.core.errors import Unavailable
from kalends.demo.clusters import loopback_slurm
from kalends.demo.clusters.loopback_slurm import LoopbackSlurm
from kalends.demo.facility import Facility, FacilityPlan, facility, packaged

NODES: Final = 4
CENTRES: Final = ("sdsc", "ncsa")
UNIX_USER: Final = "nobody"
"""The Unix user of the demo's user on both clusters, from the table of each site."""

STRANGER: Final = "daemon"


@dataclass(frozen=True)
class Centres:
    """The servers, and the Slurm of each centre."""

    facility: Facility
    slurms: Mapping[str, LoopbackSlurm]
    program: tuple[str, ...]
    """The words that run `rod` as `UNIX_USER`."""


@contextlib.asynccontextmanager
async def centres(
    directory: Path, now_s: int, said: Callable[[str], None]
) -> AsyncIterator[Centres]:
    """Run everything until this context ends; the files stay in `directory`, which is new or empty.

    Raises `Unavailable` where no Slurm can be run, and what `facility` raises. However the context ends,
    nothing is left running.
    """
    why = loopback_slurm.why_not()
    if why:
        raise Unavailable(
            why, remedy="as root: tools/setup-slurm, or apt-get install these packages"
        )
    python = _python_of_all()
    with top_folder() as top:
        rod = top / "rod.py"
        rod.write_text(
            resources.files("kalends.demo.clusters").joinpath("rod.py").read_text("utf-8")
        )
        said(f"starting two Slurms of {NODES} nodes: {', '.join(CENTRES)}")
        async with slurms(top, CENTRES) as running_slurms:
            files = {name: f"{top}/{name}/slurm.conf" for name in CENTRES}
            async with facility(directory, now_s, said, _plan(files)) as running:
                yield Centres(running, running_slurms, (python, str(rod)))
            said("stopping both Slurms")


def _plan(slurm_files: Mapping[str, str]) -> FacilityPlan:
    sites = {"caltech": packaged("clusters", "site-caltech.toml")}
    for name, file in slurm_files.items():
        text = packaged("clusters", "site-cluster.toml")
        sites[name] = text.replace("SITE", name).replace("SLURM_CONF", file)
    return FacilityPlan(sites, packaged("broker.toml"))


@contextlib.contextmanager
def top_folder() -> Iterator[Path]:
    """Make a folder with a short path, as sockets need it, that is open to those who run jobs."""
    with tempfile.TemporaryDirectory(prefix="kalends-slurm-") as top:
        Path(top).chmod(0o755)
        yield Path(top)


@contextlib.asynccontextmanager
async def slurms(top: Path, names: Sequence[str]) -> AsyncIterator[Mapping[str, LoopbackSlurm]]:
    """Run a Slurm of `NODES` nodes for each of `names`, below `top`, until this context ends."""
    found = {}
    for name in names:
        (top / name).mkdir()
        found[name] = LoopbackSlurm(top / name, NODES, name=name)
    starting = asyncio.gather(*(asyncio.to_thread(each.start) for each in found.values()))
    try:
        await asyncio.shield(starting)
        yield found
    finally:
        # A thread cannot be cancelled: what it starts is stopped when it has started.
        await asyncio.gather(starting, return_exceptions=True)
        await asyncio.gather(*(asyncio.to_thread(each.stop) for each in found.values()))


def _python_of_all() -> str:
    """Return a Python that `UNIX_USER` may run; raises `Unavailable` without one."""
    for folder in ("/usr/bin", "/usr/local/bin", "/bin"):
        found = shutil.which("python3", path=folder)
        if found and _runs(found):
            return found
    raise Unavailable(
        f"no Python that the Unix user {UNIX_USER} may run", remedy="apt-get install python3"
    )


def _runs(python: str) -> bool:
    done = subprocess.run(
        [python, "-c", "import socket"], user=UNIX_USER, cwd="/", check=False, capture_output=True
    )
    return done.returncode == 0
