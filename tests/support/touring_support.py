"""A broker replica whose users have an agent, and sites that report what a test has them hold."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from tests.protocol_broker import START, Broker
from tests.protocol_support import ANN

from kalends.broker.coordination.record.decision_record import Spec
from kalends.contract import messages as m
from kalends.contract.common_times import common_times, seals_of
from kalends.core.errors import Refusal
from kalends.core.language import parse_request
from kalends.core.requests import Request
from kalends.core.resources import ResourceInfo
from kalends.core.scripts import HeldChoice, Offered, RunCode

SOURCE = "def choose(view, request):\n    return [slot['id'] for slot in view['slots']]\n"
SCRIPT = hashlib.sha256(SOURCE.encode()).hexdigest()
OTHER_SOURCE = "def choose(view, request):\n    return []\n"
OTHER_SCRIPT = hashlib.sha256(OTHER_SOURCE.encode()).hexdigest()
SCRIPTS = {SCRIPT: SOURCE, OTHER_SCRIPT: OTHER_SOURCE}

HELD_IDS = itertools.count(100)


class AgentBroker(Broker):
    """Sites ``here`` and ``there`` with the resources ``one``, ``two`` and ``three`` (kind=x) each."""

    def __init__(self, *args: object, **keywords: object) -> None:
        super().__init__(*args, **keywords)  # type: ignore[arg-type]  # passed on as they are
        for site in ("here", "there"):
            self.greet(site)

    def greet(
        self, site: str, *, near: tuple[str, ...] = (), epoch: int = 1, grain_s: int = 1
    ) -> None:
        names = ("one", "two", "three")
        infos = tuple(
            ResourceInfo(
                name=f"{site}/{name}", capacity=4, grain_s=grain_s, attributes={"kind": "x"}
            )
            for name in names
        )
        self.receive(site, m.Hello(site=site, epoch=epoch, resources=infos, near=near))

    def send_agent(
        self,
        text: str = "here/one + there/one",
        ticket: int = 1,
        *,
        hold_s: int = 0,
        key: str = "the-key-of-it",
        window_s: int = 600,
        script: str = SCRIPT,
        must_run: bool = False,
    ) -> str:
        request = replace(asked(text, window_s), agent="mine", agent_must_run=must_run)
        spec = Spec(request, text, hold=hold_s > 0, hold_s=hold_s, agent="mine", script=script)
        rid = self.coordinator.calls.submit(ANN, key, "digest", spec, ticket, self.now,
            source=SCRIPTS.get(script, ""),
        )  # fmt: skip
        self.settle()
        return rid

    def dispatches(self) -> dict[str, m.Dispatch]:
        """The visits that were sent since the last look, the last one to each site."""
        return {to: message for to, message in self.sent() if isinstance(message, m.Dispatch)}

    def report(
        self, rid: str, *sites: m.SiteReport, att: int = 1, source: str | None = None
    ) -> None:
        """One report, from the first of `sites` unless another `source` is given."""
        self.receive(source or sites[0].site, m.Report(rid=rid, att=att, sites=sites))

    def sealed(self, rid: str, report: m.SiteReport, att: int = 1) -> m.SiteReport:
        """`report` as its site gives it to one that has passed the visit on."""
        key = self.coordinator.prepare.credentials.site_key(report.site)
        tour = self.case(rid).agent.tour
        assert tour is not None
        return replace(report, seals=seals_of(key, rid, att, report, tour.asks[report.site]))

    def common(self, rid: str, *sites: m.SiteReport, att: int = 1) -> m.CommonTimes:
        """What a hub, the first of `sites`, makes of their reports."""
        tour = self.case(rid).agent.tour
        assert tour is not None
        reports = (sites[0], *(self.sealed(rid, each, att) for each in sites[1:]))
        common = common_times(
            reports, tour.asks, [(need.term, need.wanted) for need in tour.needs[:2]]
        )
        assert common is not None
        return common

    def answer_together(
        self, rid: str, common: m.CommonTimes, att: int = 1, source: str = ""
    ) -> None:
        self.receive(source or common.sites[0].site, m.Report(rid=rid, att=att, common=common))


def asked(text: str, window_s: int = 600) -> Request:
    return parse_request(
        text, duration="60s", not_before=START, not_after=START + window_s, now_s=START - 86_000,
        zone="UTC",
    )  # fmt: skip


def held(
    resource: str, after_s: int, *, term: int = 0, units: int = 1, hold_id: int = 0
) -> HeldChoice:
    """A slot of a minute that begins `after_s` after the start of the window."""
    start = START + after_s
    return HeldChoice(hold_id or next(HELD_IDS), term, resource, start, start + 60, units, start)


def offered(resource: str, *runs: tuple[int, int], term: int = 0) -> Offered:
    return Offered(term, resource, tuple((START + first, START + last) for first, last in runs))


def says(
    site: str,
    *holds: HeldChoice,
    offers: Sequence[Offered] = (),
    wished: Sequence[int] | None = None,
    code: RunCode = "ok",
    detail: str = "",
    line: int = 0,
    refusals: tuple[Refusal, ...] = (),
    sent: tuple[str, ...] = (),
    epoch: int = 1,
) -> m.SiteReport:
    """Without `wished`, the agent has chosen all that was on offer."""
    everything = tuple(
        dict.fromkeys(
            start
            for of_one in offers
            for first, last in of_one.runs
            for start in range(first, last + 1)
        )
    )
    return m.SiteReport(
        site=site,
        epoch=epoch,
        code=code,
        detail=detail,
        line=line,
        held=holds,
        offered=tuple(offers),
        wished=everything if wished is None else tuple(START + each for each in wished),
        refusals=refusals,
        sent=sent,
    )


def prepared(broker: Broker) -> Mapping[str, tuple[int, ...]]:
    """What each site was asked to promise since the last look."""
    return {to: message.hold_ids for to, message in broker.sent() if isinstance(message, m.Prepare)}
