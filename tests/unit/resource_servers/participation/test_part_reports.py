"""Parts of jobs in step at a site: taken with their slots, submitted once, and reported to brokers."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.protocol_support import (
    ANN,
    COORDS,
    HERE,
    PARTS,
    T0,
    Site,
    TakesParts,
    rid,
    secret_of,
    want,
)

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.jobs import JobRequest
from kalends.core.steps import StepPart
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.placed_jobs.start_questions import ASK_AGAIN_MS
from kalends.resource_servers.participation.repeats import REMIND_AFTER_MS

POOL = f"{HERE}/pool"
JOB = JobRequest(machine="", limit_s=60, command=("true",))
SLOT = want("pool", 0, 60, 2)


def visit(number: int = 1, **fields: object) -> m.Visit:
    asked = m.Visit(
        rid=rid(number), att=1, stamp=number, mode="vote", principal=ANN, wants=(SLOT,), parts=PARTS,
        need=2, coords=COORDS, secret=secret_of(rid(number)), hold_ms=30_000, jobs={POOL: JOB},
    )  # fmt: skip
    return structs.replace(asked, **fields)


def locked() -> Site:
    """A site that has locked a slot in which a job is to run."""
    site = Site(queues=TakesParts())
    (sent,) = site.receive(visit()).sends
    assert isinstance(sent.message, m.Visited)
    (held,) = sent.message.held
    site.receive(
        m.Decide(
            rid=rid(1), att=1, secret=secret_of(rid(1)), outcome="commit",
            chosen={HERE: (held.hold_id,), "there": (1,)},
        )
    )  # fmt: skip
    return site


@pytest.fixture
def site() -> Site:
    return locked()


def stake(site: Site) -> Stake:
    found = site.participant.book.stakes.get(rid(1))
    assert found is not None
    return found


def told(site: Site) -> list[m.Message]:
    """What has been sent to the register of the reservation."""
    sends = [*site.unsent]
    site.unsent.clear()
    assert {send.to for send in sends} <= {f"{REGISTER}{stake(site).register}"}
    return [send.message for send in sends]


def news(job: int = 7, why: str = "") -> m.PartNews:
    return m.PartNews(rid=rid(1), att=1, machine=POOL, job=job, failed=bool(why), detail=why)


def test_where_no_jobs_run_a_slot_for_one_is_refused() -> None:
    (sent,) = Site().receive(visit()).sends
    assert isinstance(sent.message, m.Visited)
    assert sent.message.refusals == (
        Refusal(where=POOL, code=RefusalCode.NO_PLACE, detail="no jobs run there"),
    )


def test_the_queue_is_asked_about_the_part_as_it_would_run() -> None:
    queue = TakesParts()
    site = Site(queues=queue)
    site.receive(visit())
    (part,) = queue.asked
    assert (part.machine, part.nodes, part.reservation, part.limit_s) == (POOL, 2, rid(1), 0)


def test_two_slots_on_one_machine_have_no_job() -> None:
    site = Site(queues=TakesParts())
    (sent,) = site.receive(visit(wants=(SLOT, want("pool", 100, 160)))).sends
    assert isinstance(sent.message, m.Visited)
    assert [each.code for each in sent.message.refusals] == [RefusalCode.NO_PLACE]


def test_what_is_to_run_is_kept_over_restarts_until_it_is_submitted_and_no_longer() -> None:
    site = locked()
    site.restart()
    assert stake(site).jobs == {POOL: JOB}
    site.call(lambda participant, now: site.jobs.part_reports.submitted(rid(1), POOL, 7))
    assert told(site) == [news()]
    site.restart()
    assert stake(site).jobs == {}


def test_brokers_that_come_are_told_which_job_a_part_is(site: Site) -> None:
    site.call(lambda participant, now: site.jobs.part_reports.submitted(rid(1), POOL, 7))
    told(site)
    site.call(lambda participant, now: participant.broker_came(now))
    assert told(site) == [news()]


def test_a_failure_is_told_again_and_again_until_the_reservation_is_cancelled(site: Site) -> None:
    site.call(
        lambda participant, now: site.jobs.part_reports.failed(rid(1), POOL, 7, "exit 3", now)
    )
    assert told(site) == [news(why="exit 3")]
    again = [send.message for send in site.advance(REMIND_AFTER_MS * 2).sends]
    assert again == [news(why="exit 3")]
    site.receive(m.Cancel(rid=rid(1), att=1, secret=secret_of(rid(1))))
    assert site.advance(100 * REMIND_AFTER_MS).sends == []


def test_that_a_part_has_ended_is_told_again_and_again_until_its_slot_is_given_back() -> None:
    site = locked()
    ended = structs.replace(news(), ended_at=T0)
    site.call(lambda participant, now: site.jobs.part_reports.ended(rid(1), POOL, 7, T0, now))
    assert told(site) == [ended]
    site.call(lambda participant, now: site.jobs.part_reports.submitted(rid(1), POOL, 7))
    assert told(site) == [ended], "which job it is, is no news then"
    again = [send.message for send in site.advance(REMIND_AFTER_MS * 2).sends]
    assert again == [ended]
    site.receive(m.Cancel(rid=rid(1), att=1, secret=secret_of(rid(1))))
    assert site.advance(100 * REMIND_AFTER_MS).sends == []


def test_that_a_slot_is_used_again_takes_back_that_its_part_has_ended(site: Site) -> None:
    site.call(lambda participant, now: site.jobs.part_reports.used_again(rid(1), POOL))
    site.call(lambda participant, now: site.jobs.part_reports.submitted(rid(1), POOL, 7))
    site.call(lambda participant, now: site.jobs.part_reports.used_again(rid(1), POOL))
    assert told(site) == [news()], "it has not ended"
    site.call(lambda participant, now: site.jobs.part_reports.ended(rid(1), POOL, 7, T0, now))
    site.call(lambda participant, now: site.jobs.part_reports.used_again(rid(1), POOL))
    assert told(site) == [structs.replace(news(), ended_at=T0), news()]
    assert site.advance(100 * REMIND_AFTER_MS).sends == []


def test_the_broker_is_asked_anew_when_another_part_here_has_its_nodes(site: Site) -> None:
    one, two = StepPart(POOL, 7, ("here.example",)), StepPart(f"{HERE}/one", 8, ("here.example",))

    def ask(*parts: StepPart) -> list[m.Message]:
        site.call(lambda participant, now: site.jobs.starts.ask(rid(1), now, parts))
        return told(site)

    asked = m.StartAsk(rid=rid(1), att=1, site=HERE, secret=secret_of(rid(1)), parts=(one,))
    assert ask(one) == [asked]
    assert ask(one) == []
    assert ask(one, two) == [structs.replace(asked, parts=(one, two))]
    repeated = {send.to for send in site.advance(ASK_AGAIN_MS).sends}
    assert repeated == {f"{REGISTER}{stake(site).register}"}, "what may be long is not posted"
    says = m.StartSays(rid=rid(1), att=1, secret=secret_of(rid(1)), says="start", parts=(one, two))
    assert site.receive(says).starts == [StartWord(rid(1), "start", "", (one, two))]


def asked_by(site: Site, question: int = 0, *, gives_up: bool = False) -> m.StartAsk:
    part = StepPart(POOL, 7, ("here.example",))
    return m.StartAsk(
        rid=rid(1), att=1, site=HERE, secret=secret_of(rid(1)), parts=(part,), question=question,
        gives_up=gives_up,
    )  # fmt: skip


def ask(site: Site, *, gives_up: bool = False) -> None:
    parts = asked_by(site).parts
    site.call(lambda participant, now: site.jobs.starts.ask(rid(1), now, parts, gives_up=gives_up))


def test_a_question_whether_the_parts_are_ready_is_answered_once_and_at_once(site: Site) -> None:
    ready = m.ReadyAsk(rid=rid(1), att=1, secret=secret_of(rid(1)), question=1_234)
    assert site.receive(ready).starts == [], "nothing is asked for here"
    ask(site)
    assert told(site) == [asked_by(site)]
    heard = site.receive(ready)
    assert ([send.message for send in heard.sends], heard.starts) == ([asked_by(site, 1_234)], [])
    assert [send.message for send in site.advance(ASK_AGAIN_MS).sends] == [asked_by(site)], (
        "what is asked again by itself answers nothing"
    )


def test_a_word_for_another_attempt_starts_nothing_and_answers_nothing(site: Site) -> None:
    ask(site)
    told(site)
    parts = asked_by(site).parts
    says = m.StartSays(rid=rid(1), att=2, secret=secret_of(rid(1)), says="start", parts=parts)
    ready = m.ReadyAsk(rid=rid(1), att=2, secret=secret_of(rid(1)), question=1_234)
    assert site.receive(says).starts == []
    assert site.receive(ready).sends == []
    right = site.receive(structs.replace(says, att=1)).starts
    assert right == [StartWord(rid(1), "start", "", parts)]


def test_to_give_up_is_asked_until_it_is_answered(site: Site) -> None:
    ask(site)
    told(site)
    ask(site, gives_up=True)
    ask(site, gives_up=True)
    assert told(site) == [asked_by(site, gives_up=True)]
    ready = m.ReadyAsk(rid=rid(1), att=1, secret=secret_of(rid(1)), question=1_234)
    assert site.receive(ready).sends == [], "it is ready no longer"
    for _ in range(3):
        sent = [send.message for send in site.advance(20_000).sends]
        assert asked_by(site, gives_up=True) in sent
    over = m.StartSays(rid=rid(1), att=1, secret=secret_of(rid(1)), says="over")
    assert site.receive(over).starts == [StartWord(rid(1), "over", "")]


def test_when_a_broker_comes_it_is_asked_again_and_told_when_parts_began(site: Site) -> None:
    site.call(lambda participant, now: site.jobs.part_reports.submitted(rid(1), POOL, 7))
    site.call(lambda participant, now: site.jobs.part_reports.began(rid(1), POOL, 7, T0 + 5))
    site.call(lambda participant, now: site.jobs.part_reports.began(rid(1), POOL, 7, T0 + 5))
    began = structs.replace(news(), began_at=T0 + 5)
    assert told(site) == [news(), began]
    ask(site)
    told(site)
    site.call(lambda participant, now: participant.broker_came(now))
    assert told(site) == [began, asked_by(site)]
    site.call(lambda participant, now: site.jobs.part_reports.failed(rid(1), POOL, 7, "no", now))
    assert told(site) == [structs.replace(news(why="no"), began_at=T0 + 5)]


def test_of_what_is_not_locked_here_any_more_nothing_is_told_or_remembered(site: Site) -> None:
    site.call(lambda participant, now: site.jobs.part_reports.submitted(rid(2), POOL, 8))
    site.call(lambda participant, now: site.jobs.part_reports.submitted(rid(1), POOL, 7))
    assert told(site) == [news()]
    assert set(site.jobs.part_reports._parts) == {(rid(1), POOL)}
