"""What a site asks the batch system behind it for, and what it makes of the answers."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace
from tests.protocol_support import (
    ANN,
    DAY,
    REGISTER,
    SITE_SECRET,
    T0,
    abort,
    commit,
    resource,
    rid,
    secret_of,
    told,
    vote,
    want,
)

from kalends.backends.records import (
    ChangeReservation,
    DeleteReservation,
    ListSystem,
    SystemAnswer,
    SystemReservation,
    SystemState,
    Traits,
    UnwellNode,
    Write,
)
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.claim_sets import StakeStored, decode_stake
from kalends.resource_servers.participation.effects import ParticipantEffects
from kalends.resource_servers.participation.memory.past import Past
from kalends.resource_servers.participation.provision.grants import GrantStored, decode_grant
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.servers.restored_participant import guarded_by, site_machine

HOUR_S: Final = 3_600
USERS: Final = {"ann": "unix-ann"}
GIVE_UP_MS: Final = 3_000

NODES: Final = ResourceBackend(
    "batch", ("n1", "n2"), USERS, repair_s=5 * DAY, answer_ms_max=60_000, give_up_ms=GIVE_UP_MS
)
ONE_NODE: Final = ResourceBackend(
    "batch", ("n1",), USERS, answer_ms_max=60_000, give_up_ms=GIVE_UP_MS
)
APART: Final = ResourceBackend(
    "batch", ("n1", "n2"), USERS, Traits(gap_s=60), give_up_ms=GIVE_UP_MS
)
CORES: Final = ResourceBackend("batch", ("n1", "n2"), USERS, unit="cores", units_each=2)
CORES_APART: Final = ResourceBackend(
    "batch", ("n1", "n2"), USERS, Traits(gap_s=60), unit="cores", units_each=2
)


class Backed:
    """A site, and its batch system: that tells what it has at once, and writes when a test says so."""

    def __init__(self, backend: ResourceBackend, *others: SystemReservation) -> None:
        self.backend = backend
        self.has = {each.name: each for each in others}
        self.asked: list[tuple[int, Write]] = []
        """What it has been asked for, and not answered yet."""
        self.stakes: dict[str, bytes] = {}
        self.grants: dict[int, bytes] = {}
        self.lives: dict[str, int] = {}
        self.unwell: tuple[UnwellNode, ...] = ()
        self.ms = 1_000
        self.start()

    @property
    def now(self) -> Moment:
        return Moment(self.ms, T0 * 1_000 + self.ms)

    def start(self) -> None:
        """A life of the site begins with what is stored; nobody hears what the last one has asked."""
        self.asked.clear()
        epoch, life = len(self.lives) + 1, f"{len(self.lives) + 1:032x}"
        self.participant = site_machine(
            "here", {"here/pool": resource("here/pool", sum(self.backend.room.values()))}, epoch=epoch,
            jitter=lambda: 0.0, stakes=[decode_stake(body) for body in self.stakes.values()],
            guard=guarded_by({"here/pool": self.backend}, map(decode_grant, self.grants.values())),
            past=Past(life, 0, dict(self.lives), SITE_SECRET), now=self.now,
        )  # fmt: skip
        self.provisions = self.participant.wing(Provisions)
        self.lives[life] = 0
        welcome = m.Welcome(register=REGISTER, secret=proofs.site_key("", "here"))
        self.participant.receive("broker", welcome, self.now)
        self.pass_time(0)

    def receive(self, message: m.Visit | m.Decide | m.Query) -> ParticipantEffects:
        if not isinstance(message, m.Query):
            message = replace(message, secret=secret_of(message.rid))
        self.participant.receive("broker", message, self.now)
        return self._settle()

    def pass_time(self, ms: int) -> ParticipantEffects:
        self.ms += ms
        self.participant.advance(self.now)
        return self._settle()

    def write(self, told: SystemReservation | None = None) -> ParticipantEffects:
        """The system does what it was asked for first, and tells that, or `told`."""
        number, errand = self.asked.pop(0)
        if isinstance(errand, DeleteReservation):
            self.has.pop(errand.name, None)
            answer = SystemAnswer("done")
        else:
            kept = self.has[errand.reservation.name] = told or errand.reservation
            answer = SystemAnswer("done", found=kept)
        self.provisions.answered(number, answer, self.now)
        return self._settle()

    def refuse(self, why: str) -> ParticipantEffects:
        """The system refuses what it was asked for first, and leaves everything as it is."""
        number, errand = self.asked.pop(0)
        assert not isinstance(errand, DeleteReservation)
        answer = SystemAnswer("refused", why, found=self.has.get(errand.reservation.name))
        self.provisions.answered(number, answer, self.now)
        return self._settle()

    def lock(self, number: int, *wants: m.Want) -> None:
        """Have the system grant, and the broker commit, what is wanted."""
        self.receive(vote(number, *wants))
        assert self.votes(self.write()) == ["yes"]
        stake = self.participant.book.stakes[rid(number)]
        self.receive(commit(number, *(claim.hold_id for claim in stake.claims)))

    def shown(self, wanted: m.Want, *, replaces: int = 0) -> list[tuple[int, int, int]]:
        """Return what is shown as free to whoever wants it for an hour."""
        query = m.Query(
            query_id=1, principal=ANN, wants=(wanted,), stamp=2, counting="all", length_s=HOUR_S,
            replaces=rid(replaces) if replaces else "",
        )  # fmt: skip
        (view,) = told(self.receive(query), m.View)
        return list(view.views[0].steps)

    def find_out(self, begins: int, units: int) -> None:
        """An hour is promised from then on, and not from a second before."""
        early = m.Want("here/pool", begins - 1, begins - 1 + HOUR_S, units)
        assert self.votes(self.receive(vote(8, early))) == ["no"]
        assert not self.asked
        self.receive(vote(9, replace(early, start=begins, end=begins + HOUR_S)))
        assert self.votes(self.write()) == ["yes"]

    def votes(self, effects: ParticipantEffects) -> list[str]:
        return [each.vote for each in told(effects, m.Visited)]

    def _settle(self) -> ParticipantEffects:
        every = ParticipantEffects()
        while effects := self.participant.take_effects():
            every.sends += effects.sends
            every.reports += effects.reports
            for fact in effects.facts:
                if isinstance(fact, StakeStored):
                    self.stakes[fact.rid] = fact.body
                elif isinstance(fact, GrantStored):
                    self.grants[fact.number] = fact.body
            for number, _, errand in effects.provisions:
                if isinstance(errand, ListSystem):
                    answer = SystemAnswer("done", state=self._state())
                    self.provisions.answered(number, answer, self.now)
                elif isinstance(errand, Write):
                    self.asked.append((number, errand))
        self.participant.check()
        return every

    def _state(self) -> SystemState:
        cores = tuple(self.backend.room.items()) if self.backend.unit == "cores" else ()
        return SystemState(
            self.now.wall_s,
            T0 - HOUR_S,
            self.backend.nodes,
            tuple(self.has.values()),
            cores=cores,
            unwell=self.unwell,
        )


def in_hours(start: int, end: int, units: int) -> m.Want:
    return want("pool", start * HOUR_S, end * HOUR_S, units)


def of_others(start: int, end: int, *nodes: str, cores: tuple[int, ...] = ()) -> SystemReservation:
    wanted = in_hours(start, end, 1)
    return SystemReservation("theirs", wanted.start, wanted.end, nodes, ("bob",), cores=cores)


def with_sum(one: SystemReservation) -> SystemReservation:
    return replace(one, cores=(sum(one.cores),))


def test_an_answer_about_what_is_not_wanted_any_more_endangers_no_promise() -> None:
    site = Backed(NODES)
    site.lock(1, in_hours(0, 1, 1))
    site.receive(vote(2, in_hours(0, 2, 1), replaces=1))
    site.receive(abort(2))
    effects = site.write()
    ((_, errand),) = site.asked
    assert isinstance(errand, ChangeReservation)
    assert errand.reservation.end == in_hours(0, 1, 1).end
    late = site.pass_time(30_000)
    assert told(late, m.Reclaim) == []
    assert [text for _, text in (*effects.reports, *late.reports) if text] == []


@pytest.mark.parametrize("restarted", [False, True])
def test_cores_that_move_between_nodes_are_asked_for_where_only_their_sum_is_told(
    *, restarted: bool
) -> None:
    site = Backed(CORES)
    site.receive(vote(1, in_hours(0, 1, 3)))
    ((_, errand),) = site.asked
    assert isinstance(errand, Write)
    assert not isinstance(errand, DeleteReservation)
    first = errand.reservation
    assert first.cores == (2, 1)
    stake = site.participant.book.stakes[rid(1)]
    assert site.votes(site.write(with_sum(first))) == ["yes"]
    site.receive(commit(1, *(claim.hold_id for claim in stake.claims)))
    assert not site.asked

    site.has["theirs"] = of_others(0, 1, "n1", cores=(1,))
    site.pass_time(10_000)
    if restarted:
        site.start()
    ((_, errand),) = site.asked
    assert isinstance(errand, ChangeReservation)
    assert errand.reservation.cores == (1, 2)
    assert site.provisions.kept(site.now) == (0, 1)
    site.write(with_sum(errand.reservation))
    site.pass_time(10_000)
    assert not site.asked
    assert site.provisions.kept(site.now) == (1, 0)


def test_what_is_shown_as_free_can_be_promised_where_a_gap_lies_between_reservations() -> None:
    site = Backed(APART)
    site.lock(1, in_hours(0, 1, 1))
    begins = in_hours(1, 1, 2).start + APART.traits.gap_s
    assert site.shown(in_hours(0, 4, 2)) == [(begins, in_hours(0, 4, 2).end, 2)]
    site.find_out(begins, units=2)


def test_a_gap_lies_also_between_what_two_others_have_of_the_cores_of_a_node() -> None:
    one, other = (
        replace(of_others(start, start + 1, "n1", "n2", cores=(1, 1)), name=f"theirs-{start}")
        for start in (0, 1)
    )
    site = Backed(CORES_APART, one, other)
    begins = other.start + CORES_APART.traits.gap_s
    assert site.shown(in_hours(1, 4, 1))[0][0] == begins
    site.find_out(begins, units=1)


def test_what_replaces_a_promise_that_was_given_up_is_not_shown_the_gaps_beside_it() -> None:
    site = Backed(APART, replace(of_others(1, 2, "n2"), name="before"))
    site.lock(1, in_hours(0, 1, 1))
    site.has["theirs"] = of_others(0, 1, "n1")
    late = [site.pass_time(10_000) for _ in range(3)]
    assert [each.lost for effects in late for each in told(effects, m.Reclaim)]
    begins = in_hours(1, 1, 1).start + APART.traits.gap_s
    assert site.shown(in_hours(0, 4, 1), replaces=1)[0][0] == begins


def test_no_promise_is_given_up_while_room_is_on_its_way_out() -> None:
    site = Backed(NODES)
    site.lock(1, in_hours(2, 3, 1))
    site.receive(vote(2, in_hours(2, 3, 1)))
    assert site.votes(site.write()) == ["yes"]
    site.has["theirs"] = of_others(2, 3, "n1")
    site.pass_time(10_000)
    site.receive(abort(2))
    ((_, errand),) = site.asked
    assert isinstance(errand, DeleteReservation)
    late = [site.pass_time(10_000) for _ in range(5)]
    assert [each for effects in late for each in told(effects, m.Reclaim)] == []
    site.write()
    site.pass_time(10_000)
    ((_, errand),) = site.asked
    assert isinstance(errand, ChangeReservation)
    assert errand.reservation.nodes == ("n2",)


def test_what_could_not_be_had_at_one_time_is_not_reclaimed_at_another() -> None:
    site = Backed(ONE_NODE)
    site.receive(vote(1, in_hours(0, 1, 1)))
    site.has["theirs"] = of_others(0, 1, "n1")
    for _ in range(4):
        site.pass_time(10_000)
    site.receive(abort(1))
    site.receive(vote(1, in_hours(2, 3, 1), att=2))
    site.asked.reverse()  # The answer about the old one is still awaited.
    assert site.votes(site.write()) == ["yes"]
    (claim,) = site.participant.book.stakes[rid(1)].claims
    effects = site.receive(commit(1, claim.hold_id, att=2))
    late = [effects, *(site.pass_time(10_000) for _ in range(12))]
    assert [each for effects in late for each in told(effects, m.Reclaim)] == []


def test_an_operator_hears_what_was_undone_until_it_is_set_right_whatever_else_goes_wrong() -> None:
    site = Backed(ONE_NODE)
    site.lock(1, in_hours(2, 3, 1))
    (promised,) = site.has.values()
    site.has[promised.name] = replace(promised, end=promised.end - 600)
    seen = site.pass_time(10_000).reports
    assert [
        text for _, text in seen if text.endswith("was changed there, by a person or in a crash")
    ]
    ((about, said),) = site.refuse("not now").reports
    assert promised.name in said
    assert said.endswith("it says: not now")
    site.pass_time(10_000)
    assert (about, "") in site.write().reports


def test_a_node_that_fails_under_a_slot_that_has_begun_is_reported_until_it_is_well() -> None:
    site = Backed(NODES)
    site.lock(1, in_hours(0, 2, 2))
    site.lock(2, in_hours(4, 5, 2))

    def losses(ms: int) -> list[tuple[str, int, str]]:
        found: list[tuple[str, int, str]] = []
        for _ in range(4):  # It is looked at now and then, and what is not noted is said again.
            news = told(site.pass_time(ms // 4), m.SlotLoss)
            found += [(each.rid, each.nodes, each.detail) for each in news]
        return list(dict.fromkeys(found))

    assert losses((DAY + 600) * 1_000) == []
    site.unwell = (UnwellNode("n2", "down"),)
    assert losses(60_000) == [(rid(1), 1, "n2 is out of order")]
    site.unwell = ()
    assert losses(60_000)[-1] == (rid(1), 0, "")
