"""Parts of jobs in step start when all have come, whatever is lost, repeated, reordered, or forgotten.

The slow twin is a set of those who have ever asked.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
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
    for site in SITES:
        count = sum(machine.startswith(f"{site}/") for machine in machines)
        if count:
            held = tuple(m.HeldSlot(index, 10 + index) for index in range(count))
            broker.receive(site, m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=held))
            broker.receive(site, m.Done(rid=rid, att=1, of="commit"))
    broker.sent()
    return rid


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
