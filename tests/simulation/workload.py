"""Clients: they book, hold, lock, release, move, extend, shrink and cancel, and repeat what is unanswered.

A client makes one call at a time, by any replica, and repeats it with the same key (or request id)
until it has a final answer. Some walk away in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.series.series_ids import member, series_of
from kalends.contract.calls import Patience, RequestView
from kalends.contract.messages import Want
from kalends.core.errors import KalendsError, NotFound
from kalends.core.requests import Alternative, Attribute, Request, Term
from tests.simulation.agents import SCRIPT_HASH
from tests.simulation.clocks import EPOCH_S
from tests.simulation.nodes import Call, Change

if TYPE_CHECKING:
    from tests.simulation.world import World

HOUR_S: Final = 3_600
KINDS: Final = ("book", "hold", "window", "pick", "agent", "quit")
PATIENCE: Final[tuple[Patience, ...]] = ("none", "held", "taken")
PATIENCE_MS: Final = 4_000
"""How long a client waits for an answer before it asks again, at least."""


class Size(NamedTuple):
    """How much there is to do in one schedule."""

    sites: int = 4
    clients: int = 4
    sagas: int = 3
    hours: int = 3
    """Slots are in so few hours that requests meet."""
    begin_s: int = 2 * HOUR_S
    slot_s: int = HOUR_S
    pause_ms: int = 15_000
    """How long clients pause between calls, at most."""
    kinds: tuple[int, int, int, int, int, int] = (35, 18, 14, 10, 18, 5)
    """How often a client books fixed slots, holds, books in a window, picks by attributes, sends an
    agent, quits."""
    patience: tuple[int, int, int] = (15, 55, 30)
    """How often it waits for nothing, for what is held, for what is taken."""
    long: float = 0.0
    """How many of those who name what they want need two slots, one after the other."""
    uses: tuple[int, int, int] = (35, 25, 40)
    """How often a reservation is kept, cancelled, changed."""
    series: float = 0.0
    """How many of the requests for fixed slots are for all hours, of which the last is not near the first."""
    series_changed: float = 0.0
    """How many of the series that are booked are moved or extended, from some occurrence on."""
    gives: float = 0.0
    """How many reservations are offered to another user, who accepts them sooner or later."""
    second_thoughts: float = 0.0
    """How many are cancelled while a change of them may still wait."""


CROWD: Final = Size(sites=3, clients=8, sagas=3, hours=2, pause_ms=4_000)
"""So many for so little that most of them wait."""


class Client:
    """One user's program: `sagas` one after the other."""

    def __init__(self, world: World, number: int, user: str, size: Size) -> None:
        self._world = world
        self._kernel = world.kernel
        self._random = world.kernel.random
        self._size = size
        self.name = f"client{number}"
        self._user = user
        self._sagas = size.sagas
        self._keys = 0
        self._calls = 0
        self._waiting: Call | None = None
        self.finished = False
        self.only: list[str] | None = None
        """Sites that it names, and never asks for others by attributes; None: any."""

    def start(self) -> None:
        self._kernel.after(self._random.randrange(1, self._size.pause_ms), self._next)

    # Sagas

    def _next(self) -> None:
        if self._sagas == 0:
            self.finished = True
            return
        self._sagas -= 1
        kind = self._random.choices(KINDS, self._size.kinds)[0]
        hold = kind == "hold" or (kind in ("window", "agent") and self._random.random() < 0.3)
        by_attributes = kind == "pick" or (kind == "agent" and self._random.random() < 0.4)
        fixed = kind not in ("window", "agent")
        spec = (
            self._pick()
            if by_attributes and self.only is None
            else self._named(fixed=fixed, hold=hold)
        )
        if kind == "agent":
            spec = by_agent(spec)
        spec = self._waiting_as_it_may(spec)
        key = self._new_key()
        if self._size.series and spec.wants and self._random.random() < self._size.series:
            specs = self._repeated(spec)
            call = Call("series", self._user, key=key, series=specs)
            changes = (
                self._random.random() < self._size.series_changed
                if self._size.series_changed
                else 0
            )
            self._call(call, self._repeats(specs) if changes else self._began(key, specs[0]))
            return
        if kind == "quit":
            call = Call("submit", self._user, key=key, spec=spec)
            broker = self._world.any_broker()
            self._world.network.carry(broker, broker.call, call)
            self._pause()
            return
        self._call(Call("submit", self._user, key=key, spec=spec), self._began(key, spec))
        if spec.patience == "taken" and self._random.random() < 0.3:
            self._kernel.after(self._random.randrange(1, 60_000), self._lose_patience, key)

    def _repeated(self, spec: Spec) -> tuple[Spec, ...]:
        """The same slots in several hours, the first of them perhaps not the first hour."""
        hours = self._random.sample(range(self._size.hours), self._random.choice((2, 2, 3)))
        first_s = min(want.start for want in spec.wants)
        begin_s = EPOCH_S + self._size.begin_s
        made = []
        for hour in sorted(hours):
            moved_s = begin_s + hour * self._size.slot_s - first_s
            wants = tuple(
                Want(each.resource, each.start + moved_s, each.end + moved_s, each.units)
                for each in spec.wants
            )
            made.append(Spec(request=request_for(wants), wants=wants, patience="none"))
        return tuple(made)

    def _repeats(self, specs: tuple[Spec, ...]) -> Callable[[Any], None]:
        """Change what is booked of a series, once, or twice; sometimes while others change one of it, too."""
        random = self._random

        def booked(answer: Any) -> None:
            if not isinstance(answer, RequestView) or answer.state != "reserved":
                self._pause()
                return
            together = random.random() < 0.5
            # Sites have not all confirmed what was booked a moment ago.
            soon = not together and random.random() < 0.7
            wait_ms = random.randrange(1, 600 if soon else 20_000)
            if random.random() < 0.5:
                occurrence = member(series_of(answer.id), random.choice((1, 1, 2)))
                just_before_ms = max(wait_ms - random.randrange(1_500), 1)
                self._kernel.after(just_before_ms, self._meddle, occurrence)
            self._kernel.after(wait_ms, self._change_series, answer.id, specs, together)

        return booked

    def _change_series(self, rid: str, specs: tuple[Spec, ...], together: bool) -> None:
        random, half_s = self._random, max(self._size.slot_s // 2, 60)
        names = [str(spec.wants[0].start) for spec in specs]
        later_s, longer_s = random.choice(
            (
                (half_s, 0),
                (-half_s, 0),
                (2 * half_s, 0),
                (0, half_s),
                (0, -half_s),
                (half_s, -half_s),
            )
        )
        since = random.choice(["", "", *names[1:]])
        change = Change(len(specs), since, later_s, longer_s, together)
        call = Call(
            "change-series", self._user, key=self._new_key(), rid=series_of(rid), change=change
        )

        def changed(answer: Any) -> None:
            if random.random() < 0.8:
                self._kernel.after(random.randrange(1, 30_000), self._repeat, call)
            then = random.random()
            if then < 0.3:
                cancel = Call("cancel", self._user, rid=rid)
                self._kernel.after(3_000, self._call, cancel, lambda _: self._pause())
            elif then < 0.5 and not longer_s:
                self._kernel.after(3_000, self._change_series, rid, specs, not together)
            else:
                self._pause()

        self._call(call, changed)

    def _repeat(self, call: Call) -> None:
        """Make a call again that was answered."""
        broker, again = self._world.any_broker(), replace(call, reply=lambda answer: None)
        self._world.network.carry(broker, broker.call, again)

    def _meddle(self, rid: str) -> None:
        """Cancel one occurrence, or move it by itself, whatever else is under way, and wait for no answer."""
        row = self._world.auditor.rows.get(rid)
        if row is None:
            return
        broker = self._world.any_broker()
        if self._random.random() < 0.4:
            call = Call("cancel", self._user, rid=rid)
        else:
            half_s = max(self._size.slot_s // 2, 60)
            old = (Want(**want) for want in row.body["wants"])
            wants = tuple(Want(w.resource, w.start + half_s, w.end + half_s, w.units) for w in old)
            give_up_at = EPOCH_S + self._kernel.now_ms // 1_000 + 15
            spec = Spec(
                request=request_for(wants), wants=wants, patience="taken", give_up_at=give_up_at
            )
            call = Call("submit", self._user, key=self._new_key(), spec=spec, replaces=rid)
        self._world.network.carry(broker, broker.call, call)

    def _waiting_as_it_may(self, spec: Spec) -> Spec:
        patience = self._random.choices(PATIENCE, self._size.patience)[0]
        give_up_at = 0
        if patience == "taken":
            wall_s = EPOCH_S + self._kernel.now_ms // 1_000
            give_up_at = wall_s + self._random.choice((5, 30, 90))
        return msgspec.structs.replace(spec, patience=patience, give_up_at=give_up_at)

    def _lose_patience(self, key: str) -> None:
        """Give up what is not decided yet; whether that comes in time is for the brokers to say."""
        rid = self._world.rid_of(self._user, key)
        if rid:
            broker = self._world.any_broker()
            call = Call("release", self._user, rid=rid)
            self._world.network.carry(broker, broker.call, call)

    def _pause(self) -> None:
        self._kernel.after(self._random.randrange(1, self._size.pause_ms), self._next)

    def _began(self, key: str, spec: Spec) -> Callable[[Any], None]:
        def go_on(answer: Any) -> None:
            if not isinstance(answer, RequestView):
                self._pause()
            elif answer.state == "held":
                self._consider(answer)
            elif answer.state == "reserved":
                self._use(answer.id, spec)
            else:
                self._pause()

        return go_on

    def _consider(self, view: RequestView) -> None:
        """Lock it, release it, or forget about it."""
        kind = self._random.choices(("lock", "release", "forget"), (60, 25, 15))[0]
        if kind == "forget":
            self._pause()
            return
        call = Call(kind, self._user, rid=view.id)
        think_ms = self._random.randrange(1, 20_000)

        def locked(answer: Any) -> None:
            if isinstance(answer, RequestView) and answer.state == "reserved":
                self._call(Call("cancel", self._user, rid=view.id), lambda _: self._pause())
            else:
                self._pause()

        self._kernel.after(think_ms, self._call, call, locked)

    def _use(self, rid: str, spec: Spec) -> None:
        """What people do with a reservation."""
        kind = self._random.choices(("keep", "cancel", "change"), self._size.uses)[0]
        wait_ms = self._random.randrange(1, 15_000)
        if self._size.gives and self._random.random() < self._size.gives:
            self._kernel.after(wait_ms, self._give, rid, self._user)
        elif kind == "keep":
            self._kernel.after(wait_ms, self._next)
        elif kind == "cancel":
            call = Call("cancel", self._user, rid=rid)
            self._kernel.after(wait_ms, self._call, call, lambda _: self._pause())
        else:
            self._kernel.after(wait_ms, self._change, rid)

    def _give(self, rid: str, user: str) -> None:
        """Offer what `user` has to another, who accepts it; sometimes while it is withdrawn or cancelled."""
        random = self._random
        heir = random.choice([each for each in self._world.all_users if each != user])
        row = self._world.auditor.rows[rid]
        wants = tuple(Want(**want) for want in row.body["wants"])
        key = self._new_key()
        spec = Spec(request=request_for(wants), wants=wants, heir_of=user)
        accept = Call("submit", heir, key=key, spec=spec, replaces=rid)

        def taken(answer: Any) -> None:
            new = self._world.rid_of(heir, key)
            if isinstance(answer, RequestView) and answer.state == "reserved" and new:
                then = random.random()
                if then < 0.3:
                    cancel = Call("cancel", heir, rid=new)
                    self._kernel.after(3_000, self._call, cancel, lambda _: self._pause())
                    return
                if then < 0.6:
                    self._kernel.after(3_000, self._give, new, heir)
                    return
            self._pause()

        def offered(answer: Any) -> None:
            self._kernel.after(random.randrange(1, 10_000), self._call, accept, taken)
            kind = random.choices(("", "withdraw", "cancel"), (60, 30, 10))[0]
            if kind:
                self._kernel.after(
                    random.randrange(1, 15_000), self._send_once, kind, user, rid, heir
                )

        self._call(Call("give", user, rid=rid, heir=heir), offered)

    def _send_once(self, kind: str, user: str, rid: str, heir: str) -> None:
        broker = self._world.any_broker()
        self._world.network.carry(broker, broker.call, Call(kind, user, rid=rid, heir=heir))

    def _change(self, rid: str) -> None:
        """Move, extend or shrink; sometimes while a cancel is on its way, too."""
        row = self._world.auditor.rows[rid]
        wants = tuple(Want(**want) for want in row.body["wants"])
        half_s = max(self._size.slot_s // 2, 60)
        start_s, end_s = self._random.choice(
            (
                (half_s, half_s),
                (-half_s, -half_s),
                (0, half_s),
                (0, -half_s),
                (2 * half_s, 2 * half_s),
            )
        )
        fewer = self._random.random() < 0.3
        wants = tuple(
            Want(w.resource, w.start + start_s, w.end + end_s, max(1, w.units - fewer))
            for w in wants
        )
        if any(want.start >= want.end for want in wants):
            self._pause()
            return
        key = self._new_key()
        spec = Spec(request=request_for(wants), wants=wants)
        call = Call("submit", self._user, key=key, spec=spec, replaces=rid)
        if self._random.random() < 0.15:
            broker = self._world.any_broker()
            self._world.network.carry(broker, broker.call, Call("cancel", self._user, rid=rid))
        elif self._size.second_thoughts and self._random.random() < self._size.second_thoughts:
            self._kernel.after(self._random.randrange(1, 20_000), self._think_again, rid)

        def changed(answer: Any) -> None:
            new = self._world.rid_of(self._user, key)
            if isinstance(answer, RequestView) and answer.state == "reserved" and new:
                again = self._random.random()
                if again < 0.4:
                    cancel = Call("cancel", self._user, rid=new)
                    self._kernel.after(3_000, self._call, cancel, lambda _: self._pause())
                    return
                if again < 0.6:
                    self._kernel.after(3_000, self._change, new)
                    return
            self._pause()

        self._call(call, changed)

    def _think_again(self, rid: str) -> None:
        """Cancel what stands; whether the change comes before that is for the register to say."""
        broker = self._world.any_broker()
        self._world.network.carry(broker, broker.call, Call("cancel", self._user, rid=rid))

    # Requests

    def _named(self, *, fixed: bool, hold: bool) -> Spec:
        world, random = self._world, self._random
        names = self.only if self.only is not None else world.site_names
        count = min(random.choice((1, 2, 2, 3, 3)), len(names))
        sites = random.sample(names, count)
        start = self._start()
        slots = 2 if self._size.long and random.random() < self._size.long else 1
        wants = []
        for site in sites:
            for name in random.sample(("x", "n"), random.choice((1, 1, 1, 2))):
                units = random.randrange(1, 4) if name == "n" else 1
                wants.append(
                    Want(f"{site}/{name}", start, start + slots * self._size.slot_s, units)
                )
        window_s = 0 if fixed else self._size.hours * self._size.slot_s
        hold_s = random.choice((5, 30, 60, 120)) if hold else 0
        request = request_for(tuple(wants), window_s)
        return Spec(request=request, hold=hold, hold_s=hold_s, wants=tuple(wants) if fixed else ())

    def _pick(self) -> Spec:
        """N of the nodes of all sites."""
        random = self._random
        start = self._start()
        node = Attribute(name="kind", operator="=", value="node")
        count = random.randrange(1, min(3, len(self._world.sites)) + 1)
        term = Term(attributes=(node,), count=count, units=random.randrange(1, 3))
        request = Request(
            alternatives=(Alternative(terms=(term,)),),
            duration_s=self._size.slot_s,
            not_before=start,
            not_after=start + self._size.hours * self._size.slot_s,
        )
        return Spec(request=request)

    def _start(self) -> int:
        size = self._size
        begin_s = (
            EPOCH_S + size.begin_s + self._kernel.now_ms // 60_000 * 60 * (size.slot_s < HOUR_S)
        )
        return begin_s + self._random.randrange(size.hours) * size.slot_s

    # Calls, repeated until they are answered

    def _call(self, call: Call, then: Callable[[Any], None]) -> None:
        self._calls += 1
        number = self._calls

        def replied(answer: Any) -> None:
            if number != self._calls or self._waiting is not call:
                return
            if self._is_final(call, answer):
                self._waiting = None
                then(answer)

        call.reply = replied
        self._waiting = call
        self._ask(call)

    def _ask(self, call: Call) -> None:
        if self._waiting is not call:
            return
        hasty = self._random.random() < 0.15
        for broker in self._world.brokers if hasty else [self._world.any_broker()]:
            if broker.up:
                self._world.network.carry(broker, broker.call, call)
        wait_ms = PATIENCE_MS + self._random.randrange(8_000)
        self._kernel.after(wait_ms, self._ask, call)

    def _is_final(self, call: Call, answer: Any) -> bool:
        if isinstance(answer, NotFound):
            return False
        if call.kind == "give":
            return True
        if isinstance(answer, KalendsError):
            return True
        if call.kind in ("lock", "release"):
            return answer.state not in ("open", "held")
        if call.kind == "cancel":
            return answer.state in ("cancelled", "replaced")
        return answer.state != "open"

    def _new_key(self) -> str:
        self._keys += 1
        return f"{self.name}-key-{self._keys}"


def by_agent(spec: Spec) -> Spec:
    """`spec`, with slots that a script chooses."""
    request = msgspec.structs.replace(spec.request, agent="somehow")
    return msgspec.structs.replace(spec, request=request, agent="somehow", script=SCRIPT_HASH)


def request_for(wants: tuple[Want, ...], window_s: int = 0) -> Request:
    """The request for `wants` by name; all of them are of one length."""
    start, end = wants[0].start, wants[0].end
    terms = tuple(Term(resource=want.resource, units=want.units) for want in wants)
    return Request(
        alternatives=(Alternative(terms=terms),),
        duration_s=end - start,
        not_before=start,
        not_after=start + max(window_s, end - start),
    )
