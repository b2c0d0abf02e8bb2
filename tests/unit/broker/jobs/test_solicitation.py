"""Bids at a broker: who is asked, whose offer wins, who keeps a place meanwhile, and who is told to go."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType

import pytest
from msgspec import structs

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.owners.owner_reclaims import ELSEWHERE_EVERY_MS
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Placement, Record, Spec
from kalends.broker.coordination.record.views import text_of_job, view_of
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.coordination.voting.prepare_phase import PLACE_VOTE_MS_MAX
from kalends.broker.desk.request_queries import check_own
from kalends.broker.jobs.parts.places_elsewhere import (
    SOON_S,
    check_may_leave,
    elsewhere,
    job_there,
    placement_of,
)
from kalends.broker.jobs.parts.site_managers import Referral
from kalends.broker.jobs.parts.solicitation import BID_MS_MAX, DECISION_MS
from kalends.broker.jobs.parts.user_pick import PICK_MS_MAX
from kalends.broker.jobs.parts.wing import JobParts
from kalends.broker.planning.directory import Directory
from kalends.broker.register.sqlite import job_reads, request_rows, request_writes
from kalends.broker.register.sqlite.broker_store import SCHEMA
from kalends.broker.register.writes import MadeGood, PutBack
from kalends.client.inputs.machine_requirements import attributes_in, preferences_in
from kalends.contract import messages as m
from kalends.contract.calls import RequestView
from kalends.core.clock import LogicalClock
from kalends.core.errors import Conflict, NotAllowed, Problem, Refusal, RefusalCode
from kalends.core.identifiers import request_id
from kalends.core.implementations import Implementation
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.language import parse_alternatives
from kalends.core.limits import JOB_ENVIRONMENT_MAX
from kalends.core.principals import Principal
from kalends.core.requests import Alternative, Request, Term
from kalends.core.resources import ResourceInfo
from kalends.core.transport import JobData, Rates
from kalends.federation.offered_places import decided_within_s
from kalends.serving.auth.callers import Caller

T0 = 1_800_000_000
ANN = Principal("ann")
JOB = JobRequest(machine="", limit_s=600, nodes=2, command=("true",))
SITES = ("a", "b", "c")


class Rig:
    """A coordinator over three sites with a machine each, a register, and a clock that tests move."""

    def __init__(
        self,
        machines: Mapping[str, int] | None = None,
        away: Collection[str] = (),
        directory: Directory | None = None,
        rates: Rates | None = None,
    ) -> None:
        """`away` are sites that were not there since the broker has started."""
        self.directory = directory or Directory({site: f"http://{site}" for site in SITES})
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.executescript(SCHEMA)
        numbers = itertools.count(100)
        self.ms = 1_000
        self.ahead_ms = 0
        """How far the broker's wall clock is ahead of those of sites."""
        self.coordinator = Coordinator(
            Identity("npaci-1", "npaci-1:1", ()),
            self.directory,
            LogicalClock(),
            new_rid=lambda now: request_id(now.wall_ms, next(numbers)),
            jitter=lambda: 0.0,
            wings=(partial(JobParts, lost=lambda now: self.lost, rates=rates),),
        )
        self.jobs = self.coordinator.wing(JobParts)
        self.lost: list[str] = []
        self.machines = machines or dict.fromkeys(self.directory.sites, 8)
        self.sent: list[tuple[str, m.Message]] = []
        self.answers: dict[int, RequestView] = {}
        self.told: list[str] = []
        self.picks: list[ScriptRun] = []
        self.referrals: list[Referral] = []
        for site in self.directory.sites:
            if site not in away:
                self.greet(site)

    def greet(self, site: str) -> list[tuple[str, m.Message]]:
        """The site is connected; return what is sent thereupon."""
        info = ResourceInfo(
            name=f"{site}/m", capacity=self.machines.get(site, 1), queue=site in self.machines,
            attributes={"memory": 64 if site == "a" else 128},
        )  # fmt: skip
        hello = m.Hello(site=site, epoch=1, resources=(info,))
        self.coordinator.site_up(site, hello, self.now)
        return self.settle()

    @property
    def now(self) -> Moment:
        return Moment(self.ms, T0 * 1_000 + self.ms + self.ahead_ms)

    def hear_clocks(self) -> None:
        """All sites say what their clocks show."""
        for site in self.directory.sites:
            self.directory.hear_clock(site, T0 * 1_000 + self.ms, self.now)

    def settle(self) -> list[tuple[str, m.Message]]:
        """Let the register do what it is asked, until nothing is asked; return what was sent meanwhile."""
        sent: list[tuple[str, m.Message]] = []
        while True:
            effects = self.coordinator.take_effects()
            sent += [(send.to, send.message) for send in effects.sends]
            self.told += [each.event.detail for each in effects.events]
            for errand in effects.errands:
                if isinstance(errand.question, ScriptRun):
                    self.picks.append(errand.question)
                else:
                    assert isinstance(errand.question, Referral)
                    self.referrals.append(errand.question)
            self.answers |= {answer.ticket: answer.view for answer in effects.answers}
            if not effects.operations:
                return sent
            for result in request_writes.apply(self.connection, effects.operations):
                self.coordinator.registered(result, self.now)

    def submit(
        self, on: str = "", end_by: int = 0, prefer: Mapping[str, str] = MappingProxyType({}),
        homes: tuple[str, ...] = (), implementations: tuple[Implementation, ...] = (),
        pick: str = "", redundant: bool = False, at_most_once: bool = False, by_limits: bool = False,
        key: str = "the-key", rerun: bool = False, rank: str = "", data: tuple[JobData, ...] = (),
    ) -> str:  # fmt: skip
        attributes = parse_alternatives(f"{{{on}}}")[0].terms[0].attributes if on else ()
        term = Term(attributes=attributes, units=JOB.nodes)
        request = Request(
            alternatives=(Alternative(terms=(term,)),), duration_s=JOB.limit_s, not_before=T0,
            not_after=end_by,
        )  # fmt: skip
        spec = Spec(
            request=request,
            what=Placement(
                job=structs.replace(JOB, at_most_once=redundant or at_most_once, rerun=rerun),
                redundant=redundant, prefer=preferences_in(prefer), homes=homes,
                implementations=implementations, pick=pick, rank=rank, data=data, by_limits=by_limits,
            ),
        )  # fmt: skip
        rid = self.coordinator.calls.submit(ANN, key, "digest", spec, 1, self.now)
        self.sent = self.settle()
        return rid

    def hear(self, site: str, message: m.Message) -> list[tuple[str, m.Message]]:
        self.coordinator.receive(site, message, self.now)
        return self.settle()

    def pass_time(self, ms: int) -> list[tuple[str, m.Message]]:
        self.ms += ms
        self.coordinator.advance(self.now)
        return self.settle()

    def row(self, rid: str) -> Record:
        record = request_rows.row(self.connection, rid)
        assert isinstance(record, Record)
        return record


def offer(site: str, in_s: int, *, firm: bool = True, hold_id: int = 7) -> m.PlaceOffer:
    start = T0 + in_s
    return m.PlaceOffer(
        machine=f"{site}/m", hold_id=hold_id, job=3, nodes=2, start=start, end=start + 600,
        start_by=start if firm else 0, late_start=start,
    )  # fmt: skip


def bid(rid: str, *offers: m.PlaceOffer, att: int = 1, refusals: tuple[Refusal, ...] = ()) -> m.Bid:
    return m.Bid(rid=rid, att=att, epoch=1, offers=offers, refusals=refusals)


def voted(rid: str, vote: str = "yes", att: int = 1) -> m.Voted:
    no = (
        () if vote == "yes" else (Refusal(where="b", code=RefusalCode.HELD, detail="it has ended"),)
    )
    return m.Voted(rid=rid, att=att, epoch=1, vote=vote, refusals=no)  # type: ignore[arg-type]


def of_kind(
    sent: list[tuple[str, m.Message]], kind: type[m.Message]
) -> list[tuple[str, m.Message]]:
    return [(site, message) for site, message in sent if isinstance(message, kind)]


def bidding() -> tuple[Rig, str]:
    """All three have bid: `b` ends first, then `c`."""
    rig = Rig()
    rid = rig.submit()
    assert sorted(site for site, _ in of_kind(rig.sent, m.Solicit)) == ["a", "b", "c"]
    rig.hear("a", bid(rid, offer("a", 300)))
    rig.hear("c", bid(rid, offer("c", 200)))
    rig.sent = rig.hear("b", bid(rid, offer("b", 100)))
    return rig, rid


def test_the_best_is_prepared_the_second_best_kept_and_all_others_are_released() -> None:
    rig, rid = bidding()
    assert [site for site, _ in of_kind(rig.sent, m.Prepare)] == ["b"]
    assert [site for site, _ in of_kind(rig.sent, m.Release)] == ["a"]
    sent = rig.hear("b", voted(rid))
    assert [site for site, _ in of_kind(sent, m.Decide)] == ["b"]
    assert [site for site, _ in of_kind(sent, m.Release)] == ["c"]
    record = rig.row(rid)
    placed = record.job.placed
    assert placed is not None
    assert (record.state, placed.machine, placed.number) == ("commit", "b/m", 3)
    assert rig.answers[1].placed == placed


def test_the_story_tells_the_price_the_load_and_that_nodes_are_shared() -> None:
    rig = Rig()
    rid = rig.submit()
    rig.hear("a", bid(rid, structs.replace(offer("a", 300), price=1_200.5, load=80, shared=True)))
    rig.hear("b", bid(rid, offer("b", 100)))
    rig.hear("c", bid(rid, structs.replace(offer("c", 200), load=5)))
    rig.hear("b", voted(rid))
    (words,) = [each for each in rig.told if "have bid" in each]
    assert "b/m starts by" in words
    assert "c/m (5% busy) ends 1m40s later" in words
    assert "a/m (at most 1,200.50 credits, 80% busy, shared nodes) ends 3m20s later" in words


def test_the_transport_of_its_input_is_part_of_the_end_by_which_bids_are_compared() -> None:
    rig = Rig(rates=Rates([(("a", "b"), 100.0), (("a", "c"), 10.0)]))
    rid = rig.submit(data=(JobData(site="a", size_mb=10_000),))
    rig.hear("a", bid(rid, offer("a", 300)))
    rig.hear("b", bid(rid, offer("b", 150)))
    rig.hear("c", bid(rid, offer("c", 100)))
    rig.hear("b", voted(rid))
    placed = rig.row(rid).job.placed
    assert placed is not None
    assert placed.machine == "b/m"
    (words,) = [each for each in rig.told if "have bid" in each]
    assert "b/m (1m40s of transport) starts by" in words
    assert "a/m ends 50s later" in words
    assert "c/m (16m40s of transport) ends 14m10s later" in words


def test_a_site_that_has_the_input_is_a_home() -> None:
    rig = Rig(machines=dict.fromkeys(SITES, 8))
    for _ in range(8):
        rig.jobs.bids.experience.bid("a", 10, 90_000, rig.now)
    rig.submit(data=(JobData(site="a", size_mb=0),))
    assert "a" in [site for site, _ in of_kind(rig.sent, m.Solicit)]


def test_who_has_lost_hears_what_has_won_and_by_how_much() -> None:
    rig, rid = bidding()
    ((_, first),) = of_kind(rig.sent, m.Release)
    ((_, second),) = of_kind(rig.hear("b", voted(rid)), m.Release)
    assert isinstance(first, m.Release)
    assert isinstance(second, m.Release)
    assert first.won == m.Won(site="b", start=T0 + 100, runs_s=600, behind_s=200)
    assert second.won == m.Won(site="b", start=T0 + 100, runs_s=600, behind_s=100)


def test_of_a_winner_that_discloses_nothing_nothing_is_told(rig: Rig) -> None:
    rid = rig.submit()
    rig.hear("a", bid(rid, offer("a", 300)))
    rig.hear("c", bid(rid, offer("c", 200)))
    sent = rig.hear("b", bid(rid, structs.replace(offer("b", 100), undisclosed=True)))
    sent += rig.hear("b", voted(rid))
    assert [message for _, message in of_kind(sent, m.Release) if message.won] == []  # type: ignore[attr-defined]


def test_the_second_best_hears_nothing_of_a_winner_that_has_refused() -> None:
    rig, rid = bidding()
    sent = rig.hear("b", voted(rid, "no"))
    assert not of_kind(sent, m.Release)
    sent = rig.hear(
        "c", bid(rid, att=2, refusals=(Refusal(where="c", code=RefusalCode.HELD, detail="-"),))
    )
    assert [message.won for _, message in of_kind(sent, m.Release)] in ([], [None])  # type: ignore[attr-defined]


def test_what_sites_have_answered_is_counted() -> None:
    rig, rid = bidding()
    rig.hear("b", voted(rid))
    other = rig.submit(key="another-key")
    no = Refusal(where="a/m", code=RefusalCode.NO_PLACE, detail="it is full")
    rig.hear("a", bid(other, refusals=(no, no)))
    rig.pass_time(BID_MS_MAX)
    tally = rig.jobs.bids.tally
    a, b, c = (tally.of(site) for site in SITES)
    assert [each.asked for each in (a, b, c)] == [2, 3, 2], (
        "the first of those that were silent again"
    )
    assert [each.bid for each in (a, b, c)] == [1, 1, 1]
    assert [each.chosen for each in (a, b, c)] == [each.placed for each in (a, b, c)] == [0, 1, 0]
    assert (dict(a.refused), b.silent, c.silent) == ({"no-place": 1}, 1, 1)
    assert b.there(rig.now.wall_s) == 1
    assert b.next_end_s(rig.now.wall_s) == T0 + 700


def test_nothing_is_committed_before_the_winner_has_voted() -> None:
    rig, rid = bidding()
    assert rig.row(rid).state == "open"
    assert 1 not in rig.answers


def test_where_the_winner_refuses_the_second_best_is_asked_alone_and_keeps_its_place() -> None:
    rig, rid = bidding()
    sent = rig.hear("b", voted(rid, "no"))
    assert [site for site, _ in of_kind(sent, m.Solicit)] == ["c"]
    assert not of_kind(sent, m.Release)
    assert rig.row(rid).att == 2
    sent = rig.hear("c", bid(rid, offer("c", 200), att=2))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["c"]
    rig.hear("c", voted(rid, att=2))
    assert rig.answers[1].state == "reserved"


def test_a_winner_that_is_silent_is_not_waited_for_long() -> None:
    rig, _ = bidding()
    sent = rig.pass_time(PLACE_VOTE_MS_MAX)
    assert [site for site, _ in of_kind(sent, m.Solicit)] == ["c"]


def test_a_winner_that_has_given_the_nodes_to_others_is_asked_for_what_it_has_now() -> None:
    rig, rid = bidding()
    rig.hear("b", m.Renewed(rid=rid, att=1, epoch=1, lost=(8,)))
    assert rig.row(rid).att == 1, "that is not its place"
    sent = rig.hear("b", m.Renewed(rid=rid, att=1, epoch=1, lost=(7,)))
    assert rig.row(rid).att == 2
    assert of_kind(sent, m.Solicit)


def test_a_decision_that_came_too_late_for_its_nodes_stands_and_the_operator_hears_of_it() -> None:
    rig, rid = bidding()
    rig.hear("b", voted(rid))
    rig.coordinator.receive("b", m.Renewed(rid=rid, att=1, epoch=1, lost=(7,)), rig.now)
    (alarm,) = rig.coordinator.take_effects().alarms
    assert rid in alarm
    assert "b gave the nodes to others" in alarm
    assert rig.row(rid).state == "commit"


def test_who_is_silent_is_not_waited_for_and_released(rig: Rig) -> None:
    rid = rig.submit()
    rig.hear("a", bid(rid, offer("a", 300)))
    sent = rig.pass_time(BID_MS_MAX)
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["a"]
    assert sorted(site for site, _ in of_kind(sent, m.Release)) == ["b", "c"]


def test_a_bid_that_comes_too_late_is_released(rig: Rig) -> None:
    rid = rig.submit()
    rig.hear("a", bid(rid, offer("a", 300)))
    rig.pass_time(BID_MS_MAX)
    sent = rig.hear("b", bid(rid, offer("b", 0)))
    assert [site for site, _ in of_kind(sent, m.Release)] == ["b"]
    rig.hear("a", voted(rid))
    assert rig.answers[1].placed is not None
    assert rig.answers[1].placed.machine == "a/m"


def test_a_promised_start_is_compared_with_a_late_start_that_is_only_foreseen(rig: Rig) -> None:
    rid = rig.submit()
    rig.hear("a", bid(rid, offer("a", 300)))
    rig.hear("b", bid(rid, offer("b", 200, firm=False)))
    sent = rig.hear("c", bid(rid, offer("c", 250)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["b"]
    rig.hear("b", voted(rid))
    assert rig.answers[1].placed is not None
    assert rig.answers[1].placed.start_by == 0


def test_free_nodes_are_learned_of_though_they_are_promised_for_when_all_is_decided() -> None:
    rig = Rig()
    rid = rig.submit()
    decided_s = decided_within_s(DECISION_MS + BID_MS_MAX)
    decided_in_s = rig.now.wall_s - T0 + decided_s
    rig.hear("a", bid(rid, offer("a", decided_in_s)))
    rig.hear("b", bid(rid, offer("b", decided_in_s + 1)))
    waits = [rig.jobs.bids.experience.expected_wait_s(site, rig.now) for site in ("a", "b")]
    assert waits == [0, decided_s + 1]


@pytest.mark.parametrize(
    "nonsense",
    [
        offer("b", 0),
        structs.replace(offer("a", 0), machine="a/x"),
        structs.replace(offer("a", 0), nodes=1),
        structs.replace(offer("a", 0), end=T0 + 60),
        structs.replace(offer("a", 0), start_by=0, late_start=0),
        structs.replace(offer("a", 9), start_by=1),
        structs.replace(offer("a", -T0 + 1)),
    ],
    ids=[
        "another site's",
        "a machine that was not asked",
        "fewer nodes",
        "less time",
        "no start",
        "two starts",
        "a start that has passed",
    ],
)
def test_an_offer_that_makes_no_sense_counts_as_a_refusal(rig: Rig, nonsense: m.PlaceOffer) -> None:
    rid = rig.submit()
    rig.hear("a", bid(rid, nonsense))
    rig.hear("b", bid(rid, offer("b", 300)))
    sent = rig.hear("c", bid(rid, offer("c", 400)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["b"]


def test_a_site_that_cannot_end_it_in_time_does_not_count(rig: Rig) -> None:
    rid = rig.submit(end_by=T0 + 800)
    rig.hear("a", bid(rid, offer("a", 300)))
    rig.hear("b", bid(rid, offer("b", 100)))
    sent = rig.hear("c", bid(rid, offer("c", 201)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["b"]
    assert sorted(site for site, _ in of_kind(sent, m.Release)) == ["a", "c"]


def test_only_machines_with_a_queue_room_enough_and_the_attributes_are_asked(rig: Rig) -> None:
    rig.submit(on="memory>=128")
    assert sorted(site for site, _ in of_kind(rig.sent, m.Solicit)) == ["b", "c"]
    rig = Rig({"a": 8, "b": 1})
    rig.submit()
    assert [site for site, _ in of_kind(rig.sent, m.Solicit)] == ["a"]


@pytest.mark.parametrize(
    ("on", "ways", "text"),
    [
        ("", [], "job on any machine, 2 nodes"),
        ("memory>=64", [], "job on {memory>=64}:2"),
        ("", ["mpi"], "job on any machine as mpi"),
        ("memory>=64", ["mpi", "gpu"], "job on {memory>=64} as mpi or gpu"),
        ("", list("abcde"), "job on any machine as one of 5 implementations"),
    ],
)
def test_lists_tell_how_many_nodes_a_job_asks_for_or_in_which_ways_it_may_run(
    on: str, ways: list[str], text: str
) -> None:
    attributes = parse_alternatives(f"{{{on}}}")[0].terms[0].attributes if on else ()
    assert text_of_job(Term(attributes=attributes, units=2), ways) == text


def test_where_no_machine_fits_the_answer_says_so(rig: Rig) -> None:
    rig.submit(on="memory>=1024")
    assert rig.answers[1].problem is not None
    assert rig.answers[1].problem.code == "not-found"


def test_where_all_refuse_for_good_the_job_has_failed_with_their_reasons() -> None:
    rig = Rig({"a": 8, "b": 8})
    rid = rig.submit()
    for site in ("a", "b"):
        no = Refusal(where=f"{site}/m", code=RefusalCode.NOT_ALLOWED, detail="not you")
        rig.hear(site, bid(rid, refusals=(no,)))
    assert rig.answers[1].state == "failed"
    assert rig.answers[1].problem is not None
    assert len(rig.answers[1].problem.refusals) == 2


def test_a_job_waits_for_sites_that_are_all_away_and_asks_the_first_that_is_back() -> None:
    rig = Rig(away=SITES)
    rid = rig.submit()
    assert not rig.sent
    rig.pass_time(2 * BID_MS_MAX)
    assert rig.row(rid).state == "open"
    att = rig.row(rid).att
    assert [site for site, _ in of_kind(rig.greet("b"), m.Solicit)] == ["b"]
    rig.hear("b", bid(rid, offer("b", 100), att=att))
    rig.hear("b", voted(rid, att=att))
    assert rig.answers[1].state == "reserved"


def test_sites_that_stay_away_are_not_waited_for_for_ever() -> None:
    rig = Rig(away=SITES)
    rig.submit()
    for _ in range(40):
        rig.pass_time(BID_MS_MAX)
    problem = rig.answers[1].problem
    assert problem is not None
    assert problem.type.endswith(":unavailable")
    assert {each.where for each in problem.refusals} == set(SITES)


def test_why_nobody_was_asked_is_told_once_of_each_site(rig: Rig) -> None:
    for site in SITES:
        rig.coordinator.site_lost(site, "it is gone")
    rid = rig.submit()
    told = rig.jobs.bids.candidates.lacks(rig.coordinator.cases[rid])
    assert [each.where for each in told] == list(SITES)


def test_where_known_machines_do_not_fit_only_a_site_that_was_never_seen_is_waited_for() -> None:
    rig = Rig(machines=dict.fromkeys(SITES, 1))
    rig.coordinator.site_lost("a", "it is gone")
    rig.submit()
    problem = rig.answers[1].problem
    assert problem is not None
    assert problem.type.endswith(":invalid-input")
    rig = Rig(machines=dict.fromkeys(SITES, 1), away=("a",))
    rig.submit()
    assert 1 not in rig.answers
    rig.greet("a")
    assert rig.answers[1].problem == problem


def test_a_release_while_sites_bid_ends_it_and_all_are_told_so(rig: Rig) -> None:
    rid = rig.submit()
    rig.coordinator.calls.release(rig.row(rid), 2, rig.now)
    sent = rig.settle()
    assert rig.answers[2].state == "cancelled"
    told = {site for site, message in sent if isinstance(message, m.Decide | m.Release)}
    assert told == {"a", "b", "c"}


def test_a_replica_that_takes_over_asks_anew_at_a_higher_attempt() -> None:
    rig, rid = bidding()
    other = Rig()
    other.connection = rig.connection
    other.coordinator.attempts.take_over(rig.row(rid), other.now)
    sent = other.settle()
    solicits = of_kind(sent, m.Solicit)
    assert len(solicits) == 3
    assert {message.att for _, message in solicits if isinstance(message, m.Solicit)} == {2}
    assert isinstance(rig.row(rid), r.Record)


def test_who_is_silent_to_the_end_is_left_alone_and_who_was_released_before_is_not() -> None:
    rig = Rig()
    rig.submit()
    rig.pass_time(BID_MS_MAX)
    experience = rig.jobs.bids.experience
    assert [experience.rests(site, rig.now) for site in SITES] == [True, True, True]
    rig = Rig()
    rid = rig.submit()
    rig.coordinator.calls.release(rig.row(rid), 2, rig.now)
    rig.settle()
    rig.pass_time(10 * BID_MS_MAX)
    experience = rig.jobs.bids.experience
    assert [experience.rests(site, rig.now) for site in SITES] == [False, False, False]


def test_a_limit_of_one_user_keeps_no_others_from_a_site() -> None:
    rig = Rig({"a": 8})
    rid = rig.submit()
    for code in (RefusalCode.HELD, RefusalCode.SITE_DOWN):
        refusal = Refusal(where="a", code=code, detail="not now")
        rig.hear("a", bid(rid, refusals=(refusal,), att=rig.row(rid).att))
        assert rig.jobs.bids.experience.rests("a", rig.now) == (code != RefusalCode.HELD)


def not_ready(rid: str, site: str, att: int = 1) -> m.Bid:
    refusal = Refusal(where=site, code=RefusalCode.SITE_DOWN, detail="it has just started")
    return bid(rid, refusals=(refusal,), att=att)


def test_a_job_waits_for_a_site_that_is_not_ready_yet_and_asks_it_again() -> None:
    rig = Rig({"a": 8})
    rid = rig.submit()
    rig.hear("a", not_ready(rid, "a"))
    asked_again: list[int] = []
    for second in range(1, 20):
        if of_kind(rig.pass_time(1_000), m.Solicit):
            asked_again.append(second)
            assert not of_kind(rig.hear("a", not_ready(rid, "a")), m.Solicit)
    assert asked_again == [1, 3, 7, 15]
    assert rig.row(rid).att == 1
    rig.hear("a", bid(rid, offer("a", 100)))
    rig.hear("a", voted(rid))
    assert rig.answers[1].state == "reserved"
    assert dict(rig.jobs.bids.tally.of("a").refused) == {"site-down": 1}


def test_a_site_that_never_gets_ready_is_waited_for_as_long_as_a_booking_waits() -> None:
    rig = Rig({"a": 8})
    rid = rig.submit()
    rig.hear("a", not_ready(rid, "a"))
    for _ in range(58):
        rig.pass_time(1_000)
    assert 1 not in rig.answers
    for _ in range(4):
        rig.pass_time(1_000)
    problem = rig.answers[1].problem
    assert problem is not None
    assert problem.code == "unavailable"
    assert [each.detail for each in problem.refusals] == ["it has just started"]


def test_no_job_waits_for_a_site_that_is_not_ready_while_others_bid_or_may_yet() -> None:
    rig = Rig()
    rid = rig.submit()
    rig.hear("a", not_ready(rid, "a"))
    rig.hear("c", bid(rid, offer("c", 200)))
    sent = rig.hear("b", bid(rid, offer("b", 300)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["c"]


def test_a_site_that_is_back_is_asked_while_another_is_not_ready() -> None:
    rig = Rig(away=("b", "c"))
    rid = rig.submit()
    rig.hear("a", not_ready(rid, "a"))
    asked = [site for site, _ in of_kind(rig.greet("b"), m.Solicit)]
    assert "b" in asked
    rig.hear("b", bid(rid, offer("b", 100)))
    rig.pass_time(BID_MS_MAX)
    rig.hear("b", voted(rid))
    assert rig.answers[1].state == "reserved"


def test_a_machine_that_grants_more_nodes_than_were_asked_for_may_win() -> None:
    rig = Rig({"a": 8})
    rid = rig.submit()
    sent = rig.hear("a", bid(rid, structs.replace(offer("a", 0), nodes=4)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["a"]


def test_where_nobody_can_end_it_in_time_each_says_when_it_would_end() -> None:
    rig = Rig({"a": 8, "b": 8})
    rid = rig.submit(end_by=T0 + 700)
    for site in ("a", "b"):
        rig.hear(site, bid(rid, offer(site, 300)))
    problem = rig.answers[1].problem
    assert problem is not None
    assert [each.code for each in problem.refusals] == [RefusalCode.TOO_LATE] * 2
    assert rig.row(rid).att == 1


def test_a_site_that_was_not_asked_is_told_nothing_whatever_it_bids() -> None:
    rig = Rig({"a": 8, "b": 8})
    rid = rig.submit()
    assert rig.hear("c", bid(rid, offer("c", 0))) == []
    rig.hear("a", bid(rid, offer("a", 300)))
    rig.hear("b", bid(rid, offer("b", 100)))
    assert rig.hear("c", bid(rid, offer("c", 0))) == []


def test_a_second_best_that_does_not_fit_any_more_is_released() -> None:
    rig, rid = bidding()
    smaller = ResourceInfo(name="c/m", capacity=1, queue=True)
    rig.hear("c", m.Hello(site="c", epoch=1, resources=(smaller,)))
    sent = rig.hear("b", voted(rid, "no"))
    assert [site for site, _ in of_kind(sent, m.Release)] == ["c"]
    assert "c" not in [site for site, _ in of_kind(sent, m.Solicit)]


@pytest.mark.parametrize(
    ("worth", "winner", "told"),
    [
        ("99s", "b", "a/m ends 1m40s later, and with your preferences is 1s behind"),
        ("101s", "a", "b/m ends 1m40s earlier, and with your preferences is 1s behind"),
    ],
)
def test_a_site_that_is_worth_more_than_it_is_later_wins(
    rig: Rig, worth: str, winner: str, told: str
) -> None:
    rid = rig.submit(prefer={"site=a": worth})
    rig.hear("a", bid(rid, offer("a", 200)))
    rig.hear("c", bid(rid, offer("c", 900)))
    sent = rig.hear("b", bid(rid, offer("b", 100)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == [winner]
    rig.hear(winner, voted(rid))
    assert any(told in each for each in rig.told), rig.told


def test_what_a_machine_meets_is_added_up(rig: Rig) -> None:
    rid = rig.submit(prefer={"memory>=128": "60s", "site=c": "41s"})
    rig.hear("a", bid(rid, offer("a", 300)))
    rig.hear("c", bid(rid, offer("c", 200)))
    sent = rig.hear("b", bid(rid, offer("b", 160)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["c"]


def test_homes_are_asked_whatever_is_known_of_them() -> None:
    rig = Rig(machines=dict.fromkeys(SITES, 8))
    for number in range(8):
        rig.jobs.bids.experience.bid("a", 10, 90_000, rig.now)
        rid = rig.coordinator.calls.submit(
            ANN, f"the-key-{number}", "digest", light_job(homes=("a",)), number + 2, rig.now
        )
        asked = [site for site, each in of_kind(rig.settle(), m.Solicit) if each.rid == rid]  # type: ignore[attr-defined]
        assert "a" in asked
        assert len(asked) == 2


def light_job(homes: tuple[str, ...]) -> Spec:
    """A job so short that two of three sites are asked."""
    term = Term(units=1)
    request = Request(alternatives=(Alternative(terms=(term,)),), duration_s=1, not_before=T0)
    job = structs.replace(JOB, nodes=1, limit_s=1)
    return Spec(request=request, what=Placement(job=job, homes=homes))


LARGE = Implementation(
    name="large", needs=attributes_in("memory>=128", ""), sizes=(4, 64), limits_s=(300, 10),
    command=("large",),
)  # fmt: skip
SMALL = Implementation(
    name="small", needs=attributes_in("site=a", ""), sizes=(1,), limits_s=(500,), command=("small",)
)


def offer_for(site: str, in_s: int, limit_s: int, nodes: int) -> m.PlaceOffer:
    made = offer(site, in_s)
    return structs.replace(made, end=made.start + limit_s, nodes=nodes)


MANY = Implementation(name="many", sizes=(1, 2, 8), limits_s=(900, 500, 200), command=("many",))


def test_a_site_may_offer_another_way_to_run_the_job_and_that_is_the_job_then(rig: Rig) -> None:
    rank = "def rank(schedules, machine):\n    return 1\n"
    rid = rig.submit(implementations=(MANY,), rank=rank)
    ((_, asked),) = [each for each in of_kind(rig.sent, m.Solicit) if each[0] == "a"]
    assert isinstance(asked, m.Solicit)
    assert (asked.rank, asked.implementations) == (rank, (MANY,))
    assert [(each.nodes, each.limit_s) for each in asked.ways["a/m"]] == [
        (8, 200),
        (2, 500),
        (1, 900),
    ]
    rig.hear("a", bid(rid, structs.replace(offer_for("a", 100, 500, 2), way=1, chosen_by="rank")))
    rig.hear("b", bid(rid, structs.replace(offer_for("b", 900, 200, 8), rank_fault="it\nfailed")))
    rig.hear("c", bid(rid, structs.replace(offer_for("c", 900, 200, 8), way=2)))
    rig.hear("a", voted(rid))
    record = rig.row(rid)
    assert record.job.placed is not None
    assert record.job.placed.machine == "a/m"
    assert record.wants[0].end - record.wants[0].start == 500
    (words,) = [each for each in rig.told if "have bid" in each]
    assert "a/m with many on 2 nodes (by your rank) starts by" in words
    assert "b/m with many on 8 nodes (your rank failed there, and was ignored: it failed)" in words
    assert "c/m" not in words, "it offers what it was not asked for"


def test_where_a_job_runs_in_one_way_only_no_site_is_told_of_ways(rig: Rig) -> None:
    rig.submit(implementations=(SMALL,))
    for _, asked in of_kind(rig.sent, m.Solicit):
        assert isinstance(asked, m.Solicit)
        assert (asked.ways, asked.implementations, asked.rank) == ({}, (), "")


def test_each_machine_is_asked_for_the_implementation_that_ends_first_there(rig: Rig) -> None:
    rid = rig.submit(implementations=(LARGE, SMALL))
    asked = {
        site: (job.implementation, job.nodes, job.limit_s, job.command)
        for site, each in of_kind(rig.sent, m.Solicit)
        for job in each.jobs.values()  # type: ignore[attr-defined]
    }
    large = ("large", 4, 300, ("large",))
    assert asked == {"a": ("small", 1, 500, ("small",)), "b": large, "c": large}
    rig.hear("a", bid(rid, offer_for("a", 100, 500, 1)))
    rig.hear("b", bid(rid, offer_for("b", 290, 300, 4)))
    rig.hear("c", bid(rid, offer_for("c", 400, 300, 4)))
    rig.hear("b", voted(rid))
    placed = rig.row(rid).job.placed
    assert placed is not None
    assert (placed.machine, placed.implementation) == ("b/m", "large")
    assert any("b/m with large on 4 nodes starts by" in each for each in rig.told)
    assert any("a/m with small on 1 node ends 10s later" in each for each in rig.told)


def test_an_offer_for_another_implementation_than_was_asked_for_does_not_count(rig: Rig) -> None:
    rid = rig.submit(implementations=(LARGE, SMALL))
    rig.hear("a", bid(rid, offer_for("a", 1, 300, 4)))
    rig.hear("b", bid(rid, offer_for("b", 290, 300, 4)))
    sent = rig.hear("c", bid(rid, offer_for("c", 400, 300, 3)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["b"]


def test_where_no_implementation_fits_its_user_is_told_so(rig: Rig) -> None:
    none = structs.replace(SMALL, needs=attributes_in("gpus>=1", ""))
    rig.submit(implementations=(none,))
    assert not of_kind(rig.sent, m.Solicit)
    problem = rig.answers[1].problem
    assert problem is not None
    assert {each.where for each in problem.refusals} == {"a/m", "b/m", "c/m"}
    assert "none of the implementations fits it: small" in problem.refusals[0].detail


def picking() -> tuple[Rig, str]:
    """All three have bid, `b` ends first, then `c`; the user's script is asked for the order."""
    rig = Rig()
    rid = rig.submit(pick="def pick(bids):\n    return []\n")
    for site, in_s in (("a", 300), ("c", 200), ("b", 100)):
        assert not of_kind(rig.hear(site, bid(rid, offer(site, in_s))), m.Prepare)
    (run,) = rig.picks
    assert run.function == "pick"
    assert [each["machine"] for each in run.arguments[0]] == ["b/m", "c/m", "a/m"]
    return rig, rid


def picked(rig: Rig, rid: str, outcome: RunOutcome, att: int = 1) -> list[str]:
    """The script ends; return which sites are asked to promise."""
    rig.jobs.bids.picked(rid, att, outcome, rig.now)
    return [site for site, _ in of_kind(rig.settle(), m.Prepare)]


@pytest.mark.parametrize("answer", ["a/m", ["a/m"], ["a/m", "c/m", "b/m"]])
def test_a_script_of_the_user_orders_the_bids(answer: object) -> None:
    rig, rid = picking()
    assert picked(rig, rid, RunOutcome("ok", answer)) == ["a"]
    rig.hear("a", voted(rid))
    assert any("ordered by your script; a/m starts by" in each for each in rig.told)


@pytest.mark.parametrize(
    "outcome",
    [
        RunOutcome("limit-steps", detail="all 2,000,000 steps are used up"),
        RunOutcome("agent-error", detail="KeyError: x"),
        RunOutcome("sandbox-unavailable"),
        RunOutcome("killed", "a/m"),
        *(
            RunOutcome("ok", answer)
            for answer in (None, [], 7, {}, "z/m", ["a/m", "a/m"], ["a/m", "z/m"], [["a/m"]], "", [0])
        ),
    ],
)  # fmt: skip
def test_a_script_that_fails_or_answers_nonsense_changes_nothing(outcome: RunOutcome) -> None:
    rig, rid = picking()
    assert picked(rig, rid, outcome) == ["b"]
    rig.hear("b", voted(rid))
    assert any("was ignored" in each for each in rig.told)


def test_a_script_is_waited_for_no_longer_than_its_time_and_comes_too_late_then() -> None:
    rig, rid = picking()
    assert not of_kind(rig.pass_time(PICK_MS_MAX - 1), m.Prepare)
    assert [site for site, _ in of_kind(rig.pass_time(1), m.Prepare)] == ["b"]
    assert picked(rig, rid, RunOutcome("ok", "a/m")) == []
    rig.hear("b", voted(rid))
    assert any("did not answer in time" in each for each in rig.told)


def test_the_end_of_a_script_of_an_earlier_attempt_or_of_no_request_is_nothing() -> None:
    rig, rid = picking()
    assert picked(rig, rid, RunOutcome("ok", "a/m"), att=2) == []
    assert picked(rig, request_id(1, 1), RunOutcome("ok", "a/m")) == []
    assert picked(rig, rid, RunOutcome("ok", "c/m")) == ["c"]


def test_where_there_is_one_bid_no_script_is_asked(rig: Rig) -> None:
    rid = rig.submit(pick="def pick(bids):\n    return []\n")
    rig.hear("a", bid(rid, offer("a", 300)))
    sent = rig.pass_time(BID_MS_MAX)
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["a"]
    assert not rig.picks


# Jobs that start at most once


def at_two_sites() -> tuple[Rig, str]:
    """The job is promised places at `b` and `c`."""
    rig = Rig()
    rid = rig.submit(redundant=True)
    for site, in_s in (("a", 300), ("c", 200), ("b", 100)):
        sent = rig.hear(site, bid(rid, offer(site, in_s)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["b", "c"]
    assert [site for site, _ in of_kind(sent, m.Release)] == ["a"]
    return rig, rid


def start_ask(rig: Rig, rid: str, site: str, *, secret: str = "") -> list[tuple[str, m.Message]]:
    secret = secret or rig.jobs.starts.credentials.secret(rig.row(rid), site)
    return rig.hear("asker", m.StartAsk(rid=rid, att=1, site=site, secret=secret))


def verdicts(sent: list[tuple[str, m.Message]]) -> list[tuple[str, str, str]]:
    return [(to, each.says, each.at) for to, each in sent if isinstance(each, m.StartSays)]


def test_a_redundant_job_has_a_place_at_the_two_best_sites_once_both_have_voted() -> None:
    rig, rid = at_two_sites()
    assert not of_kind(rig.hear("b", voted(rid)), m.Decide)
    sent = rig.hear("c", voted(rid))
    assert [site for site, _ in of_kind(sent, m.Decide)] == ["b", "c"]
    placed = rig.answers[1].placed
    assert placed is not None
    assert [placed.machine, *(each.machine for each in placed.also)] == ["b/m", "c/m"]


def test_a_redundant_job_is_asked_for_anew_at_several_sites_where_one_does_not_promise() -> None:
    rig, rid = at_two_sites()
    rig.hear("b", voted(rid))
    sent = rig.hear("c", voted(rid, "no"))
    assert len(of_kind(sent, m.Solicit)) > 1


def test_a_redundant_job_for_which_one_site_bids_has_one_place() -> None:
    rig = Rig(machines={"a": 8})
    rid = rig.submit(redundant=True)
    sent = rig.hear("a", bid(rid, offer("a", 100)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["a"]


def test_the_first_site_that_asks_is_where_it_starts_and_the_other_is_told() -> None:
    rig, rid = at_two_sites()
    rig.hear("b", voted(rid))
    rig.hear("c", voted(rid))
    assert verdicts(start_ask(rig, rid, "c")) == [("asker", "start", ""), ("b", "elsewhere", "c")]
    assert verdicts(start_ask(rig, rid, "b")) == [("asker", "elsewhere", "c")]
    assert verdicts(start_ask(rig, rid, "c"))[0] == ("asker", "start", "")
    placed = view_of(rig.row(rid)).placed
    assert placed is not None
    assert (placed.machine, placed.also) == ("c/m", ())


def test_nobody_may_start_what_is_cancelled_or_not_decided_or_was_promised_elsewhere() -> None:
    rig, rid = at_two_sites()
    assert verdicts(start_ask(rig, rid, "b")) == []
    rig.hear("b", voted(rid))
    rig.hear("c", voted(rid))
    assert verdicts(start_ask(rig, rid, "a")) == []
    assert verdicts(start_ask(rig, rid, "b", secret="s" * 32)) == []
    rig.coordinator.calls.cancel(rig.row(rid), 2, rig.now)
    rig.settle()
    assert verdicts(start_ask(rig, rid, "b")) == [("asker", "over", "")]
    assert rig.row(rid).job.started is None


def placed_at_b(*, at_most_once: bool = True, rerun: bool = False) -> tuple[Rig, str]:
    """The job has its place at `b`, and everybody knows it."""
    rig = Rig()
    rid = rig.submit(at_most_once=at_most_once, rerun=rerun)
    for site, in_s in (("a", 300), ("c", 200), ("b", 100)):
        rig.hear(site, bid(rid, offer(site, in_s)))
    rig.hear("b", voted(rid))
    rig.hear("b", m.Done(rid=rid, att=1, of="commit"))
    return rig, rid


def move(rig: Rig, rid: str, in_s: int = 300, *, lost: bool = False) -> tuple[str, str]:
    """Ask for another place, and let all bid who are asked; return that request, and the winner."""
    old = rig.row(rid)
    new = rig.coordinator.calls.submit(
        ANN, "move-key", "digest", elsewhere(old, lost=lost), 2, rig.now, replaces=old
    )
    asked = [site for site, _ in of_kind(rig.settle(), m.Solicit)]
    assert asked
    assert "b" not in asked
    for site in asked:
        sent = rig.hear(site, bid(new, offer(site, in_s)))
    ((winner, _),) = of_kind(sent, m.Prepare)
    return new, winner


def test_a_job_keeps_its_place_until_it_has_another_and_then_its_first_site_is_told() -> None:
    rig, rid = placed_at_b()
    new, winner = move(rig, rid)
    assert rig.row(rid).state == "commit"
    sent = rig.hear(winner, voted(new))
    assert (rig.row(rid).state, rig.row(new).state) == ("replaced", "commit")
    assert [site for site, _ in of_kind(sent, m.Decide)] == [winner]
    rig.coordinator.attempts.take_over(rig.row(rid), rig.now)
    assert [site for site, _ in of_kind(rig.settle(), m.Cancel)] == ["b"]
    rig.hear("b", m.Done(rid=rid, att=1, of="cancel"))
    assert rig.row(rid).done
    assert verdicts(start_ask(rig, rid, "b")) == [("asker", "over", "")]


def test_a_job_that_starts_meanwhile_stays_where_it_is() -> None:
    rig, rid = placed_at_b()
    new, winner = move(rig, rid)
    assert verdicts(start_ask(rig, rid, "b")) == [("asker", "start", "")]
    sent = rig.hear(winner, voted(new))
    assert [each.outcome for _, each in sent if isinstance(each, m.Decide)] == ["abort"]
    assert (rig.row(rid).state, rig.row(new).state) == ("commit", "closed")
    problem = rig.row(new).problem
    assert problem is not None
    assert "the job has just started" in problem.detail


def test_a_job_that_fits_no_other_machine_stays_and_its_user_is_told_so(rig: Rig) -> None:
    rid = rig.submit(on="memory<128", at_most_once=True)
    rig.hear("a", bid(rid, offer("a", 100)))
    rig.hear("a", voted(rid))
    old = rig.row(rid)
    rig.coordinator.calls.submit(
        ANN, "move-key", "digest", elsewhere(old), 2, rig.now, replaces=old
    )
    assert of_kind(rig.settle(), m.Solicit) == []
    problem = rig.answers[2].problem
    assert problem is not None
    assert problem.detail == "this broker knows no other such machine: the job stays where it is"
    assert rig.row(rid).state == "commit"


@pytest.mark.parametrize("what", ["not at most once", "started", "cancelled"])
def test_what_may_have_started_or_has_no_place_is_not_placed_elsewhere(what: str) -> None:
    rig, rid = placed_at_b()
    if what == "started":
        start_ask(rig, rid, "b")
    if what == "cancelled":
        rig.coordinator.calls.cancel(rig.row(rid), 2, rig.now)
        rig.settle()
    record = rig.row(rid)
    if what == "not at most once":
        record.job = structs.replace(record.job, started=None)
    with pytest.raises(Conflict):
        check_may_leave(record)


@pytest.mark.parametrize("may_go", [True, False])
def test_what_waits_at_a_site_that_is_drained_is_placed_elsewhere_if_it_starts_at_most_once(
    *, may_go: bool
) -> None:
    rig, rid = placed_at_b(at_most_once=may_go)
    (want,) = rig.row(rid).wants
    reclaim = m.Reclaim(
        rid=rid, att=1, resources=(want.resource,), start=want.start, end=want.end, reason="drained"
    )
    sent = rig.hear("b", reclaim)
    asked = {site for site, _ in of_kind(sent, m.Solicit)}
    assert asked == ({"a", "c"} if may_go else set())
    assert of_kind(rig.hear("b", reclaim), m.Solicit) == []


def test_a_site_that_asks_for_other_places_without_end_has_others_asked_once_a_minute() -> None:
    rig, rid = placed_at_b()
    (want,) = rig.row(rid).wants
    reclaim = m.Reclaim(rid=rid, att=1, resources=(want.resource,), start=want.start, end=want.end)

    def asked() -> set[str]:
        """Ask back, and let all who are asked refuse for good."""
        sent = rig.hear("b", reclaim)
        for site, solicit in of_kind(sent, m.Solicit):
            no = Refusal(where=f"{site}/m", code=RefusalCode.NOT_ALLOWED, detail="not you")
            rig.hear(site, bid(solicit.rid, refusals=(no,)))  # type: ignore[attr-defined]
        return {site for site, _ in of_kind(sent, m.Solicit)}

    assert asked() == {"a", "c"}
    rows = rig.connection.total_changes
    assert [asked() for _ in range(10)] == [set()] * 10
    assert rig.connection.total_changes == rows
    rig.pass_time(ELSEWHERE_EVERY_MS)
    assert asked() == {"a", "c"}


def test_a_register_that_was_put_back_gives_no_other_place_to_a_job_that_may_have_started() -> None:
    rig, rid = placed_at_b()
    copy = sqlite3.connect(":memory:", isolation_level=None)
    rig.connection.backup(copy)
    assert verdicts(start_ask(rig, rid, "b")) == [("asker", "start", "")]
    rig.connection = copy
    lost = Problem(type="t", title="t", status=503, detail="d", code="unavailable")
    request_writes.carry_out(copy, [PutBack(), MadeGood((), lost)])
    with pytest.raises(Conflict, match="restored from a backup"):
        check_may_leave(rig.row(rid))
    assert job_reads.stranded(copy, ["b"], (), 10) == []
    assert verdicts(start_ask(rig, rid, "b")) == [("asker", "start", "")]


def test_jobs_of_a_lost_site_that_fit_nowhere_else_are_not_in_the_way_of_others() -> None:
    rig, rid = placed_at_b()
    ((record, number),) = job_reads.stranded(rig.connection, ["b"], (), 1)
    assert (record.rid, number) == (rid, 1)
    assert job_reads.stranded(rig.connection, ["b"], {rid}, 1) == []
    assert job_reads.stranded(rig.connection, ["a", "c"], (), 1) == []


@pytest.mark.parametrize("moved", [True, False])
def test_a_place_that_its_site_has_forgotten_is_given_up_without_being_locked_first(
    rig: Rig, *, moved: bool
) -> None:
    rid = rig.submit(at_most_once=True)
    for site, in_s in (("a", 300), ("c", 200), ("b", 100)):
        rig.hear(site, bid(rid, offer(site, in_s)))
    rig.hear("b", voted(rid))
    if moved:
        new, winner = move(rig, rid)
        rig.hear(winner, voted(new))
        rig.coordinator.attempts.take_over(rig.row(rid), rig.now)
    else:
        rig.coordinator.calls.cancel(rig.row(rid), 2, rig.now)
    rig.settle()
    assert of_kind(rig.pass_time(1_100), m.Cancel) == []
    rig.coordinator.site_forgot("b", rig.now)
    assert [site for site, _ in of_kind(rig.settle(), m.Cancel)] == ["b"]
    rig.hear("b", m.Done(rid=rid, att=1, of="cancel"))
    assert rig.row(rid).done


# Jobs that may start again


def ended(rid: str, end: str = "killed") -> m.EndOfJob:
    return m.EndOfJob(rid=rid, att=1, end=end, at=T0)  # type: ignore[arg-type]  # an EndWord


def running_at_b(*, at_most_once: bool = False) -> tuple[Rig, str]:
    rig, rid = placed_at_b(at_most_once=at_most_once, rerun=True)
    assert verdicts(start_ask(rig, rid, "b")) == [("asker", "start", "")]
    return rig, rid


def moved_from_b(*, at_most_once: bool = False) -> tuple[Rig, str, str, str]:
    """The job that runs at `b` has a place at the winner."""
    rig, rid = running_at_b(at_most_once=at_most_once)
    new, winner = move(rig, rid)
    rig.hear(winner, voted(new))
    assert (rig.row(rid).state, rig.row(new).state) == ("replaced", "commit")
    return rig, rid, new, winner


def test_a_job_that_may_start_again_is_one_that_asks_wherever_it_goes_and_knows_how_often_it_has(
    rig: Rig,
) -> None:
    rig.submit(rerun=True)
    (first, *_) = (each.job for _, each in of_kind(rig.sent, m.Solicit))  # type: ignore[attr-defined]
    assert (first.at_most_once, first.rerun) == (True, True)
    assert first.environment == {"KALENDS_RESTARTS": "0"}
    rig, rid = running_at_b()
    old = rig.row(rid)
    rig.coordinator.calls.submit(
        ANN, "move-key", "digest", elsewhere(old), 2, rig.now, replaces=old
    )
    for _, each in of_kind(rig.settle(), m.Solicit):
        assert each.job.environment["KALENDS_RESTARTS"] == "1"  # type: ignore[attr-defined]


def test_a_job_that_runs_and_may_start_again_has_another_place_and_starts_there_once_it_has_ended() -> (
    None
):
    rig, rid, new, winner = moved_from_b()
    rig.coordinator.attempts.take_over(rig.row(rid), rig.now)
    assert [site for site, _ in of_kind(rig.settle(), m.Cancel)] == ["b"]
    assert verdicts(start_ask(rig, new, winner)) == []
    sent = rig.hear("b", ended(rid))
    assert of_kind(sent, m.EndNoted)
    assert verdicts(sent) == [("asker", "start", "")]
    assert verdicts(start_ask(rig, new, winner)) == [("asker", "start", "")]
    assert verdicts(start_ask(rig, rid, "b")) == [("asker", "over", "")]


def test_a_job_that_ends_by_itself_meanwhile_has_ended_and_its_other_place_is_told_so() -> None:
    rig, rid, new, winner = moved_from_b()
    start_ask(rig, new, winner)
    assert verdicts(rig.hear("b", ended(rid, "exit"))) == [("asker", "over", "")]
    end = rig.row(new).job.ended
    assert end is not None
    assert end.end == "exit"
    assert verdicts(start_ask(rig, new, winner)) == [("asker", "over", "")]
    assert of_kind(rig.hear(winner, ended(new, "withdrawn")), m.EndNoted)
    with pytest.raises(Conflict, match="it has ended"):
        check_may_leave(rig.row(new))


@pytest.mark.parametrize("at_most_once", [True, False])
def test_a_job_of_a_lost_site_starts_elsewhere_while_it_may_run_there_unless_it_must_not(
    *, at_most_once: bool
) -> None:
    rig, _, new, winner = moved_from_b(at_most_once=at_most_once)
    rig.lost = ["b"]
    expected = [] if at_most_once else [("asker", "start", "")]
    assert verdicts(start_ask(rig, new, winner)) == expected


@pytest.mark.parametrize(("lost", "goes"), [(False, False), (True, True)])
def test_a_job_that_runs_goes_only_where_it_starts_soon_unless_its_site_is_lost(
    *, lost: bool, goes: bool
) -> None:
    rig, rid = running_at_b()
    old = rig.row(rid)
    new = rig.coordinator.calls.submit(
        ANN, "move-key", "digest", elsewhere(old, lost=lost), 2, rig.now, replaces=old
    )
    sent = rig.settle()
    for site, _ in of_kind(sent, m.Solicit):
        sent = rig.hear(site, bid(new, offer(site, SOON_S + 60)))
    assert bool(of_kind(sent, m.Prepare)) == goes
    if not goes:
        problem = rig.row(new).problem
        assert problem is not None
        assert all("the job stays where it is" in each.detail for each in problem.refusals)


def test_what_runs_at_a_site_that_is_drained_gets_another_place_if_it_may_start_again() -> None:
    rig, rid = running_at_b()
    (want,) = rig.row(rid).wants
    reclaim = m.Reclaim(
        rid=rid, att=1, resources=(want.resource,), start=want.start, end=want.end, reason="drained"
    )
    assert {site for site, _ in of_kind(rig.hear("b", reclaim), m.Solicit)} == {"a", "c"}


def test_what_starts_while_another_place_is_looked_for_is_looked_for_again() -> None:
    """It was to be moved as one that waits."""
    rig, rid = placed_at_b(at_most_once=False, rerun=True)
    new, winner = move(rig, rid)
    start_ask(rig, rid, "b")
    rig.hear(winner, voted(new))
    assert (rig.row(rid).state, rig.row(new).state) == ("commit", "closed")


def test_an_environment_that_is_full_stays_as_it_is() -> None:
    full = {f"V{number}": "" for number in range(JOB_ENVIRONMENT_MAX)}
    job = structs.replace(JOB, rerun=True, environment=full)
    rig, rid = placed_at_b(rerun=True)
    assert job_there(placement_of(rig.row(rid)), job).environment == full


def test_a_request_is_changed_by_its_user_alone_whoever_else_may_see_it() -> None:
    rig, rid = placed_at_b()
    scopes = frozenset({"use", "audit", "admin"})
    check_own(rig.row(rid), Caller(ANN, scopes, ""))
    with pytest.raises(NotAllowed, match="it belongs to ann"):
        check_own(rig.row(rid), Caller(Principal("oscar"), scopes, ""))
