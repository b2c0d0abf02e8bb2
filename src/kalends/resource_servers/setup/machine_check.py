"""The machines of a site whose jobs are processes of this host: what stands in the way of these."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from kalends.backends.check_up import check_launching
from kalends.batch.host_check import closed_to_programs, closed_to_scripts, homeless, named_few
from kalends.batch.terms import directory_of
from kalends.resource_servers.setup.configured_allocations import machines_through
from kalends.resource_servers.setup.configured_hand_over import handed_over_of
from kalends.serving.configuration import MachineConfiguration, SiteConfiguration


class MachineCheck(NamedTuple):
    """`facts` are shown in any case; with `problems` no script runs, with `warnings` not all programs."""

    folder: Path
    """The folder of records, scripts and kept output."""
    facts: list[str]
    problems: list[str]
    warnings: list[str]


def machines_here(site: SiteConfiguration) -> dict[str, MachineConfiguration]:
    """Return the machines whose jobs run on this host, by their names; raises `InvalidInput`."""
    others = {each.resource for each in machines_through(site)}
    others |= {each.resource for each in handed_over_of(site)}
    named = {f"{site.name}/{machine.resource}": machine for machine in site.machines}
    return {name: machine for name, machine in named.items() if name not in others}


def check_machines_here(site: SiteConfiguration) -> dict[str, MachineCheck]:
    """Look at them, as the Unix users of their jobs; raises `InvalidInput`."""
    is_root = os.geteuid() == 0
    found = {}
    for name, machine in machines_here(site).items():
        whose = "of their own Unix users" if is_root else "of the site's own user"
        folder = directory_of(machine, site.store_file)
        check = MachineCheck(folder, [f"jobs run on this host, as processes {whose}"], [], [])
        if is_root:
            check.problems.extend(check_launching(machine.users, ()))
            check.problems.extend(closed_to_scripts(folder, machine.users))
            check.warnings.extend(closed_to_programs(machine.users))
            if names := homeless(machine.users):
                said = "they have no home here that they can enter, so their jobs need --directory"
                check.facts.append(f"{named_few(names)}: {said}")
        found[name] = check
    return found
