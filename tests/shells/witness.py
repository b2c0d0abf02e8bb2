"""Tells the judges of `tests.simulation` what happens among the shipped servers.

What is stored is read from the stores after each commit, by statements of our own. What is asked and said
is heard where it enters and leaves a site's engine and a broker's links. What is wrong is collected: an
error raised here would only look like one of the product's.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from kalends.broker.register.sqlite import broker_store
from kalends.broker.sites.inquiries import Inquiries
from kalends.broker.sites.site_link import SiteLink
from kalends.contract import messages as m
from kalends.contract.calls import RequestView
from kalends.resource_servers.participation.claims.claim_sets import (
    StakeDropped,
    StakeStored,
    TimeClosed,
)
from kalends.resource_servers.participation.effects import SiteFact
from kalends.resource_servers.service import SiteEngine
from kalends.servers.site import SiteServer
from kalends.serving.alarms import Alarms
from tests.shells.nodes import Node
from tests.shells.stage import NODE, world
from tests.shells.substitutes import WALL_AT_BEGIN_S
from tests.shells.world import World
from tests.simulation.auditor import Auditor
from tests.simulation.histories import Recorder
from tests.simulation.kernel import Violation
from tests.simulation.line_oracle import LineOracle

if TYPE_CHECKING:
    from tests.shells.facility import Facility

COMPLAINTS_MAX = 20


class Books(Auditor):
    """The auditor, who adds up in one sweep where that shows that all is well."""

    def _fits(self, where: str, stakes: Mapping[str, Mapping[str, Any]]) -> None:
        changes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for stake in stakes.values():
            for claim in stake["claims"]:
                if claim["state"] in ("held", "prepared", "locked"):
                    changes[claim["resource"]].append((claim["start"], claim["units"]))
                    changes[claim["resource"]].append((claim["end"], -claim["units"]))
        for resource, steps in changes.items():
            taken = 0
            for _, units in sorted(steps):
                taken += units
                if taken > self.capacities[resource]:
                    super()._fits(where, stakes)
                    return
        self.checks += 1

    def true_s(self) -> int:
        return int(WALL_AT_BEGIN_S + world().loop.now_s)


class Witness:
    """`complaints` says what was wrong, in the order in which it was seen."""

    def __init__(self, facility: Facility) -> None:
        self.complaints: list[str] = []
        self.answers = 0
        self._world: World = facility.world
        self._sites = frozenset(facility.sites)
        self._brokers = frozenset(facility.brokers)
        self.auditor = Books(self)  # type: ignore[arg-type]  # It only takes notes of it.
        self.auditor.capacities = {
            f"{site}/cluster": facility.plan.capacity for site in facility.sites
        }
        self.recorder = Recorder(self._now_ms)
        if facility.plan.capacity == 1:
            self.recorder.singles = frozenset(self.auditor.capacities)
        self.oracle = LineOracle(self.auditor.capacities, settle_ms=2_000, now_ms=self._now_ms)
        self.oracle.exists = self.auditor.rows.__contains__
        self._epochs: dict[str, int] = {}
        self._last_seq: defaultdict[str, int] = defaultdict(int)
        self._rows: defaultdict[str, dict[str, tuple[Any, ...]]] = defaultdict(dict)
        self._writing: defaultdict[str, set[str]] = defaultdict(set)
        self._world.on_commit.append(self._committed)
        self._world.on_death.append(self._died)
        _hear(self)

    def _now_ms(self) -> int:
        return int(self._world.loop.now_s * 1_000)

    def note(self, text: str) -> None:
        """For the auditor."""
        self._world.note("audit", text)

    @contextlib.contextmanager
    def _judging(self) -> Iterator[None]:
        try:
            yield
        except Violation as error:
            if len(self.complaints) < COMPLAINTS_MAX:
                self.complaints.append(f"at {self._world.loop.now_s:.3f} s: {error}")
                self._world.note("COMPLAINT", error)

    # What is stored

    def _committed(self, node: Node, connection: sqlite3.Connection, database: str) -> None:
        if not database.endswith(f"/{node.host}.sqlite"):
            return
        with self._judging():
            if node.host in self._sites:
                self._site_committed(node, connection)
            elif node.host in self._brokers:
                self._broker_committed(node, connection)

    def _site_committed(self, node: Node, connection: sqlite3.Connection) -> None:
        site, run = node.host, super(type(connection), connection).execute
        meta = dict(run("select name, value from meta where name in ('epoch', 'horizon_s')"))
        facts: list[SiteFact] = []
        if meta.get("horizon_s", 0) > self.auditor.horizons[site]:
            facts.append(TimeClosed(meta["horizon_s"]))
        rows = run(
            "select seq, rid, event, body from journal where seq > ? order by seq",
            (self._last_seq[site],),
        )
        for seq, rid, event, body in rows:
            self._last_seq[site] = seq
            ends_at = msgspec.msgpack.decode(body)["ends_at"] if body else 0
            dropped = event == "dropped"
            facts.append(StakeDropped(rid) if dropped else StakeStored(rid, event, ends_at, body))
        if facts:
            self.auditor.site_stored(site, facts)
        if meta["epoch"] != self._epochs.get(site):
            self._site_opened(site, int(meta["epoch"]), run)

    def _site_opened(self, site: str, epoch: int, run: Any) -> None:
        """A life begins: what is stored must be what was stored, no more and no less."""
        if epoch <= self._epochs.get(site, 0):
            raise Violation(f"{site}: epoch {epoch} follows {self._epochs[site]}")
        self._epochs[site] = epoch
        found = dict(run("select stake.rid, body from stake join journal using (seq)"))
        if found != self.auditor.bodies[site]:
            different = found.keys() ^ self.auditor.bodies[site]
            raise Violation(f"{site}: the store has lost or invented {different}")

    def _broker_committed(self, node: Node, connection: sqlite3.Connection) -> None:
        broker, run = node.host, super(type(connection), connection).execute
        before = self._rows[broker]
        after = {
            rid: rest
            for rid, *rest in run("select rid, att, state, owner, done, body from request")
        }
        changed = {rid for rid in after if after[rid] != before.get(rid)}
        changed |= before.keys() - after.keys()
        written, self._writing[node.name] = self._writing[node.name], set()
        self._rows[broker] = after
        if self._world.clocks_were_astray:
            self.auditor._stamps.clear()  # A clock that was astray begins anew, and may go back.
        self.auditor.connection = _Unwrapped(run)  # type: ignore[assignment]
        self.auditor.register_changed(changed | {rid for rid in written if rid not in after})
        for rid in sorted(changed):
            if rid in after and after[rid][1] != "open":
                self.oracle.ended(rid)

    def writing(self, rids: Sequence[str]) -> None:
        """The running replica begins these requests, in the transaction that it will commit next."""
        node = NODE.get()
        if node is not None:
            self._writing[node.name].update(rids)

    # What is said

    def delivered(self, site: str, source: str, message: m.Message, *, idle: bool) -> None:
        with self._judging():
            for listener in (self.recorder, self.oracle):
                listener.delivered(site, source, message, idle=idle)

    def sent(self, name: str, to: str, message: m.Message) -> None:
        with self._judging():
            self.auditor.sent(SimpleNamespace(name=name), to, message)  # type: ignore[arg-type]
            if name in self._sites:
                for listener in (self.recorder, self.oracle):
                    listener.left(name, to, message)

    def alarmed(self, name: str, alarm: str) -> None:
        """Nothing was wrong but perhaps a clock: whoever is alarmed by anything else sees a fault."""
        if "the clock of this host" in alarm and self._world.clocks_were_wrong:
            return
        with self._judging():
            if (name, alarm.partition(":")[0]) not in self.auditor.dropped:
                raise Violation(f"{name} raises the alarm: {alarm}")

    def _died(self, node: Node) -> None:
        if node.name in self._sites:
            self.site_lost_memory(node.name)
        self._writing.pop(node.name, None)

    def site_lost_memory(self, site: str) -> None:
        for listener in (self.recorder, self.oracle):
            listener.crashed(site)

    def told(self, client: str, user: str, key: str, view: RequestView) -> None:
        """A client was answered."""
        self.answers += 1
        node = SimpleNamespace(name=client)
        call = SimpleNamespace(kind="book", user=user, key=key, rid=view.id, replaces="")
        with self._judging():
            self.auditor.told(node, call, view)  # type: ignore[arg-type]

    # The end

    def calm(self) -> None:
        """From now on there are no faults."""
        self.oracle.healed()

    def finish(self) -> list[str]:
        """All that was wrong."""
        with self._judging():
            for rid in sorted(self.auditor.given_up):
                row = self.auditor.rows.get(rid)
                if row is not None and row.state in ("commit", "cancelled", "replaced"):
                    raise Violation(f"{rid} is committed, but its user was told it never began")
        return [*self.complaints, *self.oracle.finish(), *self.recorder.finish()]


class _Unwrapped:
    """A connection whose statements take no time: the witness is not part of the world."""

    def __init__(self, run: Any) -> None:
        self.execute = run


def _hear(witness: Witness) -> None:
    """Listen at the edges of the shipped servers."""
    receive, deliver, failed = SiteEngine.receive, SiteServer._deliver, SiteServer._failed
    told = Alarms.tell
    send, answer, carry_out = SiteLink.send, Inquiries.answer, broker_store.carry_out

    def name() -> str:
        node = NODE.get()
        assert node is not None
        return node.name

    def receiving(self: SiteEngine, source: str, messages: Sequence[m.Message]) -> Any:
        for message in messages:
            witness.delivered(name(), source, message, idle=self.behind == 0)
        return receive(self, source, messages)

    def delivering(self: SiteServer, sends: Any) -> None:
        for to, message in sends:
            witness.sent(name(), to, message)
        deliver(self, sends)

    def failing(self: SiteServer, failure: Any) -> None:
        witness.site_lost_memory(name())
        failed(self, failure)

    def telling(self: Alarms, text: str, about: str = "") -> None:
        witness.alarmed(name(), text)
        told(self, text, about)

    def sending(self: SiteLink, message: m.Message) -> None:
        if self.connected:
            witness.sent(name(), self.name, message)
        send(self, message)

    def answering(self: Inquiries, to: str, message: m.Message) -> None:
        witness.sent(name(), to, message)
        answer(self, to, message)

    def carrying_out(connection: sqlite3.Connection, writes: Sequence[Any]) -> Any:
        witness.writing([each.record.rid for each in writes if hasattr(each, "record")])
        return carry_out(connection, writes)

    SiteEngine.receive = receiving  # type: ignore[method-assign]
    SiteServer._deliver = delivering  # type: ignore[method-assign]
    SiteServer._failed = failing  # type: ignore[method-assign]
    Alarms.tell = telling  # type: ignore[method-assign]
    SiteLink.send = sending  # type: ignore[method-assign]
    Inquiries.answer = answering  # type: ignore[method-assign]
    broker_store.carry_out = carrying_out
