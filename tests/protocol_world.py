"""Brokers, sites, one register, and a network whose every message waits until a script delivers it.

A script is plain text: one command a line, and below it, after ``> ``, what happens. `run` gives the
script back with what happened now. The commands:

| command | meaning |
| --- | --- |
| ``book R here/one@0-60 ... [hold S] [replacing R] [patience P] [by B]`` | a user asks broker a (or B);
the request is called R |
| ``lock R``, ``release R``, ``cancel R`` | the user goes on with it, at broker a |
| ``deliver [FROM [TO]]`` | what is in flight now arrives, in order; answers stay in flight |
| ``lose [FROM [TO]]`` | what is in flight now never arrives |
| ``again FROM TO KIND ATTEMPT`` | a message that has arrived already arrives once more |
| ``wait S`` | time passes everywhere |
| ``restart NODE``, ``stop NODE`` | a crash, with or without coming back; sites keep what they stored |
| ``amnesia SITE`` | a restart with an empty store |
| ``guard SITE [S]`` | from now on, its owner approves each booking, within S; the site starts anew |
| ``approve SITE R [WORD]``, ``decline SITE R [WORD]`` | the owner's word |
| ``takeover BROKER R`` | another replica takes the request up |
| ``show`` | claims at the sites, and the register |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Registered
from kalends.broker.register.sqlite import request_writes
from kalends.calendars import Limit
from kalends.contract import messages as m
from kalends.contract.owner_calls import DecideApproval
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.claims.claim_sets import StakeDropped, StakeStored
from kalends.resource_servers.participation.effects import ParticipantEffects
from tests.protocol_broker import START, Broker, hello, new_register
from tests.protocol_support import Site

ADDRESSES = {
    "http://broker-a": "a", "http://broker-b": "b", "http://here": "here", "http://there": "there",
}  # fmt: skip


class Flying(NamedTuple):
    source: str
    to: str
    message: m.Message


class Replica(Broker):
    """A broker that tells of every register operation, whether it won or not."""

    tell_of: Callable[[Registered], None]

    def write(self, count: int | None = None) -> None:
        batch, self.waiting = self.waiting, []
        for result in request_writes.apply(self.register, batch):
            self.tell_of(result)
            self.coordinator.registered(result, self.now)


class World:
    def __init__(self) -> None:
        self.register = new_register()
        self.names: dict[str, str] = {}
        self.flying: list[Flying] = []
        self.past: list[Flying] = []
        self.lines: list[str] = []
        self.pending: list[tuple[str, str, str, bool]] = []
        self.down: set[str] = set()
        self.sites = {name: Site(name=name) for name in ("here", "there")}
        self.tickets = 0
        self.brokers = {name: self._new_broker(name) for name in "ab"}

    def run(self, script: str) -> str:
        """The commands of `script`, each with what happened."""
        out = []
        for line in script.splitlines():
            if line.startswith(">"):
                continue
            out.append(line)
            if line.strip() and not line.startswith("#"):
                self.lines = []
                command, *words = line.split()
                getattr(self, f"do_{command}")(*words)
                out += [f"> {told}" for told in self.lines]
        return "\n".join(out) + "\n"

    # Commands

    def do_book(self, name: str, *words: str) -> None:
        options = list(words)
        hold_s = int(_option(options, "hold") or 0)
        old = _option(options, "replacing")
        patience = _option(options, "patience") or "held"
        broker = self.brokers[_option(options, "by") or "a"]
        self.tickets += 1
        rid = broker.submit(
            self.tickets,
            key=f"key-of-{name}",
            wants=tuple(_want(option) for option in options),
            hold_s=hold_s,
            replaces=broker.row(self.names[old]) if old else None,
            patience="taken" if patience == "taken" else "held" if patience == "held" else "none",
        )
        self.names[name] = rid
        self._settle()

    def do_lock(self, name: str) -> None:
        self.tickets += 1
        self.brokers["a"].lock(self.names[name], self.tickets)
        self._settle()

    def do_release(self, name: str) -> None:
        self.tickets += 1
        self.brokers["a"].release(self.names[name], self.tickets)
        self._settle()

    def do_cancel(self, name: str) -> None:
        self.tickets += 1
        self.brokers["a"].cancel(self.names[name], self.tickets)
        self._settle()

    def do_deliver(self, source: str = "", to: str = "") -> None:
        for each in self._taken(source, to):
            self._deliver(each)

    def do_lose(self, source: str = "", to: str = "") -> None:
        for each in self._taken(source, to):
            self.tell(f"lost: {each.source} to {each.to}: {self.words(each.message)}")

    def do_again(self, source: str, to: str, kind: str, att: str) -> None:
        late = [
            each
            for each in self.past
            if (each.source, each.to, type(each.message).__name__) == (source, to, kind)
            and f"attempt {att}" in self.words(each.message)
        ]
        self._deliver(late[-1])

    def do_wait(self, seconds: str) -> None:
        for _ in range(int(seconds)):
            for name, broker in self.brokers.items():
                if name not in self.down:
                    broker.advance(1_000)
            for name, site in self.sites.items():
                if name not in self.down:
                    self._tell_site(name, site.advance(1_000))
            self._settle()

    def do_restart(self, node: str) -> None:
        self.down.discard(node)
        if node in self.brokers:
            self.brokers[node] = self._new_broker(node)
            return
        self.sites[node].restart()
        for name, broker in self.brokers.items():
            if name not in self.down:
                broker.receive(node, hello(node, self.sites[node].epoch))
        self._settle()

    def do_stop(self, node: str) -> None:
        self.down.add(node)

    def do_amnesia(self, site: str) -> None:
        self.sites[site].stored.clear()
        self.do_restart(site)

    def do_takeover(self, broker: str, name: str) -> None:
        self.brokers[broker].adopt(self.names[name])
        self._settle()

    def do_guard(self, site: str, within_s: str = "3600") -> None:
        node = self.sites[site]
        node.owners_limits = (Limit("word", "everyone", approval="needed"),)
        node.limits = node.limits._replace(approval_s=int(within_s))
        self.do_restart(site)

    def do_approve(self, site: str, name: str, *word: str) -> None:
        self._say(site, name, approve=True, word=" ".join(word))

    def do_decline(self, site: str, name: str, *word: str) -> None:
        self._say(site, name, approve=False, word=" ".join(word))

    def _say(self, site: str, name: str, *, approve: bool, word: str) -> None:
        node = self.sites[site]
        body = DecideApproval(id=self.names[name], approve=approve, word=word)
        node.participant.wing(OwnerApproval).decide(body, "owner", node.now)
        self._tell_site(site, node.settle())
        self._settle()

    def do_show(self) -> None:
        for name, rid in self.names.items():
            row = self.brokers["a"].row(rid)
            done = ", all told" if row.done else ""
            self.tell(f"register: {name} is {row.state} at attempt {row.att}{done}")
        for name, site in self.sites.items():
            for label, rid in self.names.items():
                stake = site.participant.book.stakes.get(rid)
                for claim in stake.claims if stake is not None else ():
                    local = claim.resource.split("/")[1]
                    times = f"{claim.start - START}-{claim.end - START}"
                    self.tell(f"{name}: {label} has {local} {times} {claim.state}")

    # Machinery

    def tell(self, line: str) -> None:
        self.lines.append(line)

    def _new_broker(self, name: str) -> Broker:
        replica = Replica(self.register, name=name, ms=self.sites["here"].ms)
        replica.tell_of = partial(self._tell_of_register, name)
        return replica

    def _tell_of_register(self, broker: str, result: Registered) -> None:
        op = result.operation
        rid = op.record.rid if isinstance(op, r.Begin) else op.rid
        if not isinstance(op, r.Read):
            self.pending.append((broker, type(op).__name__, rid, result.won))

    def _taken(self, source: str, to: str) -> list[Flying]:
        taken = [f for f in self.flying if source in ("", f.source) and to in ("", f.to)]
        self.flying = [f for f in self.flying if f not in taken]
        return taken

    def _deliver(self, each: Flying) -> None:
        self.past.append(each)
        if each.to in self.down:
            self.tell(f"lost: {each.to} is down")
        elif each.to in self.sites:
            answers = isinstance(each.message, m.PeerSays)
            source = f"http://{each.source}" if answers else each.source
            self._tell_site(each.to, self.sites[each.to].receive(each.message, source))
        elif not isinstance(each.message, m.Known):  # That is for the broker's shell.
            self.brokers[each.to].receive(each.source, each.message)
            self._settle()

    def _tell_site(self, name: str, effects: ParticipantEffects) -> None:
        for fact in effects.facts:
            if isinstance(fact, StakeStored | StakeDropped):
                event = fact.event if isinstance(fact, StakeStored) else "dropped"
                self.tell(f"{name} stores {self.label(fact.rid)}: {event}")
        for alarm in effects.alarms:
            self.tell(f"{name} alarm: {self.relabel(alarm)}")
        for send in effects.sends:
            self._send(name, send.to, send.message)

    def _settle(self) -> None:
        for name, broker in self.brokers.items():
            for who, kind, rid, won in self.pending:
                if who == name:
                    verdict = "" if won else " lost"
                    self.tell(f"register: {kind} {self.label(rid)} by {who}{verdict}")
            for _, view in sorted(broker.answers.items()):
                problem = f" ({view.problem.code})" if view.problem is not None else ""
                self.tell(f"{name} answers the user: {view.state}{problem}")
            broker.answers.clear()
            for to, message in broker.sent_whole():
                self._send(name, to, message)
            for alarm in broker.alarms:
                self.tell(f"{name} alarm: {alarm}")
            broker.alarms.clear()
        self.pending.clear()

    def _send(self, source: str, to: str, message: m.Message) -> None:
        to = ADDRESSES.get(to, to)
        self.flying.append(Flying(source, to, message))
        self.tell(f"{source} to {to}: {self.words(message)}")

    def label(self, rid: str) -> str:
        known = {each: name for name, each in self.names.items()}
        return known.get(rid, "the request")

    def relabel(self, text: str) -> str:
        for name, rid in self.names.items():
            text = text.replace(rid, name)
        return text

    def words(self, message: m.Message) -> str:
        """A message as people say it."""
        if isinstance(message, m.Known):
            return "Known, it has forgotten a promise"
        if isinstance(message, m.Hello | m.Query | m.View):
            return type(message).__name__
        parts = [type(message).__name__, self.label(message.rid), f"attempt {message.att}"]
        match message:
            case m.Visit():
                slots = [
                    f"{w.resource.split('/')[1]} {w.start - START}-{w.end - START}"
                    for w in message.wants
                ]
                old = [f"in place of {self.label(message.replaces)}"] if message.replaces else []
                parts += [message.mode, *slots, *old, *(["or in line"] if message.queue else [])]
            case m.Visited():
                parts += [f"vote {message.vote}", f"{len(message.held)} held"]
                parts += [refusal.code for refusal in message.refusals]
                parts += [f"in line, {message.ahead} ahead"] if message.ahead >= 0 else []
            case m.Recall():
                parts += [f"{message.left_ms} ms left"]
            case m.Grant():
                parts += [f"{len(message.held)} held"]
            case m.Locked():
                parts += [refusal.code for refusal in message.refusals]
            case m.Awaited():
                parts += ["offered"] if message.offered else [f"{message.ahead} ahead"]
                parts += ["fresh"] if message.fresh else []
            case m.Voted():
                parts += [f"vote {message.vote}", *(each.code for each in message.refusals)]
            case m.Decide() | m.Outcome():
                parts += [message.outcome]
            case m.Done():
                parts += [message.of]
            case m.PeerSays():
                parts += [message.says]
            case m.Renewed():
                parts += [f"{len(message.kept)} kept", f"{len(message.lost)} lost"]
            case m.OwnerSays():
                parts += [message.state, *([message.word] if message.word else [])]
            case m.Stale():
                parts += [f"seen {message.seen}"]
        return ", ".join(parts)


def _option(words: list[str], name: str) -> str:
    """Take ``name VALUE`` out of `words`; "" when it is not there."""
    if name not in words:
        return ""
    at = words.index(name)
    value = words[at + 1]
    del words[at : at + 2]
    return value


def _want(text: str) -> m.Want:
    """``here/one@0-60``: seconds after the start of the test's day."""
    name, _, times = text.partition("@")
    start, _, end = times.partition("-")
    return m.Want(name, START + int(start), START + int(end), 1)
