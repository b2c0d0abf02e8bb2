"""Parts of jobs in step start when all have come, and give back their slots when all have ended.

Whatever is lost, repeated, reordered, or forgotten. The slow twin is a set of those who have
ever asked, or have said so to this broker.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.protocol_broker import SITES, START, Broker
from tests.protocol_support import secret_of

from kalends.contract import messages as m
from kalends.core.jobs import JobRequest
from kalends.core.steps import Step, StepPart

MACHINES = ("here/one", "here/two", "there/one", "there/two")
JOB = JobRequest(machine="", limit_s=60, command=("true",))

Happening = tuple[str, int, int]
"""What happens, with which machine, and which of its attempts: each has other hosts."""

HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(
            ["asks", "asks", "asks", "answers", "answers", "gives up", "time passes",
             "the broker dies", "is cancelled"]
        ),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=30,
)  # fmt: skip


def committed(broker: Broker, machines: tuple[str, ...]) -> str:
    wants = tuple(m.Want(machine, START, START + 60, 1) for machine in machines)
    rid = broker.submit(wants=wants, step=Step(job=JOB))
    answer(broker, rid, machines)
    return rid


def answer(broker: Broker, rid: str, machines: tuple[str, ...]) -> None:
    """Let all sites promise, and lock, what is asked of them."""
    counts = {site: sum(each.startswith(f"{site}/") for each in machines) for site in SITES}
    asked = [site for site in SITES if counts[site]]
    for site in asked:
        held = tuple(m.HeldSlot(index, 10 + index) for index in range(counts[site]))
        broker.receive(site, m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=held))
    for site in asked:
        broker.receive(site, m.Done(rid=rid, att=1, of="commit"))
    broker.sent()


class Hosts:
    """The sites of the parts of one job, and what they were told: the slow twin of the gate.

    `come` are the parts that each machine has shown last, `questions` the last one that its site has heard.
    """

    def __init__(self, machines: tuple[str, ...]) -> None:
        self.broker = Broker()
        self.machines = machines
        self.rid = committed(self.broker, machines)
        self.come: dict[str, StepPart] = {}
        self.questions: dict[str, int] = {}
        self.starts: set[tuple[StepPart, ...]] = set()
        self.over: set[str] = set()

    def ask(self, machine: str, *, question: int = 0, gives_up: bool = False) -> None:
        site = machine.partition("/")[0]
        parts = tuple(part for name, part in self.come.items() if name.startswith(f"{site}/"))
        asked = m.StartAsk(
            rid=self.rid, att=1, site=site, secret=secret_of(self.rid, site), parts=parts,
            question=question, gives_up=gives_up,
        )  # fmt: skip
        self.broker.receive(site, asked)
        self.hear()

    def hear(self) -> None:
        for to, said in self.broker.sent():
            if isinstance(said, m.ReadyAsk):
                self.questions[to] = said.question
            elif not isinstance(said, m.StartSays):
                continue
            elif said.says == "start":
                self.starts.add(said.parts)
            else:
                self.over.add(to)


@given(
    machines=st.permutations(MACHINES).flatmap(
        lambda each: st.integers(1, 4).map(lambda count: tuple(each[:count]))
    ),
    happenings=HAPPENINGS,
)
def test_all_start_at_one_word_or_none_does_whatever_is_lost_or_comes_in_which_order(
    machines: tuple[str, ...], happenings: list[Happening]
) -> None:
    hosts = Hosts(machines)
    cancelled = gave_up = False
    for number, (what, which, attempt) in enumerate(happenings):
        machine = machines[which % len(machines)]
        site = machine.partition("/")[0]
        started = bool(hosts.starts)
        match what:
            case "the broker dies":
                hosts.broker = Broker(
                    hosts.broker.register, name="bcdefghijklmnopqrstuvwxyzabcdefg"[number],
                    ms=hosts.broker.ms,
                )  # fmt: skip
                hosts.hear()
            case "time passes":
                hosts.broker.advance(1_500)
            case "is cancelled" if not cancelled:
                hosts.broker.cancel(hosts.rid, 99)
                cancelled = True
                hosts.hear()
            case "asks":
                hosts.come[machine] = StepPart(machine, which + 1, (f"host-{attempt}",))
                hosts.ask(machine)
            case "answers" if site in hosts.questions:
                hosts.ask(machine, question=hosts.questions.pop(site))
            case "gives up" if machine in hosts.come:
                hosts.ask(machine, gives_up=True)
                gave_up = gave_up or not started
                assert cancelled or bool(hosts.starts) == started
        if (cancelled or gave_up) and not started:
            assert not hosts.starts, "nothing starts after one has given up"
    assert len(hosts.starts) <= 1
    for parts in hosts.starts:
        assert tuple(part.machine for part in parts) == machines
        assert hosts.come.keys() == set(machines)
        assert cancelled or not hosts.over


@given(machines=st.permutations(MACHINES), delays=st.lists(st.integers(0, 40_000), max_size=6))
def test_whoever_comes_late_all_start_once_all_have_come_and_answer(
    machines: list[str], delays: list[int]
) -> None:
    hosts = Hosts(tuple(machines))
    for number, machine in enumerate(machines):
        hosts.come[machine] = StepPart(machine, number + 1, ("host",))
        hosts.ask(machine)
        assert not hosts.starts
    for delay_ms in delays:
        hosts.broker.advance(delay_ms)
        hosts.ask(machines[0])
    for _ in range(2):  # What was asked before may be too old.
        for site, question in sorted(hosts.questions.items()):
            hosts.ask(f"{site}/one", question=question)
    assert hosts.starts


ENDINGS = st.lists(
    st.tuples(
        st.sampled_from(["ends", "ends", "ends", "is used again", "the broker dies", "is moved"]),
        st.integers(0, 3),
        st.integers(-50, 50),
    ),
    max_size=20,
)


@given(
    machines=st.permutations(MACHINES).flatmap(
        lambda each: st.integers(1, 4).map(lambda count: tuple(each[:count]))
    ),
    happenings=ENDINGS,
)
def test_the_slots_of_all_are_given_back_by_the_word_of_the_last_part_and_by_no_other(
    machines: tuple[str, ...], happenings: list[Happening]
) -> None:
    broker = Broker()
    rid = first = committed(broker, machines)
    ended: dict[str, int] = {}
    for number, (what, which, at) in enumerate(happenings):
        if what == "the broker dies":
            broker = Broker(broker.register, name="bcdefghijklmnopqrstuvw"[number])
            ended = {}
        elif what == "is moved":
            rid, ended = moved(broker, rid, number), {}
        elif which < len(machines):
            machine = machines[which]
            news = m.PartNews(rid=rid, att=1, machine=machine, job=which + 1)
            if what == "ends":
                ended[machine] = min(broker.now.wall_s + at, broker.now.wall_s)
                news = replace(news, ended_at=broker.now.wall_s + at)
            else:
                ended.pop(machine, None)
            broker.receive(machine.partition("/")[0], news)
        broker.sent()
        row = broker.row(rid)
        all_have = ended.keys() == set(machines)
        assert (row.state == "cancelled") == all_have
        assert row.job.parts_ended_at == (max(ended.values()) if all_have else 0)
        if all_have:
            break
    assert rid == first or broker.row(first).state == "replaced"


def moved(broker: Broker, rid: str, number: int) -> str:
    """Let the user move the reservation, and return the request that has it now."""
    wants = tuple(
        replace(want, start=want.start + 60, end=want.end + 60) for want in broker.row(rid).wants
    )
    changed = broker.submit(
        2, key=f"the-key-of-move-{number}", wants=wants, replaces=broker.row(rid)
    )
    answer(broker, changed, tuple(want.resource for want in wants))
    return changed
