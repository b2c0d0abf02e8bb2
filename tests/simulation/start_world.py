"""Jobs that ask before they start, under many short schedules: the permit alone, without the road to a place.

``python -m tests.simulation.start_world --schedules 100000 --seed 1`` prints its figures as JSON, names each
schedule that has started a job twice, or never, and ends with 1 if there was any. A job that may run again
runs until it is done, at one site after the other; at two at once where the first is lost, and it may.

Three sites and two replicas over one register: the shipped questions of sites, answers of brokers and
statements of the register, in a network that loses and repeats. A job gets places by one commit, at one
site or at two, or another place by a second one. Sites and replicas crash between any two steps; the register
is put back to an earlier copy, and made good as soon as all sites were heard. Schedules of the whole protocol
(`tests.simulation.climates`) or of the shipped servers (`tests.shells`) take a hundred times as long.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from random import Random
from typing import Any, Final

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.trust.credentials import Credentials
from kalends.broker.jobs.parts.start_answers import StartAnswers
from kalends.broker.register.sqlite import lives, request_rows, request_writes
from kalends.broker.register.sqlite.broker_store import SCHEMA
from kalends.broker.register.writes import MadeGood, PutBack
from kalends.contract import messages as m
from kalends.contract.calls import PlacedEnd, PlacedJob
from kalends.core.errors import Problem
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.core.requests import Alternative, Request, Term
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions
from kalends.resource_servers.participation.this_site import ThisSite

SITES: Final = ("argo", "bode", "cray")
REPLICAS: Final = ("sim://red", "sim://blue")
SECRET: Final = "5" * 64
FAULTS_MS: Final = 20_000
"""So long anything may go wrong."""
END_MS: Final = 200_000
TOLD_EVERY: Final = 2_000
LOST_MS: Final = 1_500
"""A site that is down for so long is lost."""
LATE_MS: Final = 8_000
"""A start comes so long after its question, at most."""
RUN_MS_MAX: Final = 20_000
GRACE_MS: Final = 6_000
MOVES_MAX: Final = 3
KINDS: Final = ("once", "once", "once", "again", "again once")
LOST: Final = Problem(type="t", title="t", status=503, detail="d", code="unavailable")
WALL_MS: Final = 1_800_000_000_000


class Node:
    """What may crash: then what it was about to do in this life does not happen."""

    def __init__(self, world: StartWorld, name: str) -> None:
        self.world, self.name = world, name
        self.up, self.life = True, 0
        self.down_ms = 0

    @property
    def lost(self) -> bool:
        return not self.up and self.world.now_ms - self.down_ms >= LOST_MS

    def later(self, ms: int, do: Callable[..., None], *arguments: Any) -> None:
        self.world.at(ms, partial(self._do, self.life, do, arguments))

    def _do(self, life: int, do: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self.up and life == self.life:
            do(*arguments)

    def crash(self) -> None:
        if self.up:
            self.up, self.life, self.down_ms = False, self.life + 1, self.world.now_ms
            self.world.at(self.world.random.randrange(1, 8_000), self.boot)

    def boot(self) -> None:
        self.up = True


class StartSite(Node):
    """`stakes`, `begun`, `ended` and `untold` are durable; what comes up asks, and begins once it may.

    Programs run on while the site is down. `untold` are ends that no replica has noted.
    """

    def __init__(self, world: StartWorld, name: str) -> None:
        super().__init__(world, name)
        self.stakes: dict[str, Stake] = {}
        self.begun: set[str] = set()
        self.ended: set[str] = set()
        self.untold: dict[str, PlacedEnd] = {}
        self.left: set[str] = set()
        self._begin_life()

    def _begin_life(self) -> None:
        self.outbox = ParticipantOutbox()
        self.waiting: set[str] = set()
        self.starts = StartQuestions(
            ThisSite(self.name, self.life + 1),
            self.stakes,  # type: ignore[arg-type]  # It is looked up there, and nothing else.
            self.outbox,
            self.world.random.random,
        )
        self.later(100, self._advance)

    def boot(self) -> None:
        super().boot()
        self._begin_life()
        for rid in self.stakes:
            self.later(self.world.random.randrange(1, 3_000), self.comes_up, rid)

    def lock(self, record: r.Record) -> None:
        """The commit is told to this site: its place is the job's, until its turn comes."""
        if record.rid in self.stakes:
            return
        secret = self.world.credentials.secret(record, self.name)
        claim = Claim(1, f"{self.name}/box", 0, 1, 1, "locked")
        self.stakes[record.rid] = Stake(
            rid=record.rid, att=record.att, principal=Principal("anna"), secret=secret, need=1,
            parts=(), coords=REPLICAS, claims=[claim], chosen=record.chosen, register="r", once=True,
        )  # fmt: skip
        self.later(self.world.random.randrange(1, 8_000), self.comes_up, record.rid)

    def leave(self, rid: str) -> None:
        """The job has other places by now."""
        if rid not in self.stakes or rid in self.left:
            return
        self.left.add(rid)
        self.stakes[rid].claims[0].state = "replaced"
        if rid in self.begun:
            self.world.at(
                self.world.random.randrange(1, GRACE_MS), partial(self.end, rid, "killed")
            )
        else:
            self.end(rid, "withdrawn")

    def comes_up(self, rid: str) -> None:
        if rid not in self.begun | self.ended:
            self.waiting.add(rid)
            self.starts.ask(rid, self.world.now)
            self.settle()

    def begin(self, rid: str) -> None:
        """The first process; whoever shepherds it writes that down at once."""
        if rid in self.begun | self.ended:
            return
        self.begun.add(rid)
        self.world.begins(rid, self.name)
        run_ms = self.world.random.randrange(1, RUN_MS_MAX)
        self.world.at(run_ms, partial(self.end, rid, "exit"))

    def end(self, rid: str, how: str) -> None:
        """All processes of the job are gone, or none will ever be."""
        if rid in self.ended:
            return
        self.ended.add(rid)
        self.untold[rid] = PlacedEnd(at=self.world.now.wall_s, end=how)  # type: ignore[arg-type]  # an EndWord
        self.world.ends(rid, self.name, how)

    def noted(self, rid: str) -> None:
        self.untold.pop(rid, None)

    def hear(self, says: m.StartSays) -> None:
        stake = self.stakes.get(says.rid)
        if stake is not None and says.secret == stake.secret:
            self.starts.said(says)
            self.settle()

    def settle(self) -> None:
        effects = self.outbox.take()
        for send in effects.sends:
            to = REPLICAS if send.to.startswith("register:") else (send.to,)
            for replica in to:
                self.world.carry(self.world.replicas[replica].hear, send.message)
        for word in effects.starts:
            self.take(word)

    def take(self, word: StartWord) -> None:
        """Begin, or end, what waits for this word."""
        if word.says != "start":
            self.waiting.discard(word.rid)
            if word.rid not in self.begun:
                self.end(word.rid, "withdrawn")
        elif word.rid in self.waiting:
            self.waiting.discard(word.rid)
            self.begin(word.rid)

    def _advance(self) -> None:
        self.starts.advance(self.world.now)
        self.settle()
        if self.world.random.random() < 0.2:
            for rid, end in self.untold.items():
                for replica in self.world.replicas.values():
                    self.world.carry(replica.hear_end, self, rid, end)
        self.later(250, self._advance)


class StartReplica(Node):
    """Answers once what it has asked of the register is durable."""

    def __init__(self, world: StartWorld, name: str) -> None:
        super().__init__(world, name)
        self.outbox = CoordinatorOutbox()
        self.answers = StartAnswers(self.outbox, world.credentials, world.certain, world.lost)

    def crash(self) -> None:
        super().crash()
        self.outbox.take()

    def hear(self, ask: m.StartAsk) -> None:
        self.answers.asked(self.world.names[ask.secret], ask, self.world.now)
        for operation in self.outbox.take().operations:
            assert isinstance(operation, r.Permit)
            self.later(self.world.random.randrange(1, 200), self.store, operation)

    def hear_end(self, site: StartSite, rid: str, end: PlacedEnd) -> None:
        if self.world.certain():
            self.later(self.world.random.randrange(1, 200), self.note, site, rid, end)

    def note(self, site: StartSite, rid: str, end: PlacedEnd) -> None:
        note = r.NoteEnd(rid, 1, site.name, end, site.name)
        (result,) = request_writes.apply(self.world.connection, [note])
        row = result.record
        if row is not None and row.state in r.COMMITTED and (row.job.ended or not row.may_start):
            self.world.carry(site.noted, rid)

    def store(self, permit: r.Permit) -> None:
        (result,) = request_writes.apply(self.world.connection, [permit])
        self.later(self.world.random.randrange(1, 100), self.tell, permit, result)

    def tell(self, permit: r.Permit, result: r.Registered) -> None:
        self.answers.decided(permit, result.won, result.record)
        for send in self.outbox.take().sends:
            self.world.carry(self.world.sites[send.to].hear, send.message)


class StartWorld:
    """One schedule; `begun` are the sites where each job has begun."""

    site_type: type[StartSite] = StartSite
    replica_type: type[StartReplica] = StartReplica

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.deserialize(empty_register())
        self.credentials = Credentials(SECRET)
        self.sites = {name: self.site_type(self, name) for name in SITES}
        self.replicas = {name: self.replica_type(self, name) for name in REPLICAS}
        self.names: dict[str, str] = {}
        """Sites, by the secrets that they share with the register."""
        self.jobs: dict[str, str] = {}
        """The job of each request: one that moves has several."""
        self.kinds: dict[str, str] = {}
        self.begun: defaultdict[str, list[str]] = defaultdict(list)
        self.alive: defaultdict[str, set[str]] = defaultdict(set)
        """Where programs of each job run."""
        self.done: set[str] = set()
        """Jobs that have ended by themselves."""
        self.twice: list[str] = []
        self.tallies: Counter[str] = Counter()
        self.lost_ms: dict[str, int] = {}
        """When each site was lost last."""
        self.restored = False
        self._lost = self.random.uniform(0, 0.4)
        self._told: list[r.Record] = []

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms)

    def at(self, ms: int, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + ms, next(self._order), do))

    def certain(self) -> bool:
        return not lives.is_put_back(self.connection)

    def lost(self, now: Moment) -> list[str]:
        lost = [site.name for site in self.sites.values() if site.lost]
        self.lost_ms |= dict.fromkeys(lost, self.now_ms)
        return lost

    def begins(self, rid: str, site: str) -> None:
        """A program begins: nothing else of its job runs, but where a site is lost, and it may."""
        job = self.jobs[rid]
        self.begun[job].append(site)
        lost_since_ms = self.now_ms - LATE_MS
        for other in self.alive[job]:
            lost = self.restored or self.lost_ms.get(other, -LATE_MS - 1) >= lost_since_ms
            allowed = lost and self.kinds[job] == "again"
            self.tallies["begun while its site was lost"] += allowed
            if not allowed:
                self.twice.append(f"{job} has begun at {site} while it runs at {other}")
        self.tallies["begun again"] += len(self.begun[job]) > 1
        self.alive[job].add(site)

    def ends(self, rid: str, site: str, how: str) -> None:
        self.alive[self.jobs[rid]].discard(site)
        if how == "exit":
            self.done.add(self.jobs[rid])

    def carry(self, hear: Callable[..., None], *message: Any) -> None:
        """Let a message arrive: once, twice or never."""
        times = self.random.choice((1, 1, 2))
        for _ in range(times):
            if self.now_ms > FAULTS_MS or self.random.random() >= self._lost:
                node: Node = hear.__self__  # type: ignore[attr-defined]  # It is a method of one.
                late = self.random.random() < 0.1
                self.at(
                    self.random.randrange(1, 6_000 if late else 300),
                    partial(_hear, node, hear, *message),
                )

    def run(self) -> None:
        draw = self.random
        for number in range(draw.randint(1, 3)):
            self.at(draw.randrange(3_000), partial(self._place, f"job{number}"))
        for node in (*self.sites.values(), *self.replicas.values()):
            for _ in range(draw.choice((0, 1, 2))):
                self.at(draw.randrange(FAULTS_MS), node.crash)
        if draw.random() < 0.3:
            self.at(draw.randrange(FAULTS_MS // 2), self._copy)
        while self._events and self.now_ms < END_MS:
            self.now_ms, _, do = heapq.heappop(self._events)
            do()
        self.connection.close()

    def check(self) -> str:
        """Return what is wrong, or ""."""
        if self.twice:
            return self.twice[0]
        for job in dict.fromkeys(self.jobs.values()):
            if self.alive[job]:
                return f"{job} runs for ever"
            if self.kinds[job] != "once":
                if job not in self.done and not self.restored:
                    return f"{job} has never come to its end"
                continue
            if len(self.begun[job]) > 1:
                return f"{job} has begun at {self.begun[job]}"
            if not self.begun[job] and not self.restored:
                return f"{job} has never begun"
        return ""

    # Places

    def _place(self, job: str) -> None:
        sites = self.random.sample(SITES, self.random.choice((1, 2, 2)))
        self.kinds[job] = self.random.choice(KINDS)
        record = self._commit(job, sites)
        if record is not None and len(sites) == 1 and self.random.random() < 0.7:
            self.at(self.random.randrange(1, 6_000), partial(self._move, record))

    def _move(self, old: r.Record) -> None:
        """Have the job wait elsewhere, unless it has started and must not start again, or has ended."""
        (site,) = self.random.sample([each for each in SITES if each not in old.chosen], 1)
        job = self.jobs[old.rid]
        record = self._commit(job, [site], old)
        if record is None:
            return
        for each in old.chosen:
            self._repeat(self.sites[each], partial(self.sites[each].leave, old.rid))
        if self.kinds[job] != "once" and record.changes < MOVES_MAX:
            self.at(self.random.randrange(1, 6_000), partial(self._move, record))

    def _commit(self, job: str, sites: list[str], old: r.Record | None = None) -> r.Record | None:
        if not self.certain():
            return None
        rid = request_id(self.now.wall_ms, next(self._order))
        again = "again" in self.kinds[job]
        before = request_rows.row(self.connection, old.rid) if old is not None else None
        running = isinstance(before, r.Record) and again and bool(before.job.started)
        spec = r.Spec(
            request=REQUEST,
            what=r.Placement(
                job=JobRequest(
                    machine="", limit_s=60, command=("true",), rerun=again,
                    at_most_once="once" in self.kinds[job],
                ),
                running="there" if running else "no",
            ),
        )  # fmt: skip
        record = r.Record(
            rid=rid, user="anna", key=rid, digest="d", stamp=1, owner="red",
            reservation=old.reservation if old else rid,
            created_ms=WALL_MS, spec=spec, chosen=dict.fromkeys(sites, (1,)),
            replaces=old.rid if old else "", changes=old.changes + 1 if old else 0,
            job=r.JobFacts(placed=PlacedJob(machine=f"{sites[0]}/box", number=1)),
        )  # fmt: skip
        commit = r.Commit(
            rid,
            1,
            record.replaces,
            r.encode_record(record),
            tuple(sites),
            elsewhere=old is not None,
            running=running,
            again=record.may_start_twice,
        )
        if not request_writes.apply(self.connection, [r.Begin(record), commit])[1].won:
            return None
        record.state = "commit"
        self.jobs[rid] = job
        self._told.append(record)
        for name in sites:
            self.names[self.credentials.secret(record, name)] = name
            self._repeat(self.sites[name], partial(self.sites[name].lock, record))
        return record

    def _repeat(self, site: StartSite, tell: Callable[[], None]) -> None:
        """Tell a site until it has heard."""
        if site.up and self.random.random() > self._lost:
            self.at(
                self.random.randrange(1, 500),
                lambda: tell() if site.up else self._repeat(site, tell),
            )
        else:
            self.at(self.random.randrange(200, 2_000), partial(self._repeat, site, tell))

    # A restored register

    def _copy(self) -> None:
        copy = self.connection.serialize()
        self.at(self.random.randrange(1, FAULTS_MS // 2), partial(self._put_back, copy))

    def _put_back(self, copy: bytes) -> None:
        """The register is that of the copy again; its replicas begin anew, and compare it with all sites."""
        self.restored = True
        self.connection.deserialize(copy)
        request_writes.carry_out(self.connection, [PutBack()])
        for replica in self.replicas.values():
            replica.crash()
        self.at(self.random.randrange(1, 5_000), self._compare)

    def _compare(self) -> None:
        if not all(site.up for site in self.sites.values()):
            self.at(500, self._compare)
            return
        locked = {
            rid
            for site in self.sites.values()
            for rid, each in site.stakes.items()
            if each.has("locked")
        }
        known = [each for each in self._told if each.rid in locked]
        request_writes.apply(
            self.connection, [r.Recover(r.decode_record(r.encode_record(each))) for each in known]
        )
        request_writes.carry_out(self.connection, [MadeGood((), LOST)])


def _hear(node: Node, hear: Callable[..., None], *message: Any) -> None:
    if node.up:
        hear(*message)


@cache
def empty_register() -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA)
    return connection.serialize()


REQUEST: Final = Request(
    alternatives=(Alternative(terms=(Term(resource="argo/box"),)),), duration_s=60,
    not_before=WALL_MS // 1_000,
)  # fmt: skip


def soak(
    schedules: int, seed: int, world_type: type[StartWorld] = StartWorld, first: int = 0
) -> tuple[Counter[str], list[str]]:
    """Run so many schedules, from number `first` on; return what they had, and what was wrong."""
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(first, first + schedules):
        world = world_type(f"{seed} {number}")
        world.run()
        if found := world.check():
            wrong.append(f"schedule {seed} {number}: {found}")
        tally["schedules"] += 1
        tally["jobs"] += len(set(world.jobs.values()))
        tally["moved"] += len(world.jobs) - len(set(world.jobs.values()))
        tally["begun"] += sum(map(len, world.begun.values()))
        tally["registers restored"] += world.restored
        tally.update(world.tallies)
    return tally, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally: Counter[str] = Counter(wrong=0)
    while tally["schedules"] < options.schedules:
        more, wrong = soak(TOLD_EVERY, options.seed, first=tally["schedules"])
        tally.update(more, wrong=len(wrong))
        print(*wrong, json.dumps(tally), sep="\n", flush=True)
    return 1 if tally["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
