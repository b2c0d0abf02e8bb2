"""A real Slurm on loopback in the hands of a test."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from benchmarks.job_rates.loopback_slurm import LoopbackSlurm

from kalends.backends.slurm.adapter import Slurm
from tests.backends.system_at_hand import until

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S: Final = 4.0
STUBBORN: Final = "#!/bin/sh\ntrap '' TERM CONT\nwhile :; do sleep 0.2; done\n"
PATIENT: Final = "#!/bin/sh\nexec sleep 100000\n"


class SlurmAtHand:
    """Each call of its commands is made in a thread: the loop of the test has a site on it."""

    name = "slurm"
    user = "daemon"
    other_user = "nobody"
    job_s_min = 60

    def __init__(self, cluster: LoopbackSlurm, top: Path) -> None:
        self._cluster = cluster
        self._top = top
        self.adapter = Slurm(str(top / "slurm.conf"), TIMEOUT_S)
        self.nodes = ("n1", "n2", "n3", "n4")

    async def freeze(self) -> None:
        self._cluster.freeze_controller()

    async def thaw(self) -> None:
        self._cluster.thaw_controller()

    async def crash(self) -> None:
        await asyncio.to_thread(self._cluster.kill_controller)

    async def stop(self) -> None:
        await asyncio.to_thread(self._cluster.stop_controller)

    async def start(self, nodes: Sequence[str] = ()) -> None:
        await asyncio.to_thread(self._cluster.start_controller, tuple(nodes))

        async def up() -> bool:
            try:
                await self._said("scontrol", "ping")
            except subprocess.CalledProcessError:
                return False
            return True

        await until(up, "slurmctld does not come up")

    async def delete(self, name: str) -> None:
        await self._said("scontrol", "delete", f"ReservationName={name}")

    async def change(self, name: str, **fields: object) -> None:
        words = {
            "start": "StartTime=uts{}", "end": "EndTime=uts{}", "nodes": "Nodes={}", "users": "Users={}",
            "open": "Flags=MAINT",
        }  # fmt: skip
        said = [words[field].format(value) for field, value in fields.items()]
        await self._said("scontrol", "update", f"ReservationName={name}", *said)

    async def reserve(
        self, name: str, nodes: Sequence[str], start: int, end: int, *, force: bool = False
    ) -> None:
        flags = ["Flags=OVERLAP"] if force else []
        await self._said(
            "scontrol", "create", "reservation", f"ReservationName={name}", f"StartTime=uts{start}",
            f"EndTime=uts{end}", f"Nodes={','.join(nodes)}", f"Users={self.other_user}", *flags,
        )  # fmt: skip

    async def take_down(self, node: str) -> None:
        await self._said("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")

    async def drain(self, node: str) -> None:
        await self._said("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    async def mend(self, node: str) -> None:
        said = await self._said("sinfo", "-h", "-n", node, "-o", "%T")
        if "down" in said or "drain" in said:
            await self._said("scontrol", "update", f"NodeName={node}", "State=RESUME")

    async def run(
        self,
        nodes: Sequence[str],
        limit_s: int | None,
        *,
        reservation: str = "",
        stubborn: bool = False,
    ) -> str:
        script = self._top / "work" / ("stubborn.sh" if stubborn else "patient.sh")
        script.write_text(STUBBORN if stubborn else PATIENT)
        minutes = "UNLIMITED" if limit_s is None else f"0:{limit_s}"
        user = self.user if reservation else self.other_user
        said = await self._said(
            "sbatch", "--parsable", f"--uid={user}", f"--nodelist={','.join(nodes)}",
            f"-N{len(nodes)}", f"--time={minutes}", "--output=/dev/null",
            *([f"--reservation={reservation}"] if reservation else []), str(script),
        )  # fmt: skip
        job = said.strip()

        async def running() -> bool:
            return (await self._said("squeue", "-h", "-j", job, "-o", "%T")).strip() == "RUNNING"

        await until(running, f"job {job} does not run")
        return job

    async def lengthen(self, job: str, limit_s: int) -> None:
        await self._said("scontrol", "update", f"JobId={job}", f"TimeLimit=0:{limit_s}")

    async def cancel_all(self) -> None:
        async def gone() -> bool:
            jobs = (await self._said("squeue", "-h", "-a", "-o", "%i")).split()
            # One that has just ended cannot be cancelled any more.
            with contextlib.suppress(subprocess.CalledProcessError):
                if jobs:
                    await self._said("scancel", "--signal=KILL", "--full", *jobs)
                    await self._said("scancel", *jobs)
            return not jobs

        await until(gone, "jobs do not end")

    async def _said(self, *command: str) -> str:
        return await asyncio.to_thread(functools.partial(self._cluster.said, *command))
