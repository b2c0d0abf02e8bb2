"""Jobs in step at a broker: no part starts before all have come; all end when one fails, or with the last."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.protocol_broker import SITES, START, WANTS, Broker
from tests.protocol_support import DAY, T0, secret_of

from kalends.broker.coordination.record.views import view_of
from kalends.broker.jobs.parts.step_starts import AHEAD_MS, READY_MS
from kalends.broker.jobs.parts.wing import JobParts
from kalends.contract import messages as m
from kalends.core.jobs import JobRequest
from kalends.core.steps import Step, StepPart

JOB = JobRequest(machine="", limit_s=60, command=("true",))
STEP = Step(job=JOB)
PARTS = tuple(
    StepPart(f"{site}/one", number, (f"host-of-{site}",)) for number, site in enumerate(SITES, 4)
)


Said = list[tuple[str, m.StartSays | m.ReadyAsk]]


def reserved(broker: Broker, step: Step = STEP) -> str:
    rid = broker.submit(step=step)
    broker.visited(rid)
    broker.done(rid)
    broker.sent()
    return rid


@pytest.fixture
def rid(broker: Broker) -> str:
    return reserved(broker)


def say(broker: Broker, rid: str, number: int, **fields: object) -> Said:
    """Let the site of this part ask; return who is told what."""
    site = SITES[number]
    asked = m.StartAsk(
        rid=rid, att=1, site=site, secret=secret_of(rid, site), parts=(PARTS[number],)
    )
    broker.receive(site, replace(asked, **fields))  # type: ignore[arg-type]  # fields of a message
    return [(to, each) for to, each in broker.sent() if isinstance(each, m.StartSays | m.ReadyAsk)]


def questions(said: Said) -> dict[str, int]:
    """The sites that are asked whether they are ready."""
    return {to: each.question for to, each in said if isinstance(each, m.ReadyAsk)}


def starts(said: Said) -> list[tuple[str, m.StartSays]]:
    return [(to, each) for to, each in said if isinstance(each, m.StartSays)]


def ask(broker: Broker, rid: str, number: int, *, att: int = 1, secret: str = "") -> list[str]:
    """The part of this number has its nodes, and all asked are ready; return who is told to start."""
    secret = secret or secret_of(rid, SITES[number])
    said = say(broker, rid, number, att=att, secret=secret)
    for site, question in questions(said).items():
        said += say(broker, rid, SITES.index(site), question=question)
    told = starts(said)
    assert all(each.parts == PARTS for _, each in told if each.says == "start")
    return [to if each.says == "start" else f"{to}: {each.says}" for to, each in told]


def news(rid: str, number: int, **fields: object) -> m.PartNews:
    part = PARTS[number]
    told = m.PartNews(rid=rid, att=1, machine=part.machine, job=part.job)
    return replace(told, **fields)  # type: ignore[arg-type]  # fields of a message


def test_each_site_is_asked_with_what_is_to_run_there(broker: Broker) -> None:
    other = replace(JOB, command=("show",))
    broker.submit(step=Step(job=JOB, jobs={"there/one": other}))
    visits = {to: each.jobs for to, each in broker.sent() if isinstance(each, m.Visit)}
    assert visits == {"here": {"here/one": JOB}, "there": {"there/one": other}}


def test_where_nothing_is_to_run_there_is_no_part(broker: Broker) -> None:
    rid = reserved(broker, Step(jobs={"there/one": JOB}))
    assert broker.row(rid).job.machines == ("there/one",)


def test_all_parts_are_told_to_start_when_the_last_has_its_nodes(broker: Broker, rid: str) -> None:
    assert ask(broker, rid, 1) == []
    assert ask(broker, rid, 1) == [], "said again"
    assert ask(broker, rid, 0) == ["here", "there"]
    assert "there" in ask(broker, rid, 1), "who has not heard it asks again"


def test_what_was_decided_outlives_the_broker(broker: Broker, rid: str) -> None:
    ask(broker, rid, 0)
    again = Broker(broker.register, name="b")
    again.sent()
    assert ask(again, rid, 1) == [], "what others have said to it before is not known any more"
    assert ask(again, rid, 0) == ["here", "there"]
    third = Broker(broker.register, name="c")
    third.sent()
    assert ask(third, rid, 1) == ["here", "there"]


def test_who_is_not_the_site_or_speaks_for_another_or_of_an_older_attempt_starts_nothing() -> None:
    broker = Broker()
    rid = reserved(broker)
    ask(broker, rid, 0)
    assert ask(broker, rid, 1, secret="s" * 32) == []
    assert ask(broker, rid, 1, att=2) == []
    of_another = m.StartAsk(
        rid=rid, att=1, site="here", secret=secret_of(rid, "here"), parts=(PARTS[1],)
    )
    broker.receive("here", of_another)
    assert broker.sent() == []
    assert not broker.row(rid).job.started


def test_nothing_starts_once_it_is_cancelled(broker: Broker, rid: str) -> None:
    ask(broker, rid, 0)
    broker.cancel(rid, 2)
    broker.sent()
    assert ask(broker, rid, 1) == ["there: over"]


def test_a_part_that_is_cut_off_by_now_is_waited_for_and_none_starts_without_it() -> None:
    broker = Broker()
    rid = reserved(broker)
    say(broker, rid, 0)
    first = questions(say(broker, rid, 1))
    assert first.keys() == {"here", "there"}
    assert say(broker, rid, 1, question=first["there"]) == [], "here is silent"
    broker.advance(READY_MS)
    again = questions(say(broker, rid, 1))
    assert again.keys() == {"here", "there"}, "what was said before may be true no longer"
    assert questions(say(broker, rid, 0, question=first["here"])) == {"here": again["here"]}
    assert say(broker, rid, 0, question=again["here"]) == []
    assert not broker.row(rid).job.started
    told = starts(say(broker, rid, 1, question=again["there"]))
    assert [(to, each.says) for to, each in told] == [("here", "start"), ("there", "start")]


def test_answers_that_are_always_late_get_more_time(broker: Broker, rid: str) -> None:
    say(broker, rid, 0)
    asked = questions(say(broker, rid, 1))
    for _ in range(10):
        broker.advance(3 * READY_MS)
        told = say(broker, rid, 0, question=asked["here"])
        told += say(broker, rid, 1, question=asked["there"])
        if broker.row(rid).job.started:
            break
        asked = questions(told)
    assert broker.row(rid).job.started


def test_all_are_told_how_long_it_is_until_the_same_moment_whenever_they_ask() -> None:
    broker = Broker()
    rid = reserved(broker)
    say(broker, rid, 0)
    asked = questions(say(broker, rid, 1))
    say(broker, rid, 0, question=asked["here"])
    told = starts(say(broker, rid, 1, question=asked["there"]))
    assert {each.in_ms for _, each in told} == {AHEAD_MS}
    other = Broker(broker.register, name="b", ms=broker.ms + 1_000)
    other.sent()
    assert {each.in_ms for _, each in starts(say(other, rid, 0))} == {AHEAD_MS - 1_000}
    other.advance(AHEAD_MS)
    assert {each.in_ms for _, each in starts(say(other, rid, 0))} == {0}


def test_of_giving_up_and_starting_the_first_one_counts_for_ever(broker: Broker) -> None:
    for number, first in enumerate((True, False)):
        later = tuple(
            replace(want, start=START + 60 * number, end=START + 60 * number + 60) for want in WANTS
        )
        rid = broker.submit(number + 1, key=f"the-key-of-{number}", wants=later, step=STEP)
        broker.visited(rid)
        broker.done(rid)
        broker.sent()
        if first:
            assert ask(broker, rid, 0) == []
            gave_up = [(to, each.says) for to, each in starts(say(broker, rid, 0, gives_up=True))]
            assert gave_up == [("here", "over")]
            assert ask(broker, rid, 1) == ["there: over"], "whoever comes later does not start"
            assert ask(broker, rid, 0) == ["here: over"]
        else:
            ask(broker, rid, 0)
            assert ask(broker, rid, 1) == ["here", "there"]
            told = starts(say(broker, rid, 0, gives_up=True))
            assert [(to, each.says) for to, each in told] == [("here", "start"), ("there", "start")]
        assert broker.row(rid).state == "commit", "the site ends its part, and says so"


def test_who_is_not_the_site_gives_nothing_up(broker: Broker, rid: str) -> None:
    ask(broker, rid, 0)
    assert say(broker, rid, 1, gives_up=True, secret="s" * 32) == []
    assert say(broker, rid, 1, gives_up=True, att=2) == []
    assert ask(broker, rid, 1) == ["here", "there"]


def test_nothing_starts_when_the_slot_of_a_part_is_over_by_then(broker: Broker) -> None:
    short, long = WANTS[0], replace(WANTS[1], end=START + 600)
    rid = broker.submit(wants=(short, long), step=STEP)
    broker.visited(rid)
    broker.done(rid)
    broker.advance((DAY + 60) * 1_000 - AHEAD_MS)
    broker.sent()
    ask(broker, rid, 0)
    assert ask(broker, rid, 1) == ["there: over"]
    assert ask(broker, rid, 0) == ["here: over"]


def test_a_change_keeps_what_was_decided_of_the_start(broker: Broker, rid: str) -> None:
    ask(broker, rid, 0)
    ask(broker, rid, 1)
    longer = tuple(replace(want, end=START + 120) for want in WANTS)
    changed = broker.submit(2, key="the-other-key", wants=longer, replaces=broker.row(rid))
    broker.visited(changed)
    broker.done(changed)
    broker.sent()
    assert ask(broker, changed, 1) == ["here", "there"], "the other part runs already"


def test_when_each_part_began_is_written_down_once(broker: Broker, rid: str) -> None:
    ask(broker, rid, 0)
    ask(broker, rid, 1)
    for at in (T0 - 7, T0 - 5):
        broker.receive("there", news(rid, 1, began_at=at))
    heir = Broker(broker.register, name="b")
    heir.receive("there", news(rid, 1, began_at=T0 - 5))
    parts = heir.coordinator.wing(JobParts).steps.parts_of(heir.row(rid))
    assert [part.began_at for part in parts] == [0, T0 - 7]
    heir.sent()
    assert ask(heir, rid, 0) == ["here", "there"], "they are told as they were"


def test_its_user_sees_which_jobs_its_parts_are_and_where_they_run(broker: Broker) -> None:
    rid = reserved(broker)
    parts_of, all_known = (
        broker.coordinator.wing(JobParts).steps.parts_of,
        broker.coordinator.wing(JobParts).steps.all_known,
    )
    for number in (1, 0):
        assert not all_known(broker.row(rid))
        broker.receive(SITES[number], news(rid, number))
    assert all_known(broker.row(rid))
    assert parts_of(broker.row(rid)) == tuple(replace(part, hosts=()) for part in PARTS)
    ask(broker, rid, 0)
    ask(broker, rid, 1)
    assert parts_of(broker.row(rid)) == PARTS
    assert (
        Broker(broker.register, name="b").coordinator.wing(JobParts).steps.parts_of(broker.row(rid))
        == PARTS
    )


def test_a_part_that_fails_has_the_reservation_cancelled_with_the_reason(broker: Broker) -> None:
    rid = reserved(broker)
    broker.receive("there", news(rid, 1, failed=True, detail="exit 3"))
    assert broker.row(rid).state == "cancelled"
    assert [to for to, each in broker.sent() if isinstance(each, m.Cancel)] == ["here", "there"]
    assert broker.row(rid).trail[-1].detail == "there/one/5 exit 3"
    broker.receive("there", news(rid, 1, failed=True, detail="exit 3"))
    assert broker.alarms == []


def test_a_part_that_fails_before_its_reservation_is_confirmed_ends_it_as_well() -> None:
    broker = Broker()
    rid = broker.submit(step=STEP)
    broker.visited(rid)
    broker.receive("there", news(rid, 1, job=0, failed=True, detail="no account"))
    broker.done(rid)
    assert broker.row(rid).state == "cancelled"
    assert broker.row(rid).trail[-1].detail == "there/one no account"


def test_a_site_ends_only_what_it_has_a_part_of(broker: Broker) -> None:
    rid, plain = reserved(broker, Step(jobs={"there/one": JOB})), ""
    broker.receive("here", news(rid, 0, failed=True))
    broker.receive("here", news(rid, 1, failed=True))
    assert broker.alarms == ["here reports another site's jobs"]
    later = tuple(replace(want, start=START + 60, end=START + 120) for want in WANTS)
    plain = broker.submit(2, key="the-other-key", wants=later)
    broker.visited(plain)
    broker.receive("here", news(plain, 0, failed=True))
    assert {broker.row(each).state for each in (rid, plain)} == {"commit"}


def test_of_replicas_the_one_that_looks_after_it_cancels_it(broker: Broker, rid: str) -> None:
    owner = broker.row(rid).owner
    idle = Broker(broker.register, name="b", alive=frozenset({owner}))
    idle.receive("there", news(rid, 1, failed=True))
    assert broker.row(rid).state == "commit"
    heir = Broker(broker.register, name="c")
    heir.receive("there", news(rid, 1, failed=True))
    assert broker.row(rid).state == "cancelled"


def ended(broker: Broker, rid: str, number: int, at: int = T0 + 1) -> None:
    """The part of this number has ended well then, and its site says so."""
    broker.receive(SITES[number], news(rid, number, ended_at=at))


def test_when_all_parts_have_ended_the_slots_are_given_back_everywhere_at_once() -> None:
    broker = Broker()
    rid = reserved(broker)
    ended(broker, rid, 1)
    ended(broker, rid, 1)
    assert (broker.row(rid).state, broker.sent()) == ("commit", [])
    ended(broker, rid, 0, at=T0 + 3)
    assert [to for to, each in broker.sent() if isinstance(each, m.Cancel)] == ["here", "there"]
    row = broker.row(rid)
    assert (row.state, row.job.parts_ended_at) == ("cancelled", T0 + 1), "no end lies ahead"
    assert (row.trail[-1].kind, row.trail[-1].detail) == ("ended", "all its parts have ended")
    assert view_of(row).parts_ended_at == T0 + 1


def test_a_slot_that_is_used_again_is_not_given_back(broker: Broker, rid: str) -> None:
    ended(broker, rid, 1)
    broker.receive("there", news(rid, 1))
    ended(broker, rid, 0)
    assert broker.row(rid).state == "commit"
    ended(broker, rid, 1)
    assert broker.row(rid).state == "cancelled"


def test_slots_in_which_nothing_was_to_run_are_given_back_with_those_of_the_parts() -> None:
    broker = Broker()
    rid = reserved(broker, Step(jobs={"there/one": JOB}))
    ended(broker, rid, 1)
    assert [to for to, each in broker.sent() if isinstance(each, m.Cancel)] == ["here", "there"]


def test_where_the_slots_are_over_nothing_is_given_back(broker: Broker, rid: str) -> None:
    broker.advance((DAY + 60) * 1_000)
    for number in (0, 1):
        ended(broker, rid, number, at=START + 60)
    assert broker.row(rid).state == "commit"


def test_a_part_whose_own_slot_is_over_has_ended(broker: Broker) -> None:
    short, long = WANTS[0], replace(WANTS[1], end=START + 600)
    rid = broker.submit(wants=(short, long), step=STEP)
    broker.visited(rid)
    broker.done(rid)
    broker.advance((DAY + 60) * 1_000)
    ended(broker, rid, 1, at=START + 30)
    assert (broker.row(rid).state, broker.row(rid).job.parts_ended_at) == ("cancelled", START + 30)


def test_what_is_being_changed_is_given_back_when_the_change_is_decided(broker: Broker) -> None:
    rid = reserved(broker)
    longer = tuple(replace(want, end=START + 120) for want in WANTS)
    changed = broker.submit(2, key="the-other-key", wants=longer, replaces=broker.row(rid))
    for number in (0, 1):
        ended(broker, rid, number)
    assert broker.row(rid).state == "commit"
    broker.visited(changed)
    broker.done(changed)
    for number in (0, 1):
        assert broker.row(changed).state == "commit"
        ended(broker, changed, number)
    assert broker.row(changed).state == "cancelled"


def test_of_replicas_the_one_that_looks_after_it_gives_the_slots_back(broker: Broker) -> None:
    rid = reserved(broker)
    idle = Broker(broker.register, name="b", alive=frozenset({broker.row(rid).owner}))
    heir = Broker(broker.register, name="c")
    for number in (0, 1):
        ended(idle, rid, number)
    assert broker.row(rid).state == "commit"
    for number in (0, 1):
        ended(heir, rid, number)
    assert broker.row(rid).job.parts_ended_at


def test_a_change_keeps_the_parts(broker: Broker, rid: str) -> None:
    later = tuple(replace(want, start=START + 60, end=START + 120) for want in WANTS)
    moved = broker.submit(2, key="the-other-key", wants=later, replaces=broker.row(rid))
    assert all(not each.jobs for _, each in broker.sent() if isinstance(each, m.Visit))
    broker.visited(moved)
    broker.done(moved)
    assert broker.row(moved).job.machines == ("here/one", "there/one")
    assert ask(broker, rid, 0) == [], "its site is about to hear of the change"
    broker.receive("there", news(moved, 1, failed=True))
    assert broker.row(moved).state == "cancelled"


def test_parts_stand_in_the_order_of_the_request_and_those_it_does_not_name_behind() -> None:
    broker = Broker()
    wants = tuple(m.Want(f"{site}/one", START, START + 60, 1) for site in reversed(SITES))
    rid = broker.submit(wants=wants, step=STEP)
    for site in SITES:
        held = (m.HeldSlot(0, 11),)
        broker.receive(site, m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=held))
    assert broker.row(rid).job.machines == ("there/one", "here/one")
