"""The owner's call about a host that is lost with the processes of jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kalends.batch.hosts.machine_hosts import MachineHosts
from kalends.batch.queue_breaks import out_of_work
from kalends.contract.job_calls import LoseHost, LostHost, MovedMachine
from kalends.serving.auth.callers import Caller
from kalends.serving.http.dispatch import Handler


class HostOperations:
    """`begin_again` ends this life of the site, and returns when the next one has begun, durably."""

    def __init__(self, hosts: MachineHosts, begin_again: Callable[[str], Awaitable[None]]) -> None:
        self._hosts, self._begin_again = hosts, begin_again

    def handlers(self) -> dict[str, Handler]:
        return {"host_lost": self.lose}

    async def lose(self, caller: Caller, body: LoseHost) -> LostHost:
        """The machines move with the next life of the site, which begins at once."""
        machines = self._hosts.give_up(body.host, body.machine)
        await self._begin_again(f"the host {body.host} was given up")
        moved = self._hosts.jobs_moved
        if stays := [name for name in machines if name not in moved]:
            raise out_of_work(stays[0])
        return LostHost(
            host=body.host,
            machines=tuple(
                MovedMachine(machine=name, ended=moved[name].ended, again=moved[name].again)
                for name in machines
            ),
        )
