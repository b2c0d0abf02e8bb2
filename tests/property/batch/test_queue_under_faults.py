"""Whatever dies when: no node is used twice, nothing begins twice, nothing accepted is lost."""

from __future__ import annotations

import contextlib

import erring_policies
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace
from tests import effort

from kalends.batch.queue import facts as f
from kalends.batch.queue.offers import PlaceOffers
from kalends.core.errors import Conflict, KalendsError
from kalends.core.jobs import After, Dependency, JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.registry import looks_at_priorities

from .machine_hall import Hall

NODES = 6
USERS = st.sampled_from([Principal("ann"), Principal("bob")])
ENDINGS = st.sampled_from(
    [
        f.JobEnding(kind="exit"),
        f.JobEnding(kind="exit", status=3),
        f.JobEnding(kind="limit", status=-9),
    ]
)


RESERVATIONS = [f"0190a000-0000-7000-8000-{number:012}" for number in range(4)]
"""The first two are Ann's, the others Bob's."""


def owner_of(reservation: str) -> str:
    return "ann" if reservation in RESERVATIONS[:2] else "bob"


@st.composite
def requests(draw: st.DrawFn) -> JobRequest:
    after = draw(st.lists(st.integers(1, 8), max_size=2, unique=True))
    happened: st.SearchStrategy[Dependency] = st.sampled_from(
        ["started", "ended", "succeeded", "failed"]
    )
    sizes = draw(st.sampled_from([(), (), (1, 2, 4), (2, NODES)]))
    limits_s = draw(st.sampled_from([(), (60, 40, 30)[: len(sizes)]]))
    return JobRequest(
        machine="lab/box",
        nodes=sizes[0] if sizes else draw(st.integers(1, NODES)),
        sizes=sizes,
        malleable=bool(sizes) and draw(st.booleans()),
        limit_s=60 if limits_s else draw(st.integers(1, 40)),
        limits_s=limits_s,
        command=("true",),
        indices=draw(st.sampled_from([(), (), (), (3, 4)])),
        after=tuple(After(job=number, happened=draw(happened)) for number in after),
        held=draw(st.integers(0, 9)) == 0,
        rerun=draw(st.booleans()),
        priority=draw(st.sampled_from(["", "", "high", "low"])),
        project=draw(st.sampled_from(["", "", "dna"])),
        not_before=draw(st.sampled_from([0, 0, 0, 1_030])),
    )


@st.composite
def requests_for_reservations(draw: st.DrawFn) -> JobRequest:
    return JobRequest(
        machine="lab/box",
        nodes=draw(st.integers(1, 3)),
        limit_s=draw(st.sampled_from([0, 0, 1, 5, 20])),
        reservation=RESERVATIONS[0],
        command=("true",),
        indices=draw(st.sampled_from([(), (), (3, 4)])),
        held=draw(st.integers(0, 9)) == 0,
        rerun=draw(st.booleans()),
    )


class QueueUnderFaults(RuleBasedStateMachine):
    policy = "easy"
    no_show_s = 0

    def __init__(self) -> None:
        super().__init__()
        erring_policies.CHANCE.seed(14)
        self.hall = Hall(
            f.Terms(
                machine=f"pool:{NODES}",
                policy=self.policy,
                user=f.JobLimits(running=3, jobs=12, node_seconds=600),
                period_s=100,
                change_s=20,
                no_show_s=self.no_show_s,
                project=f.JobLimits(nodes=NODES),
                class_members={"high": ("everyone",)},
            )
        )
        self.keys = 0

    @rule(who=USERS, request=requests(), again=st.booleans())
    def submit(self, who: Principal, request: JobRequest, again: bool) -> None:
        self.keys += 1
        key = f"key-{self.keys:06}"
        if not looks_at_priorities(self.hall.queue.flow.policy):
            request = replace(request, priority="")
        try:
            first, count = self.hall.queue.submit(who, request, key, self.hall.now)
        except KalendsError:
            return
        if again:
            assert self.hall.queue.submit(who, request, key, self.hall.now) == (first, count)
        self.hall.answers += range(first, first + count)
        self.hall.gather()

    @rule(who=USERS, nodes=st.sampled_from([1, 2, 4]), limit_s=st.integers(40, 200))
    def submit_malleable(self, who: Principal, nodes: int, limit_s: int) -> None:
        request = JobRequest(
            machine="lab/box", nodes=nodes, sizes=(1, 2, 4), malleable=True, limit_s=limit_s,
            command=("true",),
        )  # fmt: skip
        self.submit(who=who, request=request, again=False)

    @rule(
        who=USERS,
        nodes=st.integers(1, NODES),
        limit_s=st.integers(1, 40),
        counted_s=st.integers(1, 8),
        rerun=st.booleans(),
        again=st.booleans(),
    )
    def offer(
        self, who: Principal, nodes: int, limit_s: int, counted_s: int, rerun: bool, again: bool
    ) -> None:
        hall = self.hall
        self.keys += 1
        key = f"key-{self.keys:06}"
        request = JobRequest(
            machine="lab/box", nodes=nodes, limit_s=limit_s, rerun=rerun, command=("true",)
        )
        try:
            number = PlaceOffers(hall.queue).offer(who, request, key, counted_s, hall.now)
        except KalendsError:
            return
        if again:
            assert PlaceOffers(hall.queue).offer(who, request, key, counted_s, hall.now) == number
        hall.answers.append(number)
        hall.gather()

    @precondition(lambda self: self.hall.offered())
    @rule(which=st.integers(0, 20), taken=st.sampled_from([True, True, False]))
    def somebody_decides(self, which: int, taken: bool) -> None:
        hall = self.hall
        offered = hall.offered()
        number = offered[which % len(offered)]
        if taken:
            PlaceOffers(hall.queue).take(number, hall.now)
        else:
            hall.queue.cancel(number, "another offer was taken", hall.now)
        hall.gather()

    @rule(rounds=st.integers(1, 3), by_s=st.sampled_from([1, 1, 1, 5]))
    def life_goes_on(self, rounds: int, by_s: int) -> None:
        """Nothing fails for a while; but no program answers."""
        hall = self.hall
        for _ in range(rounds):
            hall.flush()
            while hall.asked:
                hall.shepherd_begins(0)
            hall.look_at_all()
            hall.flush()
            self.time_passes(by_s=by_s)

    @precondition(lambda self: any(each.reservation for each in self.hall.claims.values()))
    @rule(which=st.integers(0, 20), request=requests_for_reservations())
    def submit_into_a_reservation(self, which: int, request: JobRequest) -> None:
        present = [each.reservation for each in self.hall.claims.values() if each.reservation]
        reservation = sorted(present)[which % len(present)]
        request = replace(request, reservation=reservation)
        self.submit(Principal(owner_of(reservation)), request, again=False)

    @rule(
        who=USERS,
        after_s=st.integers(0, 30),
        limit_s=st.integers(1, 20),
        nodes=st.integers(1, 4),
        rerun=st.booleans(),
    )
    def submit_with_a_fixed_start(
        self, who: Principal, after_s: int, limit_s: int, nodes: int, rerun: bool
    ) -> None:
        """The site has seen that there is room in the calendar."""
        at = max(self.hall.queue.last_s, self.hall.now) + after_s
        if self.has_room(f.NodeClaim(1, at, at + limit_s, nodes)):
            request = JobRequest(
                machine="lab/box",
                nodes=nodes,
                limit_s=limit_s,
                at=at,
                command=("true",),
                rerun=rerun,
            )
            self.submit(who, request, again=True)

    @rule(number=st.integers(1, 12), what=st.sampled_from(["hold", "release", "cancel"]))
    def say(self, number: int, what: str) -> None:
        queue, now = self.hall.queue, self.hall.now
        try:
            if what == "hold":
                queue.hold(number, "user", now)
            elif what == "release":
                queue.release(number, ["user", "dependency", "time"], now)
            else:
                queue.cancel(number, "ann said so", now)
        except KalendsError:
            pass
        self.hall.gather()

    @rule(
        node=st.integers(0, NODES - 1), what=st.sampled_from(["drain", "fail", "resume", "replan"])
    )
    def operate(self, node: int, what: str) -> None:
        queue, now = self.hall.queue, self.hall.now
        if what == "drain":
            queue.drain([node], "", now)
        elif what == "fail":
            queue.fail([node], "its fan", now)
        elif what == "replan":
            queue.replan(now)
        else:
            queue.resume([node], now)
        self.hall.gather()

    @rule()
    def policy_is_put_back(self) -> None:
        self.hall.queue.set_policy(self.policy, self.hall.now)
        self.hall.gather()

    @precondition(lambda self: self.policy.startswith("preemptive"))
    @rule(policy=st.sampled_from(["preemptive", "easy", "reconfigurable"]))
    def another_policy_decides(self, policy: str) -> None:
        self.hall.queue.set_policy(policy, self.hall.now)
        self.hall.gather()

    @rule(
        after_s=st.sampled_from([0, 0, 0, 3, 20, 60]),
        length_s=st.integers(5, 60),
        nodes=st.integers(1, NODES),
        reservation=st.sampled_from(["", *RESERVATIONS]),
    )
    def somebody_reserves(self, after_s: int, length_s: int, nodes: int, reservation: str) -> None:
        start = max(self.hall.queue.last_s, self.hall.now) + after_s
        claim = self.new_claim(start, start + length_s, nodes, reservation)
        if self.has_room(claim):
            self.hall.claim(claim)

    def new_claim(self, start: int, end: int, nodes: int, reservation: str) -> f.NodeClaim:
        self.keys += 1
        user = owner_of(reservation) if reservation else ""
        return f.NodeClaim(self.keys, start, end, nodes, reservation, user)

    def has_room(self, claim: f.NodeClaim, beside: int = 0) -> bool:
        others = [each for number, each in self.hall.booked().items() if number != beside]
        return all(
            claim.nodes + sum(each.nodes for each in others if each.start <= at < each.end) <= NODES
            for at in range(claim.start, claim.end)
        )

    @precondition(lambda self: self.hall.claims)
    @rule(which=st.integers(0, 20), reservation=st.sampled_from(RESERVATIONS))
    def somebody_locks(self, which: int, reservation: str) -> None:
        hall = self.hall
        booking = sorted(hall.claims)[which % len(hall.claims)]
        if not hall.claims[booking].reservation:
            user = owner_of(reservation)
            hall.replace(booking, replace(hall.claims[booking], reservation=reservation, user=user))

    @precondition(lambda self: any(each.reservation for each in self.hall.claims.values()))
    @rule(
        which=st.integers(0, 20),
        later_s=st.sampled_from([0, 0, 0, -5, 10]),
        length_s=st.integers(5, 60),
        nodes=st.integers(1, NODES),
    )
    def somebody_moves(self, which: int, later_s: int, length_s: int, nodes: int) -> None:
        hall = self.hall
        of_users = [number for number, each in hall.claims.items() if each.reservation]
        booking = sorted(of_users)[which % len(of_users)]
        before = hall.claims[booking]
        start = before.start + later_s
        end = max(start + length_s, hall.now + 1, hall.queue.last_s + 1)
        claim = self.new_claim(start, end, nodes, before.reservation)
        if self.has_room(claim, beside=booking):
            hall.replace(booking, claim)

    @precondition(lambda self: self.hall.claims)
    @rule(which=st.integers(0, 20))
    def somebody_cancels(self, which: int) -> None:
        claims = sorted(self.hall.claims)
        self.hall.unclaim(claims[which % len(claims)])

    @rule(by_s=st.integers(0, 30))
    def time_passes(self, by_s: int) -> None:
        self.hall.now += by_s
        self.hall.queue.advance(self.hall.now)
        flow = self.hall.queue.flow
        due_s = flow.open_changes.due_s(flow.terms.change_s)
        assert due_s is None or due_s > self.hall.now, "it may change for ever"
        self.hall.gather()

    @rule()
    def server_goes_on(self) -> None:
        self.hall.flush()

    @rule()
    def checkpoint_is_made(self) -> None:
        self.hall.make_checkpoint()

    @rule(entries=st.integers(0, 4), actions=st.integers(0, 4))
    def server_dies(self, entries: int, actions: int) -> None:
        self.hall.flush(entries, actions)
        self.hall.crash()

    @rule(which=st.integers(0, 20))
    def shepherd_begins(self, which: int) -> None:
        self.hall.shepherd_begins(which)

    @precondition(lambda self: self.hall.running())
    @rule(which=st.integers(0, 20), ending=ENDINGS)
    def program_ends(self, which: int, ending: f.JobEnding) -> None:
        running = self.hall.running()
        self.hall.program_ends(running[which % len(running)], ending)

    @precondition(lambda self: self.hall.asked_to_stop())
    @rule(
        which=st.integers(0, 20),
        can=st.sampled_from([True, True, True, False]),
        heard=st.booleans(),
    )
    def program_stands_still(self, which: int, can: bool, heard: bool) -> None:
        asked = self.hall.asked_to_stop()
        attempt = asked[which % len(asked)]
        self.hall.runs[attempt].stand(can=can)
        if heard:
            self.hall.look(attempt)

    @precondition(lambda self: self.hall.asked_to_change())
    @rule(which=st.integers(0, 20))
    def program_begins_to_change(self, which: int) -> None:
        asked = self.hall.asked_to_change()
        self.hall.program_begins_to_change(asked[which % len(asked)])

    @precondition(lambda self: self.hall.asked_to_change())
    @rule(
        which=st.integers(0, 20),
        ranks=st.sampled_from([None, None, None, None, 0, 5]),
        heard=st.booleans(),
    )
    def program_answers(self, which: int, ranks: int | None, heard: bool) -> None:
        asked = self.hall.asked_to_change()
        attempt = asked[which % len(asked)]
        self.hall.program_answers(attempt, ranks)
        if heard:
            self.hall.look(attempt)

    @precondition(lambda self: self.hall.running())
    @rule(which=st.integers(0, 20), nodes=st.integers(1, NODES))
    def program_wants(self, which: int, nodes: int) -> None:
        running = self.hall.running()
        with contextlib.suppress(Conflict):
            self.hall.queue.wanted(running[which % len(running)][0], nodes, self.hall.now)
        self.hall.gather()

    @precondition(lambda self: self.hall.running())
    @rule(which=st.integers(0, 20))
    def shepherd_dies(self, which: int) -> None:
        running = self.hall.running()
        self.hall.shepherd_dies(running[which % len(running)])

    @rule()
    def server_looks(self) -> None:
        self.hall.look_at_all()

    @invariant()
    def promises_are_kept(self) -> None:
        self.hall.check()

    def teardown(self) -> None:
        """Whatever has happened: with time, nodes and a server that lives, every job is over."""
        hall = self.hall
        hall.queue.resume(range(NODES), hall.now)
        hall.gather()
        for _ in range(400):
            hall.flush()
            for job in list(hall.queue.flow.table):
                hall.queue.release(job.number, ["user", "time"], hall.now)
            for number in hall.offered():
                PlaceOffers(hall.queue).take(number, hall.now)
            hall.gather()
            hall.flush()
            while hall.asked:
                hall.shepherd_begins(0)
            for attempt in hall.asked_to_stop():
                hall.runs[attempt].stand(can=True)
            for attempt in hall.running()[:1]:
                hall.program_ends(attempt, f.JobEnding(kind="exit"))
            hall.look_at_all()
            hall.check()
            hall.now += 60
            hall.queue.advance(hall.now)
            hall.gather()
            if not hall.queue.flow.table.jobs and not hall.unstored:
                break
        assert not hall.queue.flow.table.jobs, list(hall.queue.flow.table)


def machine_under(policy: str) -> type[QueueUnderFaults]:
    return type(f"Under_{policy}", (QueueUnderFaults,), {"policy": policy})


@pytest.mark.parametrize(
    "policy",
    [
        "fcfs", "easy", "conservative", "sjf-scan", "lazy", "adaptive", "reconfigurable", "preemptive",
        "preemptive:20",
    ],
)  # fmt: skip
def test_a_queue_keeps_its_promises_whatever_dies(policy: str) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine_under(policy),
        settings=settings(
            max_examples=effort.examples(100 if policy == "reconfigurable" else 30),
            stateful_step_count=40,
            deadline=None,
        ),
    )


@pytest.mark.parametrize("policy", ["easy", "conservative", "ffdh"])
def test_the_same_holds_where_nodes_of_unused_reservations_go_back(policy: str) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    class GivesBack(QueueUnderFaults):
        no_show_s = 8

        @invariant()
        def nobody_waits_for_what_is_not_used(self) -> None:
            """A slot that began long ago is used, or somebody's job is there, or the queue has its nodes."""
            flow = self.hall.queue.flow
            due_s = flow.no_shows.next_due_s(self.no_show_s, 0)
            assert due_s is None or due_s > self.hall.queue.last_s

    GivesBack.policy = policy
    run_state_machine_as_test(
        GivesBack,
        settings=settings(max_examples=effort.examples(30), stateful_step_count=40, deadline=None),
    )


@pytest.mark.parametrize("name", [*erring_policies.RIGHT, *erring_policies.WRONG])
def test_the_same_holds_under_a_policy_of_the_owners_own_whether_it_errs_or_not(name: str) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine_under(f"{erring_policies.__name__}:{name}"),
        settings=settings(max_examples=40, stateful_step_count=40, deadline=None),
    )
