"""Messages and bytes between a broker and sites near one another, for one round of an agent.

The sites are the machines of servers, with calendars of their own; their messages are encoded as on a
session. Nothing is sent and no time passes, so every figure is exact and the same on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from kalends.agents.runs import RunOutcome
from kalends.calendars import Booking, ResourceCalendar
from kalends.calendars.rules.access import AccessList, AccessRule
from kalends.contract import codec, proofs
from kalends.contract import messages as m
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.core.scripts import Ask, Starts, Stop, asked_for, script_hash
from kalends.resource_servers.participation.effects import ParticipantEffects
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.participation.visits.agent_visits import AgentLimits
from kalends.resource_servers.participation.visits.visiting_agents import VisitingAgents
from kalends.servers.restored_participant import site_machine

DAY_S: Final = 86_400
GRAIN_S: Final = 1_800
NOW: Final = Moment(1_000, 1_800_000_000_000)
FIRST: Final = (NOW.wall_s // DAY_S + 2) * DAY_S
STARTS: Final = Starts(FIRST, FIRST + 14 * DAY_S - 3_600, GRAIN_S)
CAPACITY: Final = 128
UNITS: Final = 65
REGISTER: Final = "c0ffee" + "0" * 26
USER: Final = Principal("ann")
RID: Final = request_id(NOW.wall_ms, 1)
SOURCE: Final = "def choose(view, request):\n    return [slot['id'] for slot in view['slots']]\n"
WAYS: Final = ("each site", "near, each report", "near, common times")
NEAR: Final = (1, 2, 4)


class _Site:
    """A site whose calendar has `load` bookings, and whose agents choose all starts, some before others."""

    def __init__(self, name: str, load: int, near: tuple[str, ...]) -> None:
        self.name = name
        self.ask = Ask(int(name[-1]), f"{name}/cluster", 3_600, UNITS)
        chosen = random.Random(name)
        info = ResourceInfo(name=self.ask.resource, capacity=CAPACITY, grain_s=GRAIN_S)
        rule = AccessRule("all", "everyone", ("see", "hold", "lock"))
        calendar = ResourceCalendar(info, AccessList((rule,)))
        calendar.load(_bookings(load, chosen))
        self.machine = site_machine(
            name, {info.name: calendar}, epoch=1, jitter=lambda: 0.0, wings=(PlacedJobs,), now=NOW,
            visitors=partial(VisitingAgents, limits=AgentLimits(near=near)),
        )  # fmt: skip
        welcome = m.Welcome(register=REGISTER, secret=proofs.site_key("", name))
        self.machine.receive("broker", welcome, NOW)
        self.machine.take_effects()
        self._order = chosen

    def visit(self, source: str, dispatch: m.Dispatch) -> ParticipantEffects:
        """Everything that follows once the agent has chosen; most starts in the order of time."""
        self.machine.receive(source, dispatch, NOW)
        effects = self.machine.take_effects()
        for errand in effects.errands:
            ids = [slot["id"] for slot in errand.job.arguments[0]["slots"]]
            # Sixteen are held: of the first 24, each site prefers others.
            first = ids[:24]
            self._order.shuffle(first)
            outcome = RunOutcome("ok", first + ids[24:])
            self.machine.wing(VisitingAgents).runs.errand_done(errand.number, outcome, NOW)
        after = self.machine.take_effects()
        effects.sends += after.sends
        return effects

    def relayed(self, number: int, report: m.SiteReport) -> ParticipantEffects:
        self.machine.wing(VisitingAgents).runs.relayed(number, report, NOW)
        return self.machine.take_effects()


def _bookings(load: int, chosen: random.Random) -> Iterator[Booking]:
    for number in range(load):
        start = FIRST + chosen.randrange(14 * 48 - 8) * GRAIN_S
        yield Booking(
            id=number + 1, start=start, end=start + chosen.randint(1, 4) * 3_600,
            units=chosen.randint(1, 7), state="locked", holder="bob", reservation=request_id(1, number),
        )  # fmt: skip


def measure(load: int) -> list[dict[str, Any]]:
    """One round at 1, 2 and 4 sites near one another, each way; it finds the same each time."""
    return [_round(count, way, load) for count in NEAR for way in WAYS]


def _round(count: int, way: str, load: int) -> dict[str, Any]:
    names = [f"near{number}" for number in range(count)]
    sites = {
        name: _Site(name, load, tuple(other for other in names if other != name)) for name in names
    }
    wide: list[m.Message] = []
    starts: list[set[int]] = []
    visited = names if way == "each site" else names[:1]
    for name in visited:
        near = () if way == "each site" else tuple(names[1:])
        dispatch = _dispatch(sites, name, near, common=way == "near, common times")
        report = _answer(sites, name, dispatch)
        wide += (dispatch, report)
        starts += _starts_of(report)
    return {
        "near": count,
        "way": way,
        "messages": len(wide),
        "bytes": sum(len(codec.encode_msgpack(_frame(message))) for message in wide),
        "back": sum(
            len(codec.encode_msgpack(_frame(each))) for each in wide if isinstance(each, m.Report)
        ),
        "common": len(set.intersection(*starts)),
    }


def _answer(sites: dict[str, _Site], name: str, dispatch: m.Dispatch) -> m.Report:
    effects = sites[name].visit("broker", dispatch)
    for relay in effects.relays:
        passed_on = sites[relay.site].visit("visit#1", relay.dispatch)
        (send,) = passed_on.sends
        assert isinstance(send.message, m.Report)
        effects.sends += sites[name].relayed(relay.number, send.message.sites[0]).sends
    (send,) = effects.sends
    assert isinstance(send.message, m.Report)
    return send.message


def _dispatch(
    sites: dict[str, _Site], name: str, near: Sequence[str], *, common: bool
) -> m.Dispatch:
    here = sites[name].ask
    parts = tuple(
        m.Part(each, f"https://{each}.example", "0" * 32 if each != name else "") for each in sites
    )
    dispatch = m.Dispatch(
        rid=RID, att=1, stamp=1, principal=USER, script=script_hash(SOURCE), source=SOURCE,
        text=" + ".join(f"{each.ask.resource}:{UNITS}" for each in sites.values()),
        starts=STARTS, asks=(here,), parts=parts,
        need=len(sites), coords=("https://broker.example",), hold_ms=30_000,
        secret=proofs.of_request(proofs.site_key("", name), RID),
    )  # fmt: skip
    stops = tuple(
        Stop(each, (sites[each].ask,), _visit_proof(dispatch, name, each, sites[each].ask))
        for each in near
    )
    meet = tuple((sites[each].ask.term, 1) for each in (name, *near)) if common and near else ()
    return replace(dispatch, near=stops, meet=meet)


def _visit_proof(dispatch: m.Dispatch, way: str, site: str, ask: Ask) -> str:
    return proofs.of_visit(
        proofs.site_key("", site), RID, 1, way, asked_for(STARTS, (ask,)), str(dispatch.stamp), USER.user,
        *USER.groups,
    )  # fmt: skip


def _starts_of(report: m.Report) -> list[set[int]]:
    if report.common is not None:
        return [{start for start, _ in report.common.starts}]
    return [{hold.common for hold in each.held} for each in report.sites]


def _frame(message: m.Message) -> m.FrameToSite | m.FrameToBroker:
    if isinstance(message, m.Report):
        return m.FrameToBroker(2, "near0", NOW.wall_ms, [message], NOW.wall_ms)
    assert isinstance(message, m.Dispatch)
    return m.FrameToSite(2, "broker", NOW.wall_ms, [message], NOW.wall_ms)
