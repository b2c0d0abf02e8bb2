"""A real OAR on this machine in the hands of a test."""

from __future__ import annotations

import asyncio
import functools
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from kalends.backends.oar.adapter import Oar
from tests.backends.conformance.system_at_hand import until, with_changes
from tests.backends.loopback_oar import LoopbackOar

TIMEOUT_S: Final = 20.0
ONE_OF: Final = "select 1 from resources where network_address = '{}'"
JOBS: Final = "select job_id from jobs where state not in ('Terminated', 'Error')"
MADE: Final = "select 1 from jobs where job_name = '{}' and job_id > {}"
DECIDED: Final = "(reservation = 'Scheduled' or state in ('Terminated', 'Error'))"
ONE_JOB: Final = "select 1 from jobs where job_id = {}"


class OarAtHand:
    """Each call of its commands is made in a thread: the loop of the test has a site on it."""

    name = "oar"
    user = "daemon"
    other_user = "nobody"
    job_s_min = 60
    job_begins_s_max = 60
    many = 12
    reserves_over = False
    lengthens_over = False
    answer_s_max = 30.0

    def __init__(self, oar: LoopbackOar) -> None:
        self._oar = oar
        self.adapter = Oar(str(oar.settings), TIMEOUT_S)
        self.nodes = oar.nodes
        self._ends: dict[str, int] = {}
        """The end of each reservation, by the jobs in it: none can be lengthened beyond that."""

    async def freeze(self) -> None:
        self._oar.freeze()

    async def thaw(self) -> None:
        self._oar.thaw()

    async def crash(self) -> None:
        await asyncio.to_thread(self._oar.crash)

    async def stop(self) -> None:
        await asyncio.to_thread(self._oar.stop)

    async def start(self, nodes: Sequence[str] = ()) -> None:
        await asyncio.to_thread(self._oar.start)
        await asyncio.to_thread(self._oar.set_nodes, tuple(nodes) or self.nodes)

    async def delete(self, name: str) -> None:
        if numbers := await self._numbers(name):
            # What is going already cannot be deleted.
            await asyncio.to_thread(self._oar.tried, "oardel", *numbers)

        async def gone() -> bool:
            return not await self._numbers(name)

        await until(gone, f"{name} is not deleted")

    async def change(self, name: str, **fields: object) -> None:
        """OAR changes none: an operator makes it anew. Half of the parts let others in.

        A site may have undone that before OAR has told its client, which then waits for ever.
        """
        found = await self.adapter.find(name)
        assert found is not None
        await self.delete(name)
        (last,) = await self._asked("select coalesce(max(job_id), 0) from jobs")
        parts = "/resource_id=1" if "open" in fields else ""
        *command, user = _reserving(name, *with_changes(found, fields), parts)
        client = self._oar.begun(*command, user=user)
        try:

            async def decided() -> list[str]:
                return await self._asked(f"{MADE.format(name, last)} and {DECIDED}")

            await until(decided, f"{name} is not made anew")
        finally:
            client.kill()
            client.wait()

    async def reserve(
        self, name: str, nodes: Sequence[str], start: int, end: int, *, force: bool = False
    ) -> None:
        assert not force, "OAR reserves nothing over what is there"
        *command, user = _reserving(name, nodes, start, end, self.other_user, "")
        try:
            await self._said(*command, user=user)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(error.stderr + error.stdout) from error

    async def take_down(self, node: str) -> None:
        await self._said("oarnodesetting", "-h", node, "-s", "Dead")
        await self._until(node, "state = 'Dead'")

    async def drain(self, node: str) -> None:
        await self._said("oarnodesetting", "-h", node, "--drain", "on")
        await self._until(node, "drain = 'YES'")

    async def mend(self, node: str) -> None:
        if await self._asked(f"{ONE_OF.format(node)} and drain = 'YES'"):
            await self._said("oarnodesetting", "-h", node, "--drain", "off")
        if await self._asked(f"{ONE_OF.format(node)} and state <> 'Alive'"):
            await self._said("oarnodesetting", "-h", node, "-s", "Alive")
        await self._until(node, "state = 'Alive' and drain = 'NO'")

    async def run(
        self,
        nodes: Sequence[str],
        limit_s: int | None,
        *,
        reservation: str = "",
        stubborn: bool = False,
    ) -> str:
        """Run a job that takes the nodes; on these nothing runs, so no job can be stubborn."""
        inside = []
        if reservation:
            (container,) = await self._numbers(reservation)
            inside = ["-t", f"inner={container}"]
        said = await self._said(
            "oarsub", "-t", "noop", *inside, "-d", "/", "-l",
            f"{_named(nodes)}/nodes={len(nodes)},walltime={_length(limit_s or 400 * 86_400)}",
            user=self.user if reservation else self.other_user,
        )  # fmt: skip
        found = re.search(r"OAR_JOB_ID=([0-9]+)", said)
        assert found is not None, said
        job = found.group(1)
        if reservation:
            held = await self.adapter.find(reservation)
            assert held is not None
            self._ends[job] = held.end

        async def running() -> list[str]:
            return await self._asked(f"{ONE_JOB.format(job)} and state = 'Running'")

        await until(running, f"job {job} does not run")
        return job

    async def lengthen(self, job: str, limit_s: int) -> None:
        """OAR gives as much of it as is free."""
        (running,) = [each for each in (await self.adapter.state()).jobs if each.id == job]
        limit_s = min(limit_s, self._ends.get(job, running.start + limit_s) - running.start)
        await self._said("oarwalltime", job, _length(limit_s))

        async def longer() -> bool:
            return running not in (await self.adapter.state()).jobs

        await until(longer, f"job {job} is not lengthened")

    async def cancel_all(self) -> None:
        async def gone() -> bool:
            jobs = await self._asked(f"{JOBS} and reservation = 'None'")
            if jobs:
                await asyncio.to_thread(self._oar.tried, "oardel", *jobs)
            return not jobs

        await until(gone, "jobs do not end")

    async def _until(self, node: str, condition: str) -> None:
        async def so() -> bool:
            return not await self._asked(f"{ONE_OF.format(node)} and not ({condition})")

        await until(so, f"not so of {node}: {condition}")

    async def _numbers(self, name: str) -> list[str]:
        return await self._asked(f"{JOBS} and reservation <> 'None' and job_name = '{name}'")

    async def _asked(self, query: str) -> list[str]:
        return await asyncio.to_thread(self._oar.asked, query)

    async def _said(self, *command: str, user: str = "root") -> str:
        return await asyncio.to_thread(functools.partial(self._oar.said, *command, user=user))


def _reserving(
    name: str, nodes: Sequence[str], start: int, end: int, user: str, parts: str
) -> list[str]:
    """Return the words of a command, and the user who gives it."""
    begins = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return [
        "oarsub", "-n", name, "-t", "container", "-t", "noop", "-d", "/", "-r", begins,
        "-l", f"{_named(nodes)}/nodes={len(nodes)}{parts},walltime={_length(end - start)}",
        user,
    ]  # fmt: skip


def _named(nodes: Sequence[str]) -> str:
    names = ",".join(f"'{node}'" for node in nodes)
    return f"{{network_address in ({names})}}"


def _length(length_s: int) -> str:
    return f"{length_s // 3600}:{length_s // 60 % 60:02}:{length_s % 60:02}"
