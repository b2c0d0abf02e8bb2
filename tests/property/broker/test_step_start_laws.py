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
        st.sampled_from(["asks", "asks", "asks", "the broker dies", "is cancelled"]),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=20,
)


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


@given(
    machines=st.permutations(MACHINES).flatmap(
        lambda each: st.integers(1, 4).map(lambda count: tuple(each[:count]))
    ),
    happenings=HAPPENINGS,
)
def test_nothing_starts_before_all_have_asked_and_all_are_told_the_same_for_ever(
    machines: tuple[str, ...], happenings: list[Happening]
) -> None:
    broker = Broker()
    rid = committed(broker, machines)
    asked: set[str] = set()
    remembered: dict[str, StepPart] = {}
    told: set[tuple[StepPart, ...]] = set()
    cancelled = False
    for number, (what, which, attempt) in enumerate(happenings):
        if what == "the broker dies":
            broker = Broker(broker.register, name="bcdefghijklmnopqrstuvw"[number])
            remembered = {}
            broker.sent()
        elif what == "is cancelled" and not cancelled:
            broker.cancel(rid, 99)
            cancelled = True
            broker.sent()
        elif what == "asks" and which < len(machines):
            machine = machines[which]
            site = machine.partition("/")[0]
            part = StepPart(machine, which + 1, (f"host-{attempt}",))
            asked.add(machine)
            remembered[machine] = part
            broker.receive(
                site,
                m.StartAsk(
                    rid=rid, att=1, site=site, secret=secret_of(rid, site), parts=(part,)
                ),
            )  # fmt: skip
            said = {to: each for to, each in broker.sent() if isinstance(each, m.StartSays)}
            if cancelled:
                assert {to: each.says for to, each in said.items()} == {site: "over"}
            elif told or remembered.keys() == set(machines):
                assert said.keys() == {each.partition("/")[0] for each in machines}
                told |= {each.parts for each in said.values()}
            else:
                assert not said
    assert not told or asked == set(machines)
    assert len(told) <= 1
    for parts in told:
        assert tuple(part.machine for part in parts) == machines
    assert bool(broker.row(rid).started) == bool(told)


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
        assert row.parts_ended_at == (max(ended.values()) if all_have else 0)
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
