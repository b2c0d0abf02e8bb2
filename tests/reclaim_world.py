"""Two brokers over one register and two sites, all real, that tell each other everything at once."""

from __future__ import annotations

import contextlib

from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.coordination.record.views import view_of
from kalends.broker.planning.planner import fixed_wants
from kalends.broker.register.sqlite import request_reads, request_rows
from kalends.contract import calls, owner_calls
from kalends.contract import messages as m
from kalends.core.language import parse_request
from kalends.resource_servers.participation.outbox import REGISTER
from tests.protocol_broker import START, Broker, new_register
from tests.protocol_support import ANN, Site

ADDRESSES = {"http://broker-a": "a", "http://broker-b": "b"}
HOUR = 3_600


class ReclaimWorld:
    """`lost` are messages, by type, that never arrive."""

    site_type: type[Site] = Site

    def __init__(self) -> None:
        self.sites = {name: self.site_type(name=name) for name in ("here", "there")}
        self.register = new_register()
        self.lost: set[type[m.Message]] = set()
        self.reclaim_messages = 0
        self.starts = 0
        self.brokers: dict[str, Broker] = {}
        for name in "ab":
            self.start(name)
        self.keys = 0

    @property
    def broker(self) -> Broker:
        return self.brokers["a"]

    def start(self, name: str) -> None:
        """A broker begins, or begins again with nothing but the register."""
        broker = Broker(self.register, name=name, ms=self.sites["here"].ms)
        self.starts += 1
        broker.numbers = 100 * self.starts  # Ids are never used again.
        broker.sends.clear()
        self.brokers[name] = broker
        for site in self.sites.values():
            broker.receive(site.name, site.participant.hello())

    def book(self, text: str, *, at: int = 0, window_h: tuple[int, int] | None = None) -> str:
        """`text` for an hour, at so many hours after the start, or in a window."""
        first, last = window_h or (0, 0)
        request = parse_request(
            text, duration="1h", now_s=self.broker.now.wall_s, zone="UTC",
            at=None if window_h else START + at * HOUR,
            not_before=START + first * HOUR if window_h else None,
            not_after=START + last * HOUR if window_h else None,
        )  # fmt: skip
        self.keys += 1
        spec = Spec(request, text, wants=fixed_wants(request) or ())
        key = f"key-number-{self.keys}"
        rid = self.broker.coordinator.calls.submit(
            ANN, key, "digest", spec, self.keys, self.broker.now
        )
        self.broker.settle()
        self.deliver()
        assert self.standing(rid).state == "reserved", self.standing(rid)
        return rid

    def reclaim(
        self, resource: str, start_h: float, end_h: float, *, notice_s: int = 0,
        reason: str = "a new pump", deliver: bool = True, units: int = 0, dry_run: bool = False,
    ) -> owner_calls.ReclaimView:  # fmt: skip
        site = self.sites[resource.split("/")[0]]
        self.keys += 1
        body = owner_calls.Reclaim(
            key=f"reclaim-{self.keys}", resource=resource, start=START + int(start_h * HOUR),
            end=START + int(end_h * HOUR), notice_s=notice_s, reason=reason,
            units=units, dry_run=dry_run,
        )  # fmt: skip
        view = site.call(lambda participant, now: site.reminders.reclaim(body, now))
        if deliver:
            self.deliver()
        return view

    def reclaims(self, site: str) -> list[owner_calls.ReclaimView]:
        return list(self.sites[site].reminders.views())

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            for broker in self.brokers.values():
                broker.advance(1_000)
            for site in self.sites.values():
                site.unsent += site.advance(1_000).sends
            self.deliver()

    def deliver(self) -> None:
        """Until nobody has anything to say."""
        while self._deliver_some():
            pass

    def standing(self, rid: str) -> calls.RequestView:
        """The reservation as its user sees it, after all changes."""
        row = self.broker.row(rid)
        found = request_reads.reservation(self.register, row.reservation)
        return view_of(found.current if found is not None else row)

    def story(self, rid: str) -> list[tuple[str, str]]:
        """What happened, by the register."""
        events = [e for each in request_rows.history(self.register, rid) for e in each.trail]
        return [(each.kind, each.detail) for each in sorted(events, key=lambda e: e.number)]

    def hours(self, rid: str) -> dict[str, float]:
        """When each part starts, in hours after the start of all."""
        return {claim.resource: (claim.start - START) / HOUR for claim in self.standing(rid).claims}

    def locked(self, site: str) -> list[tuple[str, float]]:
        """What is locked at a site, by its stakes."""
        return sorted(
            (claim.resource, (claim.start - START) / HOUR)
            for stake in self.sites[site].participant.book.stakes.values()
            for claim in stake.claims_in("locked")
        )

    def _deliver_some(self) -> bool:
        delivered = False
        for name, broker in self.brokers.items():
            for to, message in broker.sent():
                delivered = True
                if type(message) in self.lost or to not in self.sites:
                    continue
                site = self.sites[to]
                site.unsent += site.receive(message, name).sends
        for site in self.sites.values():
            sends, site.unsent = site.unsent, []
            for to, message in sends:
                delivered = True
                self.reclaim_messages += isinstance(message, m.Reclaim)
                if type(message) in self.lost:
                    continue
                for name in self.brokers if to.startswith(REGISTER) else (ADDRESSES.get(to, to),):
                    with contextlib.suppress(KeyError):
                        self.brokers[name].receive(site.name, message)
        return delivered
