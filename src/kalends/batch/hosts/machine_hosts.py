"""The hosts of a site's machines: in each life of the site some machines are put aside, or move here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kalends.batch.forgotten import Forgotten
from kalends.batch.hosts.home_hosts import (
    aside_words,
    given_up,
    label_of,
    lost_words,
    put_aside,
)
from kalends.batch.journal.contract import StoredHost
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.service import Step
from kalends.core.hosts import Host


class JobsOfMove(NamedTuple):
    """The jobs of a machine that has moved: how many are over, and how many may run again."""

    ended: int
    again: int


class MachineHosts:
    """A machine that is given up moves when the next life of its site begins, which is at `here`."""

    def __init__(self, here: Host) -> None:
        self._here = here
        self._own: Collection[str] = ()
        self._stored: frozenset[str] = frozenset()
        self._given_up: dict[str, str] = {}
        """The ids of the hosts with which the owner has given machines up, until these have moved."""
        self.aside: dict[str, Host] = {}
        """The machines that belong to other hosts, with these."""
        self.moved: dict[str, Host] = {}
        """The machines that move here in this life, with the hosts on which they were."""
        self.jobs_moved: dict[str, JobsOfMove] = {}

    @property
    def labels(self) -> Mapping[str, str]:
        """The hosts of the machines that are put aside, as people call them."""
        return {name: label_of(host, self._here) for name, host in self.aside.items()}

    def begin_life(self, stored: Sequence[StoredHost], own: Collection[str]) -> None:
        """Put machines aside, as the store has them; `own` are those whose jobs are processes of a host."""
        self._own, self._stored = own, frozenset(each.machine for each in stored)
        found = put_aside(stored, own, self._here)
        self.moved = {
            name: host for name, host in found.items() if self._given_up.get(name) == host.id
        }
        self.aside = {name: host for name, host in found.items() if name not in self.moved}
        self._given_up = {name: host.id for name, host in self.moved.items()}

    def words(self, machine: str) -> str:
        """Return the alarm for a machine that is put aside; "" for any other."""
        host = self.aside.get(machine)
        return aside_words(machine, host, self._here) if host is not None else ""

    def first_bound(self, machines: Iterable[str]) -> list[StoredHost]:
        """Return what is to be stored of those machines that have no host yet, before any job of theirs."""
        return [
            self._here_for(name)
            for name in machines
            if name in self._own and name not in self._stored
        ]

    def first_steps(self, forgotten: Mapping[str, Forgotten]) -> dict[str, tuple[Step, StoredHost]]:
        """Return the first step of each queue that moves here, and what is to be stored with its facts."""
        return {
            name: (self._first_step(name, host, forgotten[name]), self._here_for(name))
            for name, host in self.moved.items()
            if name in forgotten
        }

    def _first_step(self, name: str, host: Host, forgotten: Forgotten) -> Step:
        def step(queue: BatchQueue, now: int) -> None:
            forgotten.tell(queue, now)
            lost = queue.lose_host(lost_words(host), now)
            again = sum(number in queue.flow.table.jobs for number in lost)
            self.jobs_moved[name] = JobsOfMove(len(lost) - again, again)

        return step

    def _here_for(self, machine: str) -> StoredHost:
        return StoredHost(machine, *self._here)

    def give_up(self, host: str, machine: str) -> tuple[str, ...]:
        """Note that a host is lost; return the machines that move here with the next life.

        Raises what `home_hosts.given_up` raises: then nothing is noted.
        """
        machines = given_up(host, machine, self.aside, self._own, self._here)
        self._given_up.update((name, self.aside[name].id) for name in machines)
        for name in machines:
            self.jobs_moved.pop(name, None)
        return machines
