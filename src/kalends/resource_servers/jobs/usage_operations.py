"""The calls about what was used: by jobs of the site's queues, and in the batch systems behind resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kalends.batch.job_rights import whose
from kalends.batch.operations import JobOperations
from kalends.contract import history_calls as s
from kalends.contract import job_calls as c
from kalends.contract.history_calls import SlotsUsed
from kalends.core.errors import NotFound
from kalends.resource_servers.jobs.machines import SiteMachines
from kalends.resource_servers.journal.contract import SlotCursor, SlotUse
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.service import SiteEngine
from kalends.serving.auth.callers import Caller
from kalends.serving.http.dispatch import Handler


@dataclass(frozen=True, eq=False)
class UsageOperations:
    """A resource has a queue of jobs, a batch system behind it, or both."""

    engine: Callable[[], SiteEngine]
    backends: Mapping[str, ResourceBackend]
    machines: SiteMachines
    jobs: JobOperations

    def handlers(self) -> dict[str, Handler]:
        return {"job_usage": self.usage, "slots": self.slots}

    async def usage(self, caller: Caller, body: c.ShowUsage) -> c.UsageView:
        if not self._is_backed(caller, body.machine):
            return await self.jobs.usage(caller, body)
        asked = (body.machine, whose(caller, everyone=body.everyone), body.start, body.end)
        users = await self.machines.history.slot_users(*asked)
        projects = await self.machines.history.slot_projects(*asked)
        system, until, problem = self._told(body.machine)
        in_slots = SlotsUsed(
            system=system,
            read_until=until,
            problem=problem,
            users=users,
            projects=projects,
        )
        rows: tuple[c.UsageRow, ...] = ()
        reserved: tuple[c.ReservedRow, ...] = ()
        if body.machine in self.machines.queues:
            view = await self.jobs.usage(caller, body)
            rows, reserved = view.rows, view.reserved
        return c.UsageView(
            machine=body.machine, start=body.start, end=body.end, rows=rows, reserved=reserved,
            slots=in_slots,
        )  # fmt: skip

    async def slots(self, caller: Caller, body: s.ReadSlots) -> s.SlotPage:
        if not self._is_backed(caller, body.machine):
            raise NotFound(
                f"{body.machine} has no batch system, or you may not see it",
                where="machine",
                remedy="kalends resources lists the machines",
            )
        user = whose(caller, everyone=body.everyone)
        after = SlotCursor(body.after_s, body.after_name)
        found = await self.machines.history.slots(
            body.machine, user, body.start, body.end, after, body.count + 1
        )
        shown = found[: body.count]
        system, until, problem = self._told(body.machine)
        last = shown[-1].slot if shown else None
        return s.SlotPage(
            machine=body.machine,
            system=system,
            rows=tuple(map(_row, shown)),
            read_until=until,
            problem=problem,
            more=len(found) > len(shown),
            next_s=last.end if last is not None else 0,
            next_name=last.name if last is not None else "",
        )

    def _is_backed(self, caller: Caller, machine: str) -> bool:
        if machine not in self.backends:
            return False
        calendar = self.engine().participant.book.calendars[machine]
        return calendar.visible_to(caller.principal) or "audit" in caller.scopes

    def _told(self, machine: str) -> tuple[str, int, str]:
        backend = self.backends[machine]
        system = backend.system
        if backend.unit != "nodes":
            return system, 0, f"usage is known for whole nodes only, not for {backend.unit}"
        imports = self.engine().participant.wing(Provisions).imports
        return system, imports.read_until(system), imports.problem(system)


def _row(use: SlotUse) -> s.SlotRow:
    slot = use.slot
    return s.SlotRow(
        reservation=slot.reservation, name=slot.name, user=slot.user, account=slot.account, start=slot.start,
        end=slot.end, nodes=slot.nodes, reserved=slot.node_seconds, jobs=use.jobs, used=use.used,
    )  # fmt: skip
