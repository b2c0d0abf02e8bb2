"""Allocations of Slurm: ``salloc`` asks for the nodes, ``srun`` runs the program on the first of them.

Learned from Slurm 22.05: an allocation runs only one interactive step, which takes nothing of it, so the
steps that the program starts with ``srun`` have all of the nodes. ``srun`` passes SIGTERM on as SIGKILL,
and ``salloc`` gives the nodes back at any signal: so neither gets signals meant for the program. When
``srun`` itself is killed, the nodes are not free for ten seconds. It has exit code 0 for a program that was
killed with its allocation. A controller that crashes may forget an allocation whose program runs, until it
has heard from its nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from kalends.backends.adapter import SystemRefused, SystemSilent
from kalends.backends.allocations import Allocation, SystemProgram
from kalends.backends.command_runner import CLEAN
from kalends.backends.passage import Passage
from kalends.backends.slurm import printed
from kalends.backends.slurm.adapter import Slurm
from kalends.backends.slurm.hostlists import expanded, written

COMMANDS: Final = ("salloc", "srun", "scancel", "squeue", "scontrol", "sinfo")
OWN_VARIABLES: Final = ("SLURM_", "SALLOC_", "SRUN_", "SCANCEL_", "LD_")

LOOK_S: Final = 0.1
LOOKS_MAX: Final = 100
SETTLED_S: Final = 15
"""Time after which a controller has heard of running steps, and has ended unknown ones."""

RUN: Final = """
unset KALENDS_JOB_DIRECTORY SLURM_NTASKS SLURM_NPROCS SLURM_TASKS_PER_NODE SLURM_DISTRIBUTION
export SLURM_JOB_NODELIST="$SLURM_NODELIST" SLURM_JOB_NUM_NODES="$1" SLURM_NNODES="$1"
[ -e "$SLURM_CONF" ] || unset SLURM_CONF
script=$2; shift 2
[ -n "$script" ] || exec "$@"
file=$(mktemp "${TMPDIR:-/tmp}/kalends.XXXXXX") || exit 127
printf %s "$script" > "$file"; exec 9< "$file"; rm -f "$file"
first=${script%%
*}
exec ${first#??} /dev/fd/9 "$@"
"""
"""For sh on the node: the number of nodes, the script, and the program or the script's arguments.

``srun`` tells its program that it has one node and one task, so these variables are corrected.
"""

_LISTED: Final = "%i|%u|%S|."
_EVERYTHING: Final = "%u|%N|%n|%v|%j|."


@dataclass(frozen=True)
class SlurmAllocations:
    """The allocations that a site makes in a Slurm; `options` are the owner's for ``salloc``."""

    slurm: Slurm
    options: tuple[str, ...] = ()

    @property
    def environment(self) -> Mapping[str, str]:
        return {"SLURM_CONF": self.slurm.configuration} if self.slurm.configuration else {}

    @property
    def own_variables(self) -> tuple[str, ...]:
        return OWN_VARIABLES

    def passage(self, allocation: Allocation) -> Passage:
        count = len(allocation.nodes)
        asked = [
            "--no-shell", f"--job-name={allocation.name}", f"--nodes={count}", "--exclusive",
            f"--time={minutes(allocation.length_s)}", f"--nodelist={written(allocation.nodes)}",
        ]  # fmt: skip
        if allocation.reservation:
            asked.append(f"--reservation={allocation.reservation}")
        streams = "--pty" if allocation.terminal else "--unbuffered"
        step = ("--jobid={id}", "--interactive", "--nodes=1", "--ntasks=1", streams, "--")
        cancel = whole_path("scancel")
        run = f"exec 2>&1{RUN}" if allocation.merged else RUN
        return Passage(
            asks=(whole_path("salloc"), *self.options, *asked),
            given=("Granted job allocation ",),
            away=("Unable to contact", "Socket timed out", "Communication", "Zero Bytes"),
            clears=(cancel, f"--name={allocation.name}"),
            runs=(whole_path("srun"), *step, "/bin/sh", "-c", run, "kalends", str(count)),
            kills=("TERM",),
            state=(whole_path("squeue"), "-h", "-j", "{id}", "-o", "%T"),
            alive=("RUNNING",),
            unstarted=("launch failed", "Unable to confirm allocation", "Unable to create step"),
            signals=(cancel, "--signal={signal}", "{id}"),
        )

    async def programs(self) -> list[SystemProgram]:
        return programs(await self.slurm.ask("squeue", "-h", "-a", "-o", _EVERYTHING))

    async def prolong(self, name: str, users: Collection[str], until_s: int) -> None:
        for job, start_s in (await self._listed(name, users)).items():
            limit = f"TimeLimit={minutes(until_s - start_s)}" if start_s else ""
            if limit:
                with contextlib.suppress(SystemRefused):  # It has ended meanwhile.
                    await self.slurm.ask("scontrol", "update", f"JobId={job}", limit)

    async def release(self, name: str, users: Collection[str], nodes: Collection[str]) -> None:
        """A program that ignores SIGTERM is killed at once, not after Slurm's ``KillWait``."""
        jobs: Collection[str] = ()
        for _ in range(LOOKS_MAX):
            jobs = await self._listed(name, users)
            if not jobs:
                return await self._check_heard_of(nodes)
            for how in (["--signal=KILL", "--full"], []):
                with contextlib.suppress(SystemRefused):  # It has ended meanwhile.
                    # A controller that has crashed reuses numbers: the name identifies the owner.
                    await self.slurm.ask("scancel", f"--name={name}", *how, *jobs)
            await asyncio.sleep(LOOK_S)
        raise SystemSilent(f"its job {', '.join(jobs)} does not end")

    async def _check_heard_of(self, nodes: Collection[str]) -> None:
        """Raise `SystemSilent` if programs may run of which the controller does not know.

        It kills forgotten programs when it hears of them, by a number that it may have reused.
        """
        config, known = await asyncio.gather(
            self.slurm.ask("scontrol", "show", "config"),
            self.slurm.ask("sinfo", "-h", "-a", "-N", "-o", printed.NODES_FORMAT),
        )
        clock_s, boot_s = printed.clock_and_boot(config)
        if clock_s - boot_s < SETTLED_S:
            raise SystemSilent("its controller has just started")
        _, unwell = printed.nodes(known)
        for each in unwell:
            if each.state == "unknown" and each.name in nodes:
                raise SystemSilent(f"it has not heard from {each.name} yet")

    async def _listed(self, name: str, users: Collection[str]) -> dict[str, int]:
        """Return the start (0: it waits) of each job of this name, by its number."""
        text = await self.slurm.ask("squeue", "-h", "-a", f"--name={name}", "-o", _LISTED)
        found = {}
        for line in text.splitlines():
            fields = line.split("|")
            if len(fields) != 4 or fields[-1] != ".":
                raise SystemSilent(f"a job that cannot be read: {line[:200]!r}")
            number, user, start, _ = fields
            if user in users:
                found[number] = int(start) if start.isdecimal() else 0
        return found


def programs(text: str) -> list[SystemProgram]:
    """Return the jobs that ``squeue`` lists; raises `SystemSilent` for a listing that is cut off.

    A name may have any characters, even ones that make its line unreadable: such a job is not ours.
    """
    if text and not text.endswith("|.\n"):
        raise SystemSilent("its listing of jobs has no end")
    found = []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 6 or fields[-1] != ".":
            continue
        user, given, wanted, reservation, name, _ = fields
        with contextlib.suppress(ValueError):
            nodes = expanded(given) or expanded(wanted)
            inside = "" if reservation == "(null)" else reservation
            found.append(SystemProgram(name, user, nodes, inside))
    return found


def minutes(length_s: int) -> int:
    """Return the time in minutes, rounded up, because Slurm counts in minutes."""
    return max(-(-length_s // 60), 1)


def whole_path(command: str) -> str:
    """Return the path of a Slurm command; its bare name if it is not found."""
    return shutil.which(command, path=CLEAN["PATH"]) or command


def missing_commands() -> list[str]:
    return [each for each in COMMANDS if shutil.which(each, path=CLEAN["PATH"]) is None]
