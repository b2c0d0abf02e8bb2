"""A computing centre of two machines that a real Slurm runs: a cluster, and a room that was handed over.

The nodes of the cluster are booked through a broker; those of the room are given to jobs by the site's queue.
All servers are processes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import kalends
from kalends.contract.job_calls import JobView
from kalends.core.errors import Conflict, InvalidInput, NoCommonTime, Unavailable
from kalends.core.jobs import JobRequest
from tests.backends.slurm_at_hand import SlurmAtHand
from tests.processes.facility import broker_text, write
from tests.processes.servers import Server, until
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_urls

CLUSTER: Final = "centre/cluster"
ROOM: Final = "centre/room"

CENTRE: Final = """
[log]
form = "json"
[site]
name = "centre"
listen = "{listen}"
plain_http = true
url = "http://{listen}"
store = "centre.sqlite"
[[site.resources]]
name = "cluster"
capacity = 2
nodes = "n[1-2]"
grain = "1s"
[[site.resources]]
name = "room"
capacity = 2
grain = "1s"
[[site.machines]]
resource = "cluster"
directory = "{top}/cluster"
grace = "1s"
[[site.machines]]
resource = "room"
nodes = "n[3-4]"
directory = "{top}/room"
grace = "1s"
class_members = {{ high = ["everyone"] }}
[[site.batch_systems]]
name = "slurm"
configuration = "{configuration}"
users = {{ ann = "{ann}", bob = "{bob}" }}
answer_s_max = 4.0
look_every = "1s"
warn = "3s"
kill = "2s"
"""


class ComputingCentre:
    """The centre's site and a broker before it; `marks` is a folder for what jobs leave."""

    def __init__(self, top: Path, slurm: SlurmAtHand) -> None:
        self.slurm = slurm
        self.top = top
        top.chmod(0o711)
        self.marks = top / "marks"
        self.marks.mkdir()
        self.marks.chmod(0o777)
        site, broker = free_urls(2)
        text = CENTRE.format(
            listen=site.removeprefix("http://"), top=top, ann=slurm.user, bob=slurm.other_user,
            configuration=slurm.adapter.configuration,
        )  # fmt: skip
        self.site = Server("centre", write(top / "centre.toml", text), site)
        text = broker_text(broker, {"centre": site})
        self.broker = Server("broker", write(top / "broker.toml", text), broker)

    async def start(self) -> None:
        await self.site.start()
        await self.broker.start()

        async def known() -> bool:
            async with self.client(at=self.broker) as booker:
                window = ("now+1h", "now+2h")
                return bool((await booker.find(CLUSTER, duration="1m", window=window)).candidates)

        await until(known, "the site has looked at its system")

    async def stop(self) -> None:
        for server in (self.broker, self.site):
            if server.running:
                await server.stop()

    def client(self, user: str = "ann", at: Server | None = None) -> kalends.Client:
        return kalends.connect((at or self.site).url, user=user, zone="UTC")

    async def booked(self, nodes: int = 2, length_s: int = 180, user: str = "ann") -> str:
        """Return the id of a reservation of the cluster that begins in a moment."""
        refused: list[str] = []
        async with self.client(user, self.broker) as booker:

            async def found() -> str:
                # A moment may be over when it is asked for, and a site that was killed not back yet.
                start = int(time.time()) + 4
                try:
                    booked = await booker.book(f"{CLUSTER}:{nodes}", at=start, duration=length_s)
                    return booked.id
                except (NoCommonTime, InvalidInput, Unavailable) as error:
                    refused.append(f"{error} {error.refusals}")
                return ""

            return await until(found, "the cluster is not free", explain=lambda: refused[-3:])

    def job(self, machine: str, text: str, **more: Any) -> JobRequest:
        """A job that runs a line of the shell's in the folder of marks."""
        command = () if "script" in more else ("/bin/sh", "-c", text)
        fields = {"limit_s": 0 if more.get("reservation") else 60, "command": command, **more}
        return JobRequest(machine=machine, **{"directory": str(self.marks), **fields})

    def in_room(self, text: str, **more: Any) -> JobRequest:
        return self.job(ROOM, text, **more)

    def marked(self, name: str = "marks") -> list[str]:
        """Return the lines that jobs have written to a file."""
        path = self.marks / name
        return path.read_text().splitlines() if path.exists() else []

    async def marks_it(self, word: str, name: str = "marks") -> None:
        async def has() -> bool:
            return word in self.marked(name)

        await until(has, f"no job writes {word}", explain=lambda: self.marked(name))

    async def over(
        self, client: kalends.Client, view: JobView, within_s: float = PATIENCE_S
    ) -> JobView:
        async def ended() -> JobView | None:
            now = await client.job(view.machine, view.job)
            return now if now.end else None

        return await until(
            ended, f"job {view.job} is over", within_s=within_s, explain=self.site.log
        )

    async def running(self, client: kalends.Client, view: JobView) -> JobView:
        async def runs() -> JobView | None:
            now = await client.job(view.machine, view.job)
            assert not now.end, now
            return now if now.phase == "running" else None

        return await until(runs, f"job {view.job} runs", explain=self.site.log)

    async def ours(self) -> list[tuple[str, str, str]]:
        """Return what Slurm has under names of ours: the name, its user, its nodes."""
        said = await self.slurm.said("squeue", "-h", "-a", "-o", "%j %u %N")
        rows = [[*each.split(), ""][:3] for each in said.splitlines()]
        return [(name, user, nodes) for name, user, nodes in rows if name.startswith("kal.")]

    async def problems(self) -> str:
        """Return what the operator of the centre is told."""
        async with self.client("operator") as operator:
            return "\n".join((await operator.audit()).problems)

    async def output(self, client: kalends.Client, view: JobView) -> str:
        return (await client.job_output(view.machine, view.job)).data.decode()

    def clear_marks(self) -> None:
        for each in self.marks.iterdir():
            each.unlink()

    async def clear(self) -> None:
        """End all jobs and all reservations, and bring everything back that was away."""
        await self.slurm.thaw()
        await self.slurm.start()
        for server in (self.site, self.broker):
            if not server.running:
                await server.start()
        async with self.client() as client:
            for machine in (CLUSTER, ROOM):
                for view in (await client.jobs(machine, everyone=True)).jobs:
                    await client.kill_job(machine, view.job)
                    await self.over(client, view)
        for user in ("ann", "bob"):
            async with self.client(user, self.broker) as booker:
                for each in await booker.list(state="reserved"):
                    # What has ended needs no clearing, and cannot be cancelled.
                    with contextlib.suppress(Conflict):
                        await booker.cancel(each.id)
        await self.slurm.cancel_all()

        async def empty() -> bool:
            return not (await self.slurm.adapter.state()).reservations

        await until(empty, "its reservations do not go")


@contextlib.asynccontextmanager
async def opened(top: Path, slurm: SlurmAtHand) -> AsyncIterator[ComputingCentre]:
    """A centre that runs; in the end its servers, and the zygotes and jobs that they have left, are gone."""
    centre = ComputingCentre(top, slurm)
    await centre.start()
    try:
        yield centre
    finally:
        await centre.stop()
