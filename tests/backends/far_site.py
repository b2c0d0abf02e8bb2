"""A site before a batch system that decides alone, as a process that can be killed, with its desks."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import kalends
from kalends.backends.desks.desk_line import MODULE
from kalends.contract.job_calls import JobView
from kalends.core.jobs import JobRequest
from tests.processes.facility import broker_text, write
from tests.processes.servers import Server, until
from tests.support.ports import free_urls

FAR: Final = "lab/far"
KNOWN: Final = "distant has it as "
OVER: Final = ("ended", "lost", "withdrawn")

SITE: Final = """
[log]
form = "json"
[site]
name = "lab"
listen = "{listen}"
plain_http = true
url = "{url}"
store = "lab.sqlite"
[[site.resources]]
name = "far"
capacity = 2
grain = "1s"
batch_system = "distant"
[[site.resources]]
name = "beam"
grain = "1s"
[[site.machines]]
resource = "far"
[[site.batch_systems]]
name = "distant"
{reached}
look_every = "1s"
users = {{ ann = "{user}" }}
{more}
"""


class FarSite:
    """`home` is that of the Unix user `user`, and `marks` in it is for what jobs leave.

    The system is reached by an executor of PSI/J; or it is the Slurm with this `configuration` file.
    """

    def __init__(
        self,
        top: Path,
        user: str = "",
        executor: str = "local",
        environment: str = "",
        configuration: str = "",
    ) -> None:
        top.chmod(0o711)
        self.user = user or ("nobody" if os.geteuid() == 0 else getpass.getuser())
        self.home = top / "home"
        self.marks = self.home / "marks"
        self.marks.mkdir(parents=True)
        if os.geteuid() == 0:
            for each in (self.home, self.marks):
                shutil.chown(each, self.user)
        site, broker = free_urls(2)
        reached = f'kind = "psij"\nexecutor = "{executor}"'
        if configuration:
            reached = f'kind = "slurm"\nconfiguration = "{configuration}"\nanswer_s_max = 2.0'
        text = SITE.format(
            listen=site.removeprefix("http://"), url=site, user=self.user, reached=reached,
            more=f'environment = {{ HOME = "{self.home}"{environment} }}',
        )  # fmt: skip
        self.site = Server("lab", write(top / "lab.toml", text), site)
        self.broker = Server(
            "broker", write(top / "broker.toml", broker_text(broker, {"lab": site})), broker
        )

    @property
    def attempts(self) -> list[Path]:
        """Return the folders of all attempts, the newest last."""
        return sorted(
            (self.home / ".kalends/handed-over/lab.far").glob("*"), key=lambda each: each.name
        )

    def client(self, at: Server | None = None) -> kalends.Client:
        return kalends.connect((at or self.site).url, user="ann", zone="UTC")

    async def submit(self, text: str, **more: Any) -> int:
        """Submit a shell command; return the number of the job."""
        wanted = {"limit_s": 60, "directory": "marks", **more}
        async with self.client() as client:
            submitted = await client.submit(
                JobRequest(machine=FAR, command=("/bin/sh", "-c", text), **wanted)
            )
            return submitted.job.job

    async def view(self, number: int) -> JobView:
        async with self.client() as client:
            return await client.job(FAR, number)

    async def seen(self, number: int, looks: Callable[[JobView], bool]) -> JobView:
        """Wait until a job looks so, and return it."""
        last: list[JobView] = []

        async def found() -> JobView | None:
            last[:] = [await self.view(number)]
            return last[0] if looks(last[0]) else None

        view = await until(found, f"job {number}", explain=lambda: last)
        assert view is not None
        return view

    async def known_there(self, number: int) -> str:
        """Wait until a job has a number in the batch system, and return that."""
        view = await self.seen(
            number, lambda view: KNOWN in "".join(view.reasons) or view.phase in OVER
        )
        assert KNOWN in view.reasons[0], view
        return view.reasons[0].removeprefix(KNOWN)

    async def over(self, number: int) -> JobView:
        return await self.seen(number, lambda view: view.phase in OVER)

    async def marked(self, name: str) -> str:
        """Wait until a job has written into a file of this name, and return it."""

        async def found() -> str:
            path = self.marks / name
            return path.read_text() if path.exists() else ""

        return await until(found, f"the mark {name}")

    async def die(self) -> None:
        """Kill the site and its desks, all at once."""
        desks = _desks_of(self.site.pid)
        await self.site.kill()
        for each in desks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def _desks_of(site: int) -> list[int]:
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
            parent = int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[1])
            if MODULE.encode() in words and parent == site:
                found.append(int(each))
    return found


@contextlib.asynccontextmanager
async def far_site(site: FarSite) -> AsyncIterator[FarSite]:
    await site.site.start()
    try:
        yield site
    finally:
        for server in (site.broker, site.site):
            if server.running:
                await server.stop()


STAGES: Final[dict[str, Callable[[Path], bool]]] = {
    "nothing": lambda folder: True,
    "its folder is there": lambda folder: folder.exists(),
    "its script is there": lambda folder: (folder / "run").exists(),
    "it is numbered": lambda folder: (folder / "native").exists(),
    "it has begun": lambda folder: (folder / "turn").exists(),
}


async def each_job_runs_once(far: FarSite, *, desks: bool) -> None:
    """Kill the site, with its `desks` or alone, at each stage of a job; fail if a job does not run once."""
    await far.over(await far.submit("true"))
    jobs = []
    for number, reached in enumerate(STAGES.values()):
        known = len(far.attempts)
        jobs.append(await far.submit(f"echo once >> mark-{number}; sleep 0.3"))

        async def at_stage(known: int = known, reached: Callable[[Path], bool] = reached) -> bool:
            new = far.attempts[known:]
            return reached(new[0] if new else far.home / "none")

        await until(at_stage, "the stage")
        await (far.die() if desks else far.site.kill())
        await far.site.start()
    for number, job in enumerate(jobs):
        over = await far.over(job)
        assert (over.phase, over.end) == ("ended", "exit"), over
        assert (far.marks / f"mark-{number}").read_text() == "once\n"
