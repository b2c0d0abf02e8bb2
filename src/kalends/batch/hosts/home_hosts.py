"""Machines that are put aside, because the processes of their jobs are on another host.

The shepherds of a machine's jobs, their records and their sockets are on one host. On any other host a site
would find none of them, take every running job for one that never began, and start it a second time. So the
store keeps the host of each machine. On another host the machine is put aside, until its site is started on
its own host again, or the owner gives that host up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from shlex import quote

from kalends.batch.journal.contract import StoredHost
from kalends.core.errors import Conflict, InvalidInput, NotFound, Unavailable
from kalends.core.hosts import Host


def put_aside(stored: Iterable[StoredHost], own: Collection[str], here: Host) -> dict[str, Host]:
    """Return the hosts of those `own` machines that belong to another host than `here`."""
    return {
        each.machine: Host(each.host, each.name)
        for each in stored
        if each.machine in own and each.host != here.id
    }


def label_of(host: Host, here: Host) -> str:
    """Return what people call a host: its name, or its id if this host has the same name."""
    return host.id if host.name == here.name else host.name


def given_up(
    asked: str, machine: str, aside: Mapping[str, Host], own: Collection[str], here: Host
) -> tuple[str, ...]:
    """Return the machines put aside that the owner gives up with the host called `asked`: its name or id.

    `machine` is the only one, or "". Raises `InvalidInput`, `NotFound` and `Conflict` where that cannot be.
    """
    hosts = {each.id: each for each in (here, *aside.values()) if asked in each}
    if len(hosts) > 1:
        raise InvalidInput(
            f"{len(hosts)} hosts are called {asked}",
            where="host",
            remedy="give the id of the lost one: "
            + _list(each for each in hosts if each != here.id),
        )
    if here.id in hosts:
        raise InvalidInput(
            f"{asked} is the host on which this site runs",
            where="host",
            remedy="name the host that is lost" + _hosts_of(aside, here),
        )
    if not hosts:
        raise NotFound(
            f"no machine is put aside because it belongs to a host {asked}",
            where="host",
            remedy="name a host to which machines belong that are put aside"
            + _hosts_of(aside, here),
        )
    (lost,) = hosts
    machines = tuple(sorted(name for name, host in aside.items() if host.id == lost))
    if not machine:
        return machines
    if machine not in own:
        raise NotFound(
            f"no machine {machine} of this site runs jobs on a host",
            where="machine",
            remedy=f"machines that belong to {asked}: {_list(machines)}",
        )
    if machine not in machines:
        raise Conflict(
            f"{machine} does not belong to {asked}",
            where="machine",
            remedy=f"machines that belong to {asked}: {_list(machines)}",
        )
    return (machine,)


def aside_words(machine: str, host: Host, here: Host) -> str:
    """Return the alarm for a machine that is put aside."""
    label = label_of(host, here)
    return (
        f"{machine} is put aside: it belongs to the host {label}, where its jobs may still run, and this "
        f"site runs on {here.name}. No job starts, and no user can book it; the rest of the site works. "
        f"Start the site on {label} again. If that host is gone for good and runs nothing, run: "
        f"kalends admin host-lost {quote(label)} --machine {quote(machine)}"
    )


def lost_words(host: Host) -> str:
    """Return the reason that users see for the end of jobs on a host that was given up."""
    return f"its host {host.name} was lost"


def away(machine: str, label: str) -> Unavailable:
    """Return the error for users of a machine that is put aside."""
    return Unavailable(
        f"{machine} belongs to the host {label}, and its site runs on another one at present; its running "
        "jobs may continue there",
        where="machine",
        remedy="ask the operator of the site, who can start it there again, or give that host up",
        retry_after_s=60.0,
    )


def _hosts_of(aside: Mapping[str, Host], here: Host) -> str:
    return f": {_list(label_of(each, here) for each in aside.values())}" if aside else ""


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
