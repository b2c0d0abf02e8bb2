"""A real Slurm on loopback in the hands of a test."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from kalends.backends.slurm.adapter import Slurm
from tests.backends.conformance.system_at_hand import until
from tests.backends.operated_slurm import OperatedSlurm
from tests.support.patience import PATIENCE_S

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
    job_begins_s_max = 20
    many = 40
    answer_s_max = 8.0
    reserves_over = True
    lengthens_over = True

    def __init__(self, cluster: OperatedSlurm, top: Path, *, in_parts: bool = False) -> None:
        self._cluster = cluster
        self._top = top
        self.configuration = str(top / "slurm.conf")
        self.adapter = Slurm(self.configuration, TIMEOUT_S, in_parts=in_parts)
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
                await self.said("scontrol", "ping")
            except subprocess.CalledProcessError:
                return False
            return True

        await until(up, "slurmctld does not come up")

    async def accounts(self, *, kept: bool) -> None:
        """Have its accounting answer, or be there no more."""
        accounting = self._cluster.accounting
        assert accounting is not None
        await asyncio.to_thread(accounting.start_daemon if kept else accounting.stop_daemon)

    async def delete(self, name: str) -> None:
        await self.said("scontrol", "delete", f"ReservationName={name}")

    async def change(self, name: str, **fields: object) -> None:
        words = {
            "start": "StartTime=uts{}", "end": "EndTime=uts{}", "nodes": "Nodes={}", "users": "Users={}",
            "open": "Flags=MAINT",
        }  # fmt: skip
        said = [words[field].format(value) for field, value in fields.items()]
        await self.said("scontrol", "update", f"ReservationName={name}", *said)

    async def reserve(
        self, name: str, nodes: Sequence[str], start: int, end: int, *, force: bool = False
    ) -> None:
        flags = ["Flags=OVERLAP"] if force else []
        await self.said(
            "scontrol", "create", "reservation", f"ReservationName={name}", f"StartTime=uts{start}",
            f"EndTime=uts{end}", f"Nodes={','.join(nodes)}", f"Users={self.other_user}", *flags,
        )  # fmt: skip

    async def take_down(self, node: str) -> None:
        await self.said("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")

    async def drain(self, node: str) -> None:
        await self.said("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    async def mend(self, node: str) -> None:
        said = await self.said("sinfo", "-h", "-n", node, "-o", "%T")
        if "down" in said or "drain" in said:
            await self.said("scontrol", "update", f"NodeName={node}", "State=RESUME")

    async def run(
        self,
        nodes: Sequence[str],
        limit_s: int | None,
        *,
        reservation: str = "",
        stubborn: bool = False,
        options: Sequence[str] = (),
        within_s: float = PATIENCE_S,
    ) -> str:
        script = self._top / "work" / ("stubborn.sh" if stubborn else "patient.sh")
        script.write_text(STUBBORN if stubborn else PATIENT)
        minutes = "UNLIMITED" if limit_s is None else f"0:{limit_s}"
        user = self.user if reservation else self.other_user
        said = await self.said(
            "sbatch", "--parsable", f"--uid={user}", f"--nodelist={','.join(nodes)}",
            f"-N{len(nodes)}", f"--time={minutes}", "--output=/dev/null", *options,
            *([f"--reservation={reservation}"] if reservation else []), str(script),
        )  # fmt: skip
        job = said.strip()

        async def running() -> bool:
            return (await self.said("squeue", "-h", "-j", job, "-o", "%T")).strip() == "RUNNING"

        await until(running, f"job {job} does not run", within_s)
        return job

    async def would_start(self, nodes: int, minutes: int, since: int) -> int:
        """Return when Slurm says that a job of a stranger would start, `since` then (seconds UTC)."""
        return await asyncio.to_thread(
            self._cluster.would_start, self.other_user, nodes, minutes, since
        )

    async def reserves(self, count: int, start: int, minutes: int) -> bool:
        """Whether Slurm reserves any so many nodes for that time; nothing is left of it."""
        for nodes in itertools.combinations(self.nodes, count):
            with contextlib.suppress(subprocess.CalledProcessError):
                await self.reserve("tried", nodes, start, start + 60 * minutes)
                await self.delete("tried")
                return True
        return False

    async def lengthen(self, job: str, limit_s: int) -> None:
        await self.said("scontrol", "update", f"JobId={job}", f"TimeLimit=0:{limit_s}")

    async def cancel_all(self) -> None:
        async def gone() -> bool:
            jobs = (await self.said("squeue", "-h", "-a", "-o", "%i")).split()
            # One that has just ended cannot be cancelled any more.
            with contextlib.suppress(subprocess.CalledProcessError):
                if jobs:
                    await self.said("scancel", "--signal=KILL", "--full", *jobs)
                    await self.said("scancel", *jobs)
            return not jobs

        await until(gone, "jobs do not end")

    async def said(self, *command: str) -> str:
        return await asyncio.to_thread(functools.partial(self._cluster.said, *command))
