"""Writes of every kind on a small register, for Hypothesis to choose among."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from hypothesis import strategies as st
from msgspec import structs

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Spec, encode_record
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register import writes as w
from kalends.contract.calls import PlacedEnd, PlacedJob
from kalends.contract.messages import Mark, Want
from kalends.contract.notice_calls import ChangeByOthers
from kalends.core.clock import ASTRAY_MS
from kalends.core.errors import Problem
from kalends.core.identifiers import request_id
from kalends.core.jobs import JobRequest
from kalends.core.requests import Alternative, Request, Term
from kalends.core.steps import StepPart
from kalends.notices.delivery import DeliveriesDone, Delivery
from kalends.notices.request_notice import RequestNotice

T0: Final = 1_800_000_000
REQUEST: Final = Request(
    alternatives=(Alternative(terms=(Term(resource="east/m"),)),), duration_s=60, not_before=T0
)
RIDS: Final = tuple(request_id(T0 * 1_000 + number, number) for number in range(8))
KINDS: Final = ("job", "job", "job", "step", "step", "slots", "slots", "job")
FIRST: Final = (0, 0, 0, 3, 3, 5, 5, 7)
"""Of each rid, by their numbers: the request that it is, or is a change of. The last is another user's."""
KEYS: Final = (
    ("the-key",),
    ("elsewhere job 1", "elsewhere job 2"),
    ("elsewhere job 1", "elsewhere job 3"),
    ("of-a-step",),
    ("the-key", "another"),
    ("of-slots",),
    ("another", "elsewhere job 1"),
    ("the-key",),
)
USERS: Final = ("anna", 'b\'ért "%_\\" Ö')
OWNERS: Final = ("npaci-1:1", "npaci-1:2", "npaci-11:1", "npaci-2:1")
SITES: Final = ("east", "west")
PLACES: Final = ((), ("east",), ("east", "west"))
MACHINES: Final = ("east/m", "west/m")
SCRIPTS: Final = {letter * 64: f"source {letter}" for letter in "ab"}
LIVES: Final = ("1" * 32, "2" * 32)
NEVER: Final = 999
"""The number of no notice."""
MOVED: Final = ChangeByOthers(
    made="placed-elsewhere", by="east", at=T0, reason="its site is silent"
)
LOST: Final = Problem(type="t", title="t", status=503, detail="d", code="unavailable")
JOBS: Final = tuple(
    r.Placement(
        JobRequest(
            machine="", limit_s=60, command=("true",), rerun=rerun, at_most_once=at_most_once
        )
    )
    for rerun, at_most_once in ((True, False), (True, True), (False, True))
)


def user_of(rid: str) -> str:
    return USERS[rid == RIDS[-1]]


class Maker:
    """Makes writes by chance."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def any(self, *of: Any) -> Any:
        return self.random.choice(of)

    @property
    def mostly(self) -> bool:
        """What is refused at once shows little."""
        return self.random.random() < 0.8

    def record(self, rid: str) -> Record:
        """A record of `rid`: its user, kind and reservation are always the same, and all else differs."""
        number = RIDS.index(rid)
        kind, first = KINDS[number], RIDS[FIRST[number]]
        in_step = MACHINES if kind == "step" else ()
        placed = PlacedJob(machine="east/m", number=1) if kind == "job" else None
        family = [each for each, of in zip(RIDS, FIRST, strict=True) if of == FIRST[number]]
        return Record(
            rid=rid,
            user=user_of(rid),
            key=self.any(*KEYS[number]),
            digest="d",
            stamp=1,
            owner=self.any(*OWNERS),
            reservation=first,
            created_ms=T0 * 1_000,
            spec=Spec(
                request=REQUEST,
                script=self.any(*SCRIPTS, ""),
                what=self.job() if kind == "job" else None,
                by_others=self.any(None, MOVED),
            ),
            wants=tuple(Want(machine, T0, T0 + 60, 2) for machine in in_step or ("east/m",)),
            chosen=dict.fromkeys(self.any(*PLACES[1:]), (1,)),
            replaces=self.any(first, *family) if rid != first and self.mostly else "",
            changes=self.any(0, 1, 2),
            job=r.JobFacts(placed=placed, machines=in_step),
        )

    def job(self) -> r.Placement:
        job: r.Placement = self.any(*JOBS)
        return structs.replace(job, elsewhere=self.any((), SITES[:1]))

    def rid(self) -> str:
        return str(self.any(*RIDS[:5], *RIDS))

    def notices(self, rid: str) -> tuple[RequestNotice, ...]:
        user, occasion = user_of(rid), self.any("moved", "not-placed", None)
        id = f"{user}-{self.any(*range(9))}"
        return (RequestNotice(id=id, user=user, occasion=occasion, at_s=1),) if occasion else ()

    def booking(self) -> list[w.Write]:
        """A request that is committed, perhaps in place of another, and some of what comes afterwards."""
        rid = self.rid()
        record, kind = self.record(rid), KINDS[RIDS.index(rid)]
        is_job = kind == "job"
        commit = r.Commit(
            rid, 1, record.replaces, encode_record(record), places=tuple(record.chosen) if is_job else (),
            elsewhere=is_job, running=self.mostly, again=self.mostly, begins=record.begins,
            notices=self.notices(rid),
        )  # fmt: skip
        begin = r.Begin(record, SCRIPTS.get(record.spec.script, ""))
        after = [self.later(rid) for _ in range(self.any(*range(4)))]
        finish = [r.Finish(rid, "commit")] if not is_job else []
        return [begin, commit, *finish, *after]

    def series(self) -> list[w.Write]:
        """Two requests that are committed together, if both are open; mostly they have just begun.

        Some replace others, and sometimes a third one is moved with them.
        """
        *rids, third = self.random.sample(RIDS, 3)
        changes = self.any(False, True)
        records = [self.record(rid) for rid in rids]
        commits = tuple(
            r.Commit(
                each.rid, 1, each.replaces if changes else "", encode_record(each),
                begins=each.begins,
                notices=self.notices(each.rid),
            )
            for each in records
        )  # fmt: skip
        moved = self.record(third)
        raised = (
            (r.Raise(third, 1, moved.owner, encode_record(moved)),) if self.any(0, 0, 1) else ()
        )
        begun = [r.Begin(each) for each in (*records, moved) if self.mostly]
        return [*begun, r.CommitSeries(rids[0], commits, raised)]

    def later(self, rid: str) -> r.Operation:
        """An operation on a request that is committed."""
        site, machines = (
            self.any("east", "east", "west"),
            self.any(MACHINES, MACHINES, MACHINES[:1]),
        )
        sure, certain = self.mostly, self.mostly
        ending = PlacedEnd(
            at=T0 + self.any(-99, 0, 60),
            end=self.any("exit", "limit", "killed", "not-started"),
            ran_s=self.any(0, 60, 600),
        )
        parts = tuple(StepPart(machine, 1) for machine in machines)
        begins_ms = (T0 + self.any(5, 5, 90)) * 1_000
        lack = r.NodesLack(self.any(*range(1, 9)), self.any(*range(4)), T0)
        kinds: tuple[r.Operation, ...] = (
            r.Permit(rid, 1, site, "site", sure, self.any(*PLACES), certain),
            r.NoteEnd(rid, 1, site, ending, "site"),
            r.Assemble(rid, 1, site, "site", parts, sure, begins_ms, certain),
            r.GiveUp(rid, 1, site, "site", sure, certain),
            r.NoteBegan(rid, self.any(*MACHINES), T0),
            r.NoteNodes(rid, 1, site, "east/m", lack, "site"),
        )
        return self.random.choices(kinds, (4, 4, 3, 1, 2, 2))[0]

    def operation(self) -> r.Operation:
        rid, att = self.rid(), self.any(1, 1, 1, 2)
        owner, body, told = self.any(*OWNERS), encode_record(self.record(rid)), self.notices(rid)
        script = self.any(*SCRIPTS, "")
        source = SCRIPTS.get(script, "")
        record, forgotten = self.record(rid), self.record(rid)
        forgotten.state, forgotten.done = self.any("commit", "cancelled"), self.mostly
        places = tuple(record.chosen) if self.mostly else ()
        states: Any = ("commit", "cancelled", "replaced")
        kinds: tuple[r.Operation, ...] = (
            r.Begin(record, SCRIPTS.get(record.spec.script, "")),
            r.Note(rid, att, body, script=script, source=source, notices=told),
            r.Note(rid, att, b"\xc1 is no record"),
            r.Raise(rid, att, owner, body),
            r.Commit(
                rid, att, self.any(record.replaces, ""), encode_record(record), places=places,
                elsewhere=self.mostly, running=self.mostly, again=self.mostly, begins=self.any(0, T0),
                notices=told,
                heir=None if self.mostly else r.Heir(self.rid(), self.any(*USERS), "given", att),
            ),
            r.Close(rid, att, body, notices=told),
            r.Cancel(rid, owner, body, notices=told),
            r.Finish(rid, self.any(*states)),
            r.Adopt(rid, self.any(*states), owner),
            r.Read(rid),
            r.Examine(rid, owner=owner, taken_from=self.any("", *OWNERS)),
            r.Ask(
                rid, att, "s" * 16, "site", "east", proved=self.mostly, certain=self.mostly
            ),
            r.Recover(forgotten),
        )  # fmt: skip
        return self.random.choices(kinds, (3, 2, 0.3, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1))[0]

    def other(self) -> w.Write:
        """A write that is about no request."""
        user, owner, few = self.any(*USERS), self.any(*OWNERS), self.any(*range(4))
        script, name = self.any(*SCRIPTS), self.any("mine", "Other", "étage")
        receiver, id = self.any("", "Z@example.org", "é@example.org"), self.any("one", "two")
        named = w.Named(name, script, 8, ("choose",), few)
        address = w.NoticeAddress(user, receiver, "UTC", few, b"s", self.any(0, 3_600, 7_200), few)
        rid = self.any(*RIDS)
        reminder = RequestNotice(id=f"{rid}-{few}", user=user, occasion="begins", at_s=few)
        feed = w.Feed(user, name, f"{user} {name} {few}", few)
        share = self.share(few)
        delivery = Delivery(
            id=id, user=user, to="a@b.c", subject="s", text=str(few), facts={}, made_s=1
        )
        numbers = tuple(self.random.sample((*range(1, 9), NEVER), self.any(1, 1, 2)))
        live = Live(self.any(*LIVES), few)
        told = RequestNotice(id=f"{user}-{few}", user=user, occasion="moved", at_s=1)
        listed = w.ListedSite(
            self.any(*SITES), self.any("", "key", "another"), self.any("http://a", "http://b"), "", True, few,
            self.any("announced", "joined", "leaving"), few, user, self.any(0, 1),
        )  # fmt: skip
        waits = listed._replace(state="announced", until=0)
        kinds: tuple[w.Write, ...] = (
            w.KeepCard(waits),
            w.JoinSite(listed._replace(state="joined", until=0)),
            w.LeaveSite(listed._replace(state="leaving")),
            w.UnlistSite(listed.name, listed.key, self.any("announced", "leaving"), listed.until),
            r.Remember(self.any(*SITES), Mark(self.any(*LIVES), few, self.any("p", "q"))),
            live,
            w.LeaseRenewal(owner, self.any(0, 1, ASTRAY_MS + 1, ASTRAY_MS + 2)),
            w.Retire(self.any("npaci-1", "npaci-2"), owner),
            w.Resign(owner),
            w.ForgetSettled(tuple(self.random.sample(RIDS, self.any(1, 2)))),
            w.KeepScript(user, named, SCRIPTS[script], 2),
            w.ForgetScript(user, self.any(name, script)),
            w.KeepAddress(address, 2),
            w.Remind(address, few + 1, ((rid, reminder),)),
            w.ForgetAddress(user, receiver),
            w.KeepFeed(feed, 2),
            w.ForgetFeed(user, name),
            w.KeepShare(share, 2),
            w.ForgetShare(share.reservation, share.party),
            w.PostNotice(told),
            w.MakeDeliveries(numbers, (delivery,)),
            DeliveriesDone((id,)),
            w.PutBack(),
            w.MadeGood((live,), LOST),
        )
        return self.random.choices(
            kinds, (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 2, 3, 3, 1, 2, 1, 3, 1, 2, 3, 1, 0.3, 0.9)
        )[0]

    def share(self, few: int) -> w.ShareRow:
        party, may = self.any(
            ("user:{}", "look"), ("group:{}", "change"), ("heir:{}", "take"), ("link:{}", "read")
        )
        who = self.any(*USERS)
        return w.ShareRow(self.rid(), party.format(who), may, "given", few, few)

    def story(self) -> list[w.Write]:
        kinds = ("booking", "operation", "later", "other", "series")
        kind = self.random.choices(kinds, (3, 3, 2, 3, 1))[0]
        if kind == "booking":
            return self.booking()
        if kind == "series":
            return self.series()
        if kind == "later":
            return [self.later(self.rid())]
        return [self.operation() if kind == "operation" else self.other()]


def _batch(seed: int) -> list[w.Write]:
    maker = Maker(Random(seed))
    return [write for _ in range(maker.any(*range(1, 7))) for write in maker.story()]


# Hypothesis draws a number for each: drawn one by one, the parts of a few writes would be all that it draws.
batches: Final = st.integers(0, 2**40).map(_batch)


def foreseen(writes: list[w.Write], posted: int) -> list[w.Write]:
    """Leave out deliveries of notices whose numbers nobody can know: so many notices are `posted`."""
    return [
        each
        for each in writes
        if not isinstance(each, w.MakeDeliveries)
        or all(number <= posted or number == NEVER for number in each.numbers)
    ]
