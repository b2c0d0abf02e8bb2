"""A site's participant, rebuilt from its store and its owner's configuration."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from kalends.core.errors import StoreDamaged
from kalends.core.intervals import Moment
from kalends.resource_servers.journal.contract import WITHOUT_END, Loaded
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.attendance.attendance import Attendance
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.kernel import MakeGuard
from kalends.resource_servers.participation.no_jobs import NoJobs
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.participation.provision.grants import NodeGrant
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.provision.slots import NO_SLOTS, KnownSlots
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.rulings.rulings import OwnersScripts
from kalends.resource_servers.participation.sockets import Queues, Unguarded
from kalends.resource_servers.participation.visits.visiting_agents import VisitingAgents
from kalends.resource_servers.setup.assembly import (
    accounts_of,
    addresses_of,
    agent_limits_of,
    calendars_of,
    limits_of,
    queues_of,
)
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.garbage_collection import not_collecting

site_machine: Final = partial(
    Participant,
    rulings=OwnersScripts,
    consent=OwnerApproval,
    prior=ReclaimReminders,
    visitors=VisitingAgents,
)
"""A site's machine with the wings that every site has."""


def guarded_by(
    backends: Mapping[str, ResourceBackend], grants: Iterable[NodeGrant] = (),
    slots: KnownSlots = NO_SLOTS, make: Callable[..., Provisions] = Provisions,
) -> MakeGuard:  # fmt: skip
    """Return what makes the guard of a site with these batch systems; with none, nothing is asked for."""
    return partial(make, backends=backends, grants=grants, slots=slots) if backends else Unguarded


def restored_participant(
    configuration: SiteConfiguration,
    backends: Mapping[str, ResourceBackend],
    queues: Queues,
    loaded: Loaded,
    now: Moment,
    of_jobs: Iterable[Mapping[tuple[str, str], int]] = (),
) -> Participant:
    """Return the participant; `of_jobs` is what jobs have reserved of the owner's credits.

    Raises `StoreDamaged` when the calendars cannot carry what was promised."""
    with not_collecting():
        participant = _participant_of(configuration, backends, queues, loaded, now, of_jobs)
    until_s = loaded.draining if loaded.draining != WITHOUT_END else 0
    participant.admission.drain(on=bool(loaded.draining), until_s=until_s)
    participant.wing(ReclaimReminders).restore(loaded.reclaims, now)
    participant.keep_aside(loaded.set_aside)
    return participant


def _participant_of(
    configuration: SiteConfiguration,
    backends: Mapping[str, ResourceBackend],
    queues: Queues,
    loaded: Loaded,
    now: Moment,
    of_jobs: Iterable[Mapping[tuple[str, str], int]],
) -> Participant:
    try:
        return site_machine(
            configuration.name,
            calendars_of(configuration) | queues_of(configuration),
            epoch=loaded.epoch,
            jitter=random.random,
            limits=limits_of(configuration),
            stakes=loaded.stakes,
            forgotten=loaded.forgotten,
            registers=loaded.registers,
            horizon_s=loaded.horizon_s,
            passed=loaded.passed,
            past=loaded.past,
            recovering=loaded.recovering,
            addresses=addresses_of(configuration),
            queues=queues,
            guard=guarded_by(backends, loaded.grants, loaded.slots),
            payments=partial(
                Credits,
                accounts=accounts_of(configuration),
                entries=loaded.credits,
                of_jobs=of_jobs,
            ),
            visitors=partial(VisitingAgents, limits=agent_limits_of(configuration)),
            wings=(PlacedJobs if configuration.machines else NoJobs, Attendance),
            now=now,
        )
    except AssertionError as error:
        raise StoreDamaged(
            f"the configured resources cannot hold existing promises: {error}",
            where=str(configuration.store),
            remedy="configure every resource that has bookings, with room for all of them",
        ) from error
