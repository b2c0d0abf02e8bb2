"""One broker replica under test: the real coordinator and the real register, sites played by hand.

Register operations are carried out at once, or one by one where a test wants something in between.
"""

from __future__ import annotations

import sqlite3

from msgspec.structs import replace

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.effects import Send
from kalends.broker.coordination.record.decision_record import Operation, Record, Spec, StepJob
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.jobs.parts.wing import JobParts
from kalends.broker.planning.directory import Directory
from kalends.broker.register.sqlite import request_rows, request_writes
from kalends.broker.register.sqlite.broker_store import SCHEMA
from kalends.contract import messages as m
from kalends.contract.calls import Patience, RequestView
from kalends.core.clock import LogicalClock
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.language import parse_request
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.core.steps import Step
from tests.owned_messages import ABOUT_A_REQUEST
from tests.protocol_support import ANN, COORDS, DAY, T0, secret_of

START = T0 + DAY
SITES = ("here", "there")
WANTS = tuple(m.Want(f"{site}/one", START, START + 60, 1) for site in SITES)


def new_register() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    return connection


class Broker:
    """`at_once`: the register answers within the step. Calls are answered in `answers`, by ticket."""

    def __init__(
        self,
        connection: sqlite3.Connection | None = None,
        *,
        name: str = "a",
        at_once: bool = True,
        open_per_user_max: int = 256,
        alive: frozenset[str] = frozenset(),
        ms: int = 1_000,
        jitter: float = 0.0,
    ) -> None:
        self.register = connection if connection is not None else new_register()
        self.at_once = at_once
        self.ms = ms
        self.numbers = 0
        self.sends: list[Send] = []
        self.answers: dict[int, RequestView] = {}
        self.events: list[str] = []
        self.alarms: list[str] = []
        self.set_back_ms = 0
        """By how much the wall clock was set back."""
        self.waiting: list[Operation] = []
        self.directory = Directory({site: f"http://{site}" for site in (*SITES, "silent")})
        self.coordinator = Coordinator(
            Identity(name, f"{name}:1", COORDS),
            self.directory,
            LogicalClock(),
            new_rid=self._new_rid,
            jitter=lambda: jitter,
            open_per_user_max=open_per_user_max,
            owner_alive=alive.__contains__,
            wings=(JobParts,),
        )
        self._first = 1_000 * (ord(name[0]) - 96)
        for site in SITES:
            self.receive(site, hello(site))

    @property
    def now(self) -> Moment:
        return Moment(self.ms, T0 * 1_000 + self.ms - self.set_back_ms)

    def _new_rid(self, now: Moment) -> str:
        self.numbers += 1
        return request_id(T0 * 1_000, self._first + self.numbers)

    # Events in

    def submit(
        self,
        ticket: int = 1,
        *,
        key: str = "the-key-of-it",
        wants: tuple[m.Want, ...] = WANTS,
        hold_s: int = 0,
        user: Principal = ANN,
        digest: str = "digest",
        replaces: Record | None = None,
        patience: Patience = "held",
        step: Step | None = None,
        at_most: int = 0,
    ) -> str:
        """Exactly these slots; the user allows each owner `at_most` (0: anything)."""
        text = " + ".join(f"{want.resource}:{want.units}" for want in wants)
        request = parse_request(
            text, duration="60s", at=wants[0].start, now_s=self.now.wall_s, zone="UTC"
        )
        caps = dict.fromkeys(SITES, at_most) if at_most else {}
        spec = Spec(
            replace(request, at_most=caps),
            text,
            hold=hold_s > 0,
            hold_s=hold_s,
            wants=wants,
            patience=patience,
            what=StepJob(step) if step is not None else None,
        )
        rid = self.coordinator.calls.submit(
            user, key, digest, spec, ticket, self.now, replaces=replaces
        )
        self.settle()
        return rid

    def ask(
        self,
        text: str,
        ticket: int = 1,
        *,
        hold_s: int = 0,
        key: str = "the-key-of-it",
        patience: Patience = "held",
    ) -> str:
        """Whenever it can be within a day."""
        request = parse_request(
            text, duration="60s", not_before=START, not_after=START + 600,
            now_s=self.now.wall_s, zone="UTC",
        )  # fmt: skip
        spec = Spec(request, text, hold=hold_s > 0, hold_s=hold_s, patience=patience)
        rid = self.coordinator.calls.submit(ANN, key, "digest", spec, ticket, self.now)
        self.settle()
        return rid

    def lock(self, rid: str, ticket: int) -> None:
        self.coordinator.calls.lock(self.row(rid), ticket, self.now)
        self.settle()

    def release(self, rid: str, ticket: int) -> None:
        self.coordinator.calls.release(self.row(rid), ticket, self.now)
        self.settle()

    def cancel(self, rid: str, ticket: int) -> None:
        self.coordinator.calls.cancel(self.row(rid), ticket, self.now)
        self.settle()

    def adopt(self, rid: str) -> None:
        self.coordinator.attempts.take_over(self.row(rid), self.now)
        self.settle()

    def receive(self, site: str, message: m.Message) -> None:
        self.coordinator.receive(site, message, self.now)
        self.settle()

    def advance(self, ms: int) -> None:
        """In steps no longer than the coordinator's next deadline."""
        end_ms = self.ms + ms
        while self.ms < end_ms:
            due_ms = self.coordinator.next_deadline_ms()
            self.ms = min(end_ms, max(due_ms, self.ms + 1)) if due_ms is not None else end_ms
            self.coordinator.advance(self.now)
            self.settle()

    # Effects out

    def settle(self) -> None:
        while True:
            effects = self.coordinator.take_effects()
            self.sends += effects.sends
            self.answers |= {answer.ticket: answer.view for answer in effects.answers}
            self.events += [happened.event.kind for happened in effects.events]
            self.alarms += effects.alarms
            self.waiting += effects.operations
            if not (self.at_once and self.waiting):
                return
            self.write()

    def write(self, count: int | None = None) -> None:
        """Carry out the first `count` waiting register operations (None: all), and tell of them."""
        count = len(self.waiting) if count is None else count
        batch, self.waiting = self.waiting[:count], self.waiting[count:]
        for result in request_writes.apply(self.register, batch):
            self.coordinator.registered(result, self.now)
        if not self.at_once:
            self.settle()

    def sent(self) -> list[tuple[str, m.Message]]:
        """What was sent since the last look, without the secrets: they are checked here."""
        return [(to, self._without_secret(to, message)) for to, message in self.sent_whole()]

    def sent_whole(self) -> list[tuple[str, m.Message]]:
        """What was sent since the last look."""
        sends, self.sends = self.sends, []
        return [(send.to, send.message) for send in sends]

    def _without_secret(self, to: str, message: m.Message) -> m.Message:
        if not isinstance(message, ABOUT_A_REQUEST):
            return message
        assert message.secret == secret_of(message.rid, to.removeprefix("http://"))
        if isinstance(message, m.Visit | m.Dispatch):
            return message
        message = replace(message, secret="")
        if isinstance(message, m.Decide | m.Outcome):
            return replace(message, proofs={}, warrant="")
        return replace(message, warrant="") if isinstance(message, m.Cancel) else message

    def kinds(self) -> list[tuple[str, str]]:
        return [(to, type(message).__name__) for to, message in self.sent()]

    def row(self, rid: str) -> Record:
        record = request_rows.row(self.register, rid)
        assert isinstance(record, Record)
        return record

    def case(self, rid: str) -> Transaction:
        return self.coordinator.cases[rid]

    # Sites played by hand

    def visited(self, rid: str, *, att: int = 1, vote: bool = True) -> None:
        """Both sites hold, or promise, their slot: number 10 + attempt here, 20 + attempt there."""
        for number, site in enumerate(SITES, 1):
            held = (m.HeldSlot(0, 10 * number + att),)
            self.receive(
                site,
                m.Visited(rid=rid, att=att, epoch=1, vote="yes" if vote else "none", held=held),
            )

    def voted(self, rid: str, *, att: int = 1) -> None:
        for site in SITES:
            self.receive(site, m.Voted(rid=rid, att=att, epoch=1, vote="yes"))

    def done(self, rid: str, of: str = "commit", *, att: int = 1) -> None:
        assert of in ("commit", "cancel")
        for site in SITES:
            self.receive(
                site, m.Done(rid=rid, att=att, of="commit" if of == "commit" else "cancel")
            )

    def shows(self, *free: tuple[int, int]) -> None:
        """Both sites answer the queries that were sent: free in these seconds after the start."""
        steps = tuple((START + start, START + end, 1) for start, end in free)
        for site, message in self.sent():
            if isinstance(message, m.Query):
                views = tuple(
                    m.FreeSteps(resource=want.resource, until=want.end, steps=steps)
                    for want in message.wants
                )
                self.receive(site, m.View(query_id=message.query_id, epoch=1, views=views))

    def reserve(self, ticket: int = 1, **asked: object) -> str:
        """A finished reservation."""
        rid = self.submit(ticket, **asked)  # type: ignore[arg-type]  # passed on as they are
        self.visited(rid)
        self.done(rid)
        assert self.row(rid).state == "commit"
        assert self.row(rid).done
        self.sent()
        return rid


def hello(site: str, epoch: int = 1) -> m.Hello:
    info = ResourceInfo(name=f"{site}/one", grain_s=1)
    return m.Hello(site=site, epoch=epoch, resources=(info,))
