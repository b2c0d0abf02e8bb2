"""A real Grid Engine on this machine in the hands of a test."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from loopback_gridengine import SLOTS, LoopbackGridEngine
from tests.backends.conformance.system_at_hand import until, with_changes

from kalends_gridengine import printed
from kalends_gridengine.adapter import GridEngine

TIMEOUT_S: Final = 4.0
STUBBORN: Final = "#!/bin/sh\ntrap '' TERM CONT XCPU\nwhile :; do sleep 0.2; done\n"
PATIENT: Final = "#!/bin/sh\nexec sleep 100000\n"


class GridEngineAtHand:
    """Each call of its commands is made in a thread: the loop of the test has a site on it."""

    name = "gridengine"
    user = "daemon"
    other_user = "nobody"
    job_s_min = 1
    job_begins_s_max = 20
    many = 40
    answer_s_max = 8.0
    reserves_over = False
    lengthens_over = True

    def __init__(self, cell: LoopbackGridEngine, top: Path) -> None:
        self._cell = cell
        self._top = top
        self.adapter = GridEngine(str(cell.settings), timeout_s=TIMEOUT_S)
        self.nodes = cell.nodes
        self._inside: set[str] = set()
        """Jobs in reservations: these end with them."""

    async def freeze(self) -> None:
        await asyncio.to_thread(self._cell.freeze_master)

    async def thaw(self) -> None:
        await asyncio.to_thread(self._cell.thaw_master)

    async def crash(self) -> None:
        await asyncio.to_thread(self._cell.kill_master)

    async def stop(self) -> None:
        await asyncio.to_thread(self._cell.stop_master)

    async def start(self, nodes: Sequence[str] = ()) -> None:
        await asyncio.to_thread(self._cell.start_master)
        wanted = set(nodes or self.nodes)
        listed = await self._said("qconf", "-shgrp", "@allhosts")
        for node in self.nodes:
            if (node in listed.split()) != (node in wanted):
                how = "-aattr" if node in wanted else "-dattr"
                await self._said("qconf", how, "hostgroup", "hostlist", node, "@allhosts")

    async def delete(self, name: str) -> None:
        for number in await self._numbers(name):
            await self._said("qrdel", str(number))

    async def change(self, name: str, **fields: object) -> None:
        """Grid Engine changes none: an operator makes it anew. Half of the slots let others in."""
        found = await self.adapter.find(name)
        assert found is not None
        await self.delete(name)
        await self._reserve(
            name,
            *with_changes(found, fields),
            slots=1 if "open" in fields else SLOTS,
        )

    async def reserve(
        self, name: str, nodes: Sequence[str], start: int, end: int, *, force: bool = False
    ) -> None:
        assert not force, "Grid Engine reserves nothing over what is there"
        await self._reserve(name, nodes, start, end, self.other_user, slots=SLOTS)

    async def _reserve(
        self, name: str, nodes: Sequence[str], start: int, end: int, user: str, *, slots: int
    ) -> None:
        try:
            await self._said(
                "qrsub", "-N", name, "-a", _written(start), "-e", _written(end), "-u", user,
                "-pe", "kalends" if slots == SLOTS else "spread", str(slots * len(nodes)),
                "-q", ",".join(f"all.q@{node}" for node in nodes),
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise RuntimeError(error.stderr + error.stdout) from error

    async def take_down(self, node: str) -> None:
        await asyncio.to_thread(self._cell.kill_node, node)

        async def told() -> bool:
            unwell = (await self.adapter.state()).unwell
            return any((each.name, each.state) == (node, "down") for each in unwell)

        # In its first minute a master is not believed that it does not hear of a node.
        await until(told, f"{node} is not told to be down")

    async def drain(self, node: str) -> None:
        await self._said("qmod", "-d", f"all.q@{node}")

    async def mend(self, node: str) -> None:
        state = (await self._queues())[node].state
        if "d" in state:
            await self._said("qmod", "-e", f"all.q@{node}")
        if "u" in state:
            await asyncio.to_thread(self._cell.start_node, node)
            await until(lambda: self._is_heard(node), f"{node} does not come back")

    async def run(
        self,
        nodes: Sequence[str],
        limit_s: int | None,
        *,
        reservation: str = "",
        stubborn: bool = False,
    ) -> str:
        script = self._top / ("stubborn.sh" if stubborn else "patient.sh")
        script.write_text(STUBBORN if stubborn else PATIENT)
        script.chmod(0o755)
        # The daemon of a node keeps to the limit that a job began with: inside, that is the reservation's.
        limit = [] if limit_s is None or reservation else ["-l", f"h_rt={limit_s}"]
        inside = ["-ar", str((await self._numbers(reservation))[0])] if reservation else []
        user = self.user if reservation else self.other_user
        said = await asyncio.to_thread(
            self._cell.said_to, user, "qsub", "-terse", "-wd", "/tmp", "-o", "/dev/null",
            "-e", "/dev/null", "-pe", "kalends", str(SLOTS * len(nodes)),
            "-q", ",".join(f"all.q@{node}" for node in nodes), *limit, *inside, str(script),
        )  # fmt: skip
        job = said.strip()
        if reservation:
            self._inside.add(job)

        async def running() -> bool:
            jobs = await self._said("qstat", "-u", "*", "-s", "r", "-xml")
            return f"<JB_job_number>{job}</JB_job_number>" in jobs and "<state>r<" in jobs

        await until(running, f"job {job} does not run")
        return job

    async def lengthen(self, job: str, limit_s: int) -> None:
        if job not in self._inside:
            await self._said("qalter", "-l", f"h_rt={limit_s}", job)

    async def cancel_all(self) -> None:
        async def gone() -> bool:
            jobs = printed.job_numbers(await self._said("qstat", "-u", "*", "-xml"))
            if jobs:
                # One that has just ended cannot be deleted any more.
                await asyncio.to_thread(self._cell.tried, "qdel", ",".join(map(str, jobs)))
            return not jobs

        await until(gone, "jobs do not end")

    async def _is_heard(self, node: str) -> bool:
        return "u" not in (await self._queues())[node].state

    async def _queues(self) -> dict[str, printed.Queue]:
        listing = await self._said("qstat", "-f", "-q", "all.q", "-F", "h_rt", "-xml")
        return printed.queues(listing, "all.q")

    async def _numbers(self, name: str) -> list[int]:
        names = printed.reservation_numbers(await self._said("qrstat", "-u", "*", "-xml"))
        return [number for number, each in names.items() if each == name]

    async def _said(self, *command: str) -> str:
        return await asyncio.to_thread(self._cell.said, *command)


def _written(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y%m%d%H%M.%S")
