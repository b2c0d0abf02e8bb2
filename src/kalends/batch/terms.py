"""From the owner's configuration of a machine to the terms of its queue."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from kalends.batch.queue.facts import FairShares, JobLimits, Terms
from kalends.core.errors import InvalidInput
from kalends.machines.spec import machine_from
from kalends.scheduling.registry import policy_maker
from kalends.serving.configuration import (
    JobLimitsConfiguration,
    MachineConfiguration,
    SiteConfiguration,
)


def terms_of_all(configuration: SiteConfiguration) -> dict[str, Terms]:
    """Return the terms of each machine by its full name; raises `InvalidInput` with the path."""
    resources = {resource.name: resource for resource in configuration.resources}
    found = {}
    for number, machine in enumerate(configuration.machines):
        try:
            resource = resources[machine.resource]
            system = configuration.advisory_system(resource)
            terms = terms_of(machine, resource.capacity, system.name if system else "")
            if configuration.has_ledger(resource):
                terms = structs.replace(terms, tariff={}, reserved_credits=0)
        except InvalidInput as error:
            where = f"site.machines[{number}].{error.where}"
            raise InvalidInput(error.detail, where=where, remedy=error.remedy) from error
        found[f"{configuration.name}/{machine.resource}"] = terms
    return found


def terms_of(machine: MachineConfiguration, capacity: int, handed_to: str = "") -> Terms:
    """Return the terms of a queue; raises `InvalidInput` for a machine or a policy that cannot be.

    `handed_to` names the batch system that its jobs are handed over to.
    """
    shape = machine.shape or f"pool:{capacity}"
    nodes = machine_from(shape).nodes
    if nodes != capacity:
        raise InvalidInput(
            f"{shape} has {nodes} nodes, but the resource has {capacity} units",
            where="shape",
            remedy="make a unit of the resource a node",
        )
    policy_maker(machine.policy)
    for where, named in (("tariff", machine.tariff), ("class_members", machine.class_members)):
        if unknown := sorted(named.keys() - machine.classes.keys()):
            raise InvalidInput(
                f"no priority class {unknown[0]}",
                where=where,
                remedy=f"this machine has {', '.join(machine.classes)}",
            )
    return Terms(
        machine=shape,
        policy=machine.policy,
        classes=machine.classes,
        default_class=machine.default_class,
        class_members=machine.class_members,
        user=_limits(machine.user),
        project=_limits(machine.project),
        members=machine.members,
        period_s=int(machine.period_s),
        tariff=machine.tariff,
        reserved_credits=machine.reserved_credits,
        fair_share=FairShares(by=machine.fair_share.by, shares=machine.fair_share.shares),
        ending_s=0 if handed_to else int(machine.grace_s + machine.clearing_s),
        change_s=int(machine.change_s_max),
        may_delay=machine.may_delay,
        no_show_s=int(machine.no_show_s),
        undecided_s=int(machine.undecided_s),
        handed_to=handed_to,
    )


def directory_of(machine: MachineConfiguration, store: Path) -> Path:
    """Return the folder for the jobs of a machine; where the owner names none, no other site's."""
    return machine.directory or store.with_name(f"{store.stem}.{machine.resource}.jobs")


def _limits(limits: JobLimitsConfiguration) -> JobLimits:
    return JobLimits(
        jobs=limits.jobs,
        running=limits.running,
        nodes=limits.nodes,
        longest_s=int(limits.longest_s),
        node_seconds=int(limits.node_hours * 3600),
    )
