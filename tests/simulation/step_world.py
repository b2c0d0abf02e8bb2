"""Common starts of jobs in step, under many short schedules: all parts begin, or none does.

``python -m tests.simulation.step_world --schedules 2000 --seed 1`` prints its figures as JSON, names each
schedule in which a part has begun without the others, and ends with 1 if there was any.

The world is that of `start_world`: the shipped questions of sites, answers of brokers and statements of the
register, while sites and replicas crash, and messages are lost, repeated and late. Each part waits for the
others for a time of its own, and gives up then. Programs run on while their site is down, so nothing excuses
a part that has not begun.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from functools import partial
from typing import Any, Final

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.jobs.parts.step_starts import StepStarts
from kalends.broker.register.sqlite import request_writes
from kalends.contract import messages as m
from kalends.core.identifiers import request_id
from kalends.core.steps import StepPart
from kalends.resource_servers.participation.effects import StartWord
from tests.simulation.start_world import (
    REQUEST,
    SITES,
    TOLD_EVERY,
    WALL_MS,
    StartReplica,
    StartSite,
    StartWorld,
    soak,
)

SLOT_S: Final = 10_000
WAIT_MS_MAX: Final = 12_000


class StepSite(StartSite):
    """`begins` are the parts that have heard of their start, in this life."""

    def _begin_life(self) -> None:
        super()._begin_life()
        self.begins: set[str] = set()
        self.later(200, self._welcome)

    def _welcome(self) -> None:
        self.starts.met(self.world.now)
        self.settle()

    def part(self, rid: str) -> StepPart:
        return StepPart(f"{self.name}/box", 1, (f"host-of-{self.name}",))

    def comes_up(self, rid: str) -> None:
        if rid in self.begun | self.ended:
            return
        self.waiting.add(rid)
        self.starts.ask(rid, self.world.now, (self.part(rid),))
        self.later(self.world.random.randrange(1, WAIT_MS_MAX), self._waited_enough, rid)
        self.settle()

    def _waited_enough(self, rid: str) -> None:
        if rid in self.waiting and rid not in self.begins:
            self.world.tallies["asked to give up"] += 1
            self.starts.ask(rid, self.world.now, (self.part(rid),), gives_up=True)
            self.settle()

    def hear_ready(self, ready: m.ReadyAsk) -> None:
        stake = self.stakes.get(ready.rid)
        if stake is not None and ready.secret == stake.secret:
            self.starts.ready(ready, self.world.now)
            self.settle()

    def take(self, word: StartWord) -> None:
        if word.says != "start":
            self.waiting.discard(word.rid)
            if word.rid not in self.begun:
                self.end(word.rid, "withdrawn")
        elif word.rid in self.waiting and word.rid not in self.begins:
            assert self.part(word.rid) in word.parts
            self.begins.add(word.rid)
            self.later(word.in_ms, self._begin_now, word.rid)

    def _begin_now(self, rid: str) -> None:
        self.waiting.discard(rid)
        self.begin(rid)


class StepReplica(StartReplica):
    world: StepWorld

    def __init__(self, world: StartWorld, name: str) -> None:
        super().__init__(world, name)
        self._forget()

    def _forget(self) -> None:
        self.outbox = CoordinatorOutbox()
        world = self.world
        self.step_starts = StepStarts(self.outbox, world.credentials, world.certain)

    def boot(self) -> None:
        super().boot()
        self._forget()

    def hear(self, ask: m.StartAsk) -> None:
        self.step_starts.asked(ask.site, ask, self.world.now)
        for operation in self.outbox.take().operations:
            self.later(self.world.random.randrange(1, 200), self.store, operation)

    def store(self, operation: Any) -> None:
        (result,) = request_writes.apply(self.world.connection, [operation])
        self.later(self.world.random.randrange(1, 100), self.tell, operation, result)

    def tell(self, operation: Any, result: r.Registered) -> None:
        self.step_starts.decided(operation, result, self.world.now)
        for send in self.outbox.take().sends:
            site = self.world.sites[send.to]
            assert isinstance(site, StepSite)
            hear = site.hear_ready if isinstance(send.message, m.ReadyAsk) else site.hear
            self.world.carry(hear, send.message)


class StepWorld(StartWorld):
    site_type = StepSite
    replica_type = StepReplica

    def begins(self, rid: str, site: str) -> None:
        self.begun[rid].append(site)
        self.alive[rid].add(site)

    def check(self) -> str:
        """Return what is wrong, or ""."""
        for rid, record in ((each.rid, each) for each in self._told):
            begun = self.begun[rid]
            if len(set(begun)) < len(begun):
                return f"{rid} has begun twice: {begun}"
            if begun and len(begun) < len(record.chosen):
                return f"{rid} has begun at {begun} alone, of {[*record.chosen]}"
            ended = all(rid in self.sites[site].ended for site in record.chosen)
            if not ended:
                return f"{rid} waits for ever"
            self.tallies["whole" if begun else "given up"] += 1
        return ""

    def _copy(self) -> None:
        """The register is never put back to a copy: it has to know what it has written down."""

    def _place(self, job: str) -> None:
        sites = self.random.sample(SITES, self.random.choice((2, 2, 3)))
        rid = request_id(self.now.wall_ms, next(self._order))
        start_s = WALL_MS // 1_000
        wants = tuple(m.Want(f"{site}/box", start_s, start_s + SLOT_S, 1) for site in sites)
        record = r.Record(
            rid=rid, user="anna", key=rid, digest="d", stamp=1, owner="red", reservation=rid,
            created_ms=WALL_MS, spec=r.Spec(request=REQUEST), wants=wants,
            chosen=dict.fromkeys(sites, (1,)),
            job=r.JobFacts(machines=tuple(want.resource for want in wants)),
        )  # fmt: skip
        commit = r.Commit(rid, 1, "", r.encode_record(record))
        request_writes.apply(self.connection, [r.Begin(record), commit])
        record.state = "commit"
        self.jobs[rid], self.kinds[job] = rid, "once"
        self._told.append(record)
        for name in sites:
            self.names[self.credentials.secret(record, name)] = name
            self._repeat(self.sites[name], partial(self.sites[name].lock, record))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally: Counter[str] = Counter(wrong=0)
    while tally["schedules"] < options.schedules:
        count = min(TOLD_EVERY, options.schedules - tally["schedules"])
        more, wrong = soak(count, options.seed, StepWorld, first=tally["schedules"])
        tally.update(more, wrong=len(wrong))
        print(*wrong, json.dumps(tally), sep="\n", flush=True)
    return 1 if tally["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
