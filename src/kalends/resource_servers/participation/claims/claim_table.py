"""The site's book: every stake, and its claims on the calendars. Pure; knows rules, not protocol.

All operations happen whole or not at all. What is on the calendars follows from the stakes:

- claims that are held, prepared or locked are booked;
- a stake that replaces a locked one is booked only where it exceeds the old, until it is committed,
  because until then the old stands;
- of alternatives, which can only be held, the larger is booked at each instant (see `occupancy`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from msgspec import structs
from sortedcontainers import SortedList

from kalends.calendars import Booking, KeptSlots, ResourceCalendar, State, unknown_resource
from kalends.contract.messages import Want
from kalends.core.errors import Conflict, InvalidInput, Refusal, RefusalCode
from kalends.core.identifiers import machine_of, queue_of
from kalends.core.intervals import Interval, joined
from kalends.core.limits import TIME_S_MAX
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.buffers import Buffers, unbuffered
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake, claims_of
from kalends.resource_servers.participation.claims.claims_at_rest import Restored, Stakes
from kalends.resource_servers.participation.claims.earmarks import Stretch
from kalends.resource_servers.participation.claims.occupancy import (
    Piece,
    Placed,
    are_alternatives,
    booking_of,
    buffered,
    envelope_at,
    peak_units,
    piece_bookings,
    pieces_beyond,
    place,
)
from kalends.resource_servers.participation.claims.smaller_resources import (
    in_the_way,
    retired,
    still_booked,
    too_small,
)
from kalends.resource_servers.participation.claims.transitions import ClaimState
from kalends.resource_servers.participation.claims.usage import Usage

BOOKED: Final[frozenset[ClaimState]] = frozenset({"held", "intended", "prepared", "locked"})
"""States in which claims are on the calendars."""


class ClaimTable:
    """Stakes by request id, and the calendars they are booked on.

    `new_id` gives booking numbers that were never used before at this site (fence numbers).
    """

    def __init__(
        self, calendars: Mapping[str, ResourceCalendar], new_id: Callable[[], int]
    ) -> None:
        self.calendars = dict(calendars)
        self.stakes = Stakes(self._woken)
        self.new_id = new_id
        self._placed: dict[str, list[Placed]] = {}
        self._changers: dict[str, str] = {}
        self._counts: Counter[tuple[str, State]] = Counter()
        self._totals: Counter[State] = Counter()
        self._counted: dict[str, tuple[str, State, int]] = {}
        self.usage = Usage(self.calendars)
        self.companions = _have_companions(self.calendars)
        """Resources may come only together with others."""
        self.buffers = Buffers(self.calendars, self.stakes, self._changers)
        self._expires_ms: dict[str, int] = {}
        self._expiries = SortedList()
        """``(expires_ms, rid)`` of every stake that runs out."""
        self._freed: list[Stretch] = []
        self._locked: list[Stretch] = []
        machines = [machine for each in calendars if (machine := machine_of(each))]
        self._watched = frozenset({*machines, *map(queue_of, machines)})
        """Machines with a queue, and their queues: `take_moved` tells of them."""
        self._moved: dict[Placed, None] = {}
        self.others: Counter[str] = Counter()
        """Bookings on each calendar that are of no stake."""
        self._spent: set[Placed] = set()
        """What is over, and has no room on a calendar that was made smaller since: it is booked no more."""

    def restore(self, stakes: Iterable[Stake], now_s: int = 0, held_until_ms: int = 0) -> None:
        """Take over `stakes` as they were stored; replacements last, for they build on the old.

        What is held, because it waits for its owner's word, is held until `held_until_ms` (monotonic).

        Raises `Conflict` when they do not fit the calendars together, and names who is in the way: an owner
        has made a resource smaller, or taken it away. What is over by `now_s` is in nobody's way.
        """
        restored = stakes if isinstance(stakes, Restored) else Restored(stakes)
        self.stakes.restore(restored)
        booked = [stake for stake in self.stakes.awake() if _is_booked(stake)]
        waiting = [stake for stake in booked if self._standing(stake) is not None]
        waiting_rids = {stake.rid for stake in waiting}
        alone = [stake for stake in booked if stake.rid not in waiting_rids]
        self._load(restored, alone, now_s, held_until_ms)
        self.buffers.look(stored=restored.buffered)
        for stake in alone if self.buffers.kept else ():
            self.buffers.note_booked(stake.claims)
        for stake in waiting:
            state, until_ms = _restored_as(stake, held_until_ms)
            bookings = [booking_of(stake, each, state) for each in stake.claims]
            for claim, booking in zip(stake.claims, bookings, strict=True):
                if claim.resource not in self.calendars:
                    raise still_booked(claim.resource, "UTC", self._named([booking]))
                if claim.units > self.calendars[claim.resource].info.capacity:
                    raise too_small(self.calendars[claim.resource].info, self._named([booking]))
            full = self.occupy(stake, state, until_ms)
            if full:
                raise too_small(self.calendars[full].info, self._named(bookings))
        self.buffers.renew()

    def _named(self, bookings: Sequence[Booking]) -> list[Booking]:
        """Return `bookings` under the ids by which users call their reservations."""
        return [
            structs.replace(each, reservation=self.stakes.reservation_of(each.reservation))
            for each in bookings
        ]

    def check_carries(self, changed: Mapping[str, ResourceCalendar], now_s: int) -> None:
        """Raise `Conflict`, as `restore` does, unless `changed` resources carry all that is booked."""
        for name, calendar in self.calendars.items():
            if machine_of(name):
                continue
            # What is kept for the owner makes way.
            there = [each for each in calendar.calendar.listing(0, TIME_S_MAX) if each.holder]
            capacity = changed[name].info.capacity if name in changed else 0
            standing = (
                in_the_way(there, capacity, now_s) if capacity < calendar.info.capacity else []
            )
            if standing and name in changed:
                raise too_small(changed[name].info, self._named(standing))
            if standing:
                raise still_booked(name, calendar.info.zone, self._named(standing))

    def take_rules(self, changed: Mapping[str, ResourceCalendar], now_s: int = 0) -> None:
        """Let `changed` resources be as they are there; what is booked stays, and counts against new limits.

        They carry what is booked (`check_carries`). A resource that is not among them is nobody's any more.
        """
        for name, calendar in changed.items():
            before = self.calendars.setdefault(name, calendar)
            if before.info.capacity != calendar.info.capacity:
                over = before.resize(calendar.info.capacity, now_s)
                self._spent.update((name, each.id) for each in over)
                self._freed.append((name, now_s, TIME_S_MAX))
            if before is not calendar:
                before.take_rules(calendar)
        for name in self.calendars.keys() - changed.keys():
            if not machine_of(name):
                self.calendars[name].retire()
        for rid in self._placed if self._spent else ():
            self._placed[rid] = self._unspent(self._placed[rid])
        self.companions = _have_companions(self.calendars)
        self.buffers.look()
        self.buffers.renew()
        self.usage = Usage(self.calendars)
        for stake, _, (_, state, _) in self._booked():
            self.usage.note(stake, state, self._counted_already(stake))
        for stake in self._used():
            self.usage.note_used(stake)

    def _used(self) -> Iterator[Stake]:
        """Yield what is not booked any more, and was used in part; none where no limit counts it."""
        every = self.stakes.every() if self.usage.counts else ()
        return (stake for stake in every if stake.used)

    def _load(
        self, restored: Restored, promised: Sequence[Stake], now_s: int, held_until_ms: int
    ) -> None:
        """Book what rests, and what is promised and stands by itself, a calendar at a time."""
        by_resource = restored.bookings
        for stake in promised:
            state, until_ms = _restored_as(stake, held_until_ms)
            for claim in stake.claims:
                booking = booking_of(stake, claim, state)
                by_resource[claim.resource][stake.rid, claim.hold_id] = booking
            self._placed[stake.rid] = self._places_of(stake)
            self._count(stake, state)
            self._set_expiry(stake, until_ms)
        for user, number in restored.locked.items():
            self._counts[user, "locked"] += number
            self._totals["locked"] += number
        if self.usage.counts:
            for stake in self.stakes.resting():
                if stake.has("locked"):
                    self.usage.note(stake, "locked", ())
                elif stake.used:
                    self.usage.note_used(stake)
        for resource, together in by_resource.items():
            self._load_one(resource, [*together.values()], now_s)
        for rid, placed in self._placed.items():
            self._placed[rid] = self._unspent(placed)

    def _load_one(self, resource: str, together: list[Booking], now_s: int) -> None:
        coming = [each for each in together if each.end > now_s]
        calendar = self.calendars.get(resource)
        if calendar is None:
            if coming:
                raise still_booked(resource, "UTC", self._named(coming))
            calendar = self.calendars[resource] = retired(resource)
        try:
            calendar.load(together)
        except (Conflict, InvalidInput):
            # What stands counts without its buffers, which may have grown into one another.
            together, coming = unbuffered(together), unbuffered(coming)
            standing = in_the_way(coming, calendar.info.capacity, now_s)
            if standing:
                raise too_small(calendar.info, self._named(standing)) from None
            calendar.load(coming)
            self._spent.update((resource, each.id) for each in together if each.end <= now_s)

    def _woken(self, stake: Stake) -> None:
        """What was counted of `stake` while it rested is noted as of the others."""
        if stake.has("locked"):
            self.buffers.note_booked(stake.claims)
            self._placed[stake.rid] = self._places_of(stake)
            self._counted[stake.rid] = _counted_of(stake)

    def refusals(
        self,
        principal: Principal,
        wants: Sequence[Want],
        actions: tuple[str, ...],
        wall_s: int,
        *,
        rid: str = "",
        replaces: str = "",
    ) -> list[Refusal]:
        """Why the owners' rules do not allow `wants`, whoever else has booked; empty when they do.

        What users have booked counts against their limits when more is to be held; with `rid`, the
        request that holds `wants` already, also when they are to be locked. `replaces` is the locked
        reservation whose place they are to take: no rule refuses its user what lies within it.
        """
        found = []
        standing = self._standing_claims(replaces, principal.user)
        beyond = self._beyond(wants, standing) if standing else []
        for want in wants:
            calendar = self.calendars.get(want.resource)
            refusal = (
                unknown_resource(want.resource)
                if calendar is None
                else calendar.refusal(
                    principal, actions, want.start, want.end, want.units, wall_s,
                    _kept(want, standing, beyond) if standing else None,
                )
            )  # fmt: skip
            if refusal is not None:
                found.append(refusal)
        if not found and self.buffers.kept and "hold" in actions:
            found = self.buffers.refusals(wants)
        if not found and ("hold" in actions or rid) and (beyond or not standing):
            found = self.usage.refusals(principal, wants, wall_s, standing, rid)
        return found

    def incomplete(self, wants: Sequence[Want]) -> list[Refusal]:
        """Return a refusal for each of `wants` without the resources that come together with its own."""
        return [
            Refusal(
                where=want.resource,
                code=RefusalCode.INCOMPLETE,
                detail=f"{want.resource} always comes with {name}: ask for {want.resource} + {name}, at the"
                " same time",
                rule="with",
            )
            for want in wants
            if want.resource in self.calendars
            for name in self.calendars[want.resource].info.companions
            if not any(
                each.resource == name and each.start <= want.start and want.end <= each.end
                for each in wants
            )
        ]

    def lies_within(self, user: str, wants: Sequence[Want], replaces: str) -> bool:
        """Whether `wants` are nothing but a part of the locked reservation `replaces` of `user`."""
        standing = self._standing_claims(replaces, user)
        return bool(standing) and not self._beyond(wants, standing)

    def _beyond(self, wants: Sequence[Want], standing: Sequence[Claim]) -> list[Piece]:
        return pieces_beyond(claims_of(wants), standing)

    def busy(
        self, principal: Principal, claims: Sequence[Claim], resource: str, wall_s: int
    ) -> tuple[Refusal, ...]:
        """The refusals for those of `claims` on `resource` that have no room."""
        calendar = self.calendars[resource]
        of_one = [claim for claim in claims if claim.resource == resource]
        lacking = [
            claim
            for claim in of_one
            if calendar.free(claim.start, claim.end + claim.gap_s) < claim.units
        ]
        return tuple(
            calendar.busy(principal, claim.start, claim.end, claim.units, wall_s)
            for claim in lacking or of_one[:1]
        )

    def give_buffers(self, claims: Iterable[Claim], replaces: str = "") -> None:
        """Give `claims` the buffers to book them with; they take the place that `replaces` has."""
        self.buffers.give(claims, self._standing_claims(replaces))

    def changer_of(self, rid: str) -> str:
        """The request that is about to replace the reservation `rid`, or ""."""
        return self._changers.get(rid, "")

    def count(self, user: str, state: State) -> int:
        """How many claims of `user` are in `state`."""
        return self._counts[user, state]

    def rules_for(self, principal: Principal, resource: str, wall_s: int) -> tuple[str, ...]:
        """Return every rule of `resource` that holds for `principal` in words, and how much of it is used."""
        used = self.usage.described(principal, resource, wall_s)
        return (*self.calendars[resource].rules_for(principal), *used)

    def booked(self, rids: Iterable[str]) -> list[Claim]:
        """Return what is booked for these requests, piece by piece."""
        found = []
        for rid in rids:
            placed: Sequence[Placed] = self._placed.get(rid, ())
            if self.stakes.is_resting(rid):
                stake = self.stakes.peek(rid)
                placed = self._places_of(stake) if stake is not None and stake.has("locked") else ()
            for resource, number in placed:
                each = self.calendars[resource].calendar.get(number)
                found.append(Claim(each.id, resource, each.start, each.end, each.units))
        return found

    def totals(self) -> Counter[State]:
        """How many claims are in each state, of all users."""
        return self._totals.copy()

    @contextmanager
    def without(self, stake: Stake) -> Iterator[None]:
        """As if the locked `stake` were not booked. Nothing has come free by it when it is over."""
        freed, locked = list(self._freed), list(self._locked)
        self.vacate(stake)
        try:
            yield
        finally:
            full = self.occupy(stake, "locked", None)
            assert not full, "slots that were just booked must fit"
            self._freed, self._locked = freed, locked

    def occupy(self, stake: Stake, state: State, expires_ms: int | None) -> str:
        """Book all claims of `stake`; returns "" or the resource without room (then nothing is)."""
        standing = self._standing(stake)
        if standing is None and not are_alternatives(stake.claims):
            bookings = [booking_of(stake, claim, state) for claim in stake.claims]
            resources = [claim.resource for claim in stake.claims]
        else:
            pieces = self._pieces(stake.claims, standing or ())
            assert state != "locked", "a locked replacement, or alternative, stands alone"
            bookings = piece_bookings(stake, pieces, state, self.new_id)
            resources = [resource for resource, _, _, _ in pieces]
        full = place(self.calendars, bookings, resources)
        if full:
            return full
        self._note(stake, bookings, resources, state, expires_ms)
        if state == "locked":
            self._locked += [
                (resource, booking.start, booking.end)
                for resource, booking in zip(resources, bookings, strict=True)
            ]
        if standing is not None:
            self._changers[stake.replaces] = stake.rid
        return ""

    def take_freed(self) -> list[Stretch]:
        """Return bookings that ended since the last call: room may have come free there.

        Buffers that were too short for want of that room have it by then.
        """
        self.buffers.grow((*self._freed, *self._locked))
        freed, self._freed = self._freed, []
        return freed

    def take_moved(self) -> list[Placed]:
        """Return the bookings of machines with a queue that came, went or were locked since the last call.

        They are in that order: what queues make of them hangs on it.
        """
        moved, self._moved = list(self._moved), {}
        return moved

    def note_freed(self, pieces: Iterable[Piece]) -> None:
        """What was kept for somebody is not any more."""
        self._freed += [(resource, start, end) for resource, start, end, _ in pieces]

    def note_moved(self, placed: Iterable[Placed]) -> None:
        """Bookings that are of no stake have come, or go, on the calendar of a queue."""
        self._moved |= {each: None for each in placed if each[0] in self._watched}

    def note_closed(self, stretch: Stretch) -> None:
        """Close the period to claims."""
        self._locked.append(stretch)

    def take_locked(self) -> list[Stretch]:
        """What was locked, or closed, since the last call: no waiting helps there."""
        locked, self._locked = self._locked, []
        return locked

    def locked_units(self, resource: str, start: int, end: int) -> int:
        """The most units that are locked at one time of ``[start, end)``."""
        listed = self.calendars[resource].calendar.listing(start, end)
        spans = [(each.start, each.end, each.units) for each in listed if each.state == "locked"]
        return peak_units(spans, start, end)

    def needs(self, stake: Stake) -> list[Piece]:
        """What the claims of `stake` need beyond what it is to replace; nothing is booked."""
        return self._pieces(stake.claims, self._standing(stake) or ())

    def _pieces(self, new: Sequence[Claim], old: Sequence[Claim]) -> list[Piece]:
        """Return the pieces that `new` takes beyond `old`, both with their buffers."""
        if self.buffers.kept:
            new, old = buffered(new), buffered(old)
        return pieces_beyond(new, old)

    def has_room_for(self, stake: Stake, claim: Claim) -> bool:
        """Whether `claim` could be held as well as those of `stake`, none of which is booked yet.

        Those have been seen to have room. Of alternatives the larger counts, so only what goes with
        `claim`, at the same common start, can be too much with it.
        """
        calendar = self.calendars[claim.resource]
        if calendar.free(claim.start, claim.end + claim.gap_s) < claim.units:
            return False
        together = [
            each
            for each in stake.claims
            if each.common == claim.common
            and each.resource == claim.resource
            and each.start < claim.end + claim.gap_s
            and claim.start < each.end + each.gap_s
        ]
        return all(
            calendar.free(start, end) >= units
            for _, start, end, units in (self._pieces([*together, claim], ()) if together else ())
        )

    def restate(self, stake: Stake, state: State, expires_ms: int | None) -> None:
        """The bookings of `stake` are now in `state`; a hold ends at `expires_ms` (monotonic).

        Claims that are promised or locked are no alternatives any more.
        """
        assert state == "held" or not are_alternatives(stake.claims), stake
        for resource, booking_id in self._placed[stake.rid]:
            booking = self.calendars[resource].change_state(booking_id, state)
            if state == "locked":
                self._locked.append((resource, booking.start, booking.end))
                if resource in self._watched:
                    self._moved[resource, booking_id] = None
        self._count(stake, state)
        self._set_expiry(stake, expires_ms)

    def keep_only(self, stake: Stake, hold_ids: Collection[int]) -> None:
        """Give up the holds of `stake` that are not among `hold_ids`; the others run on."""
        if all(claim.hold_id in hold_ids for claim in stake.claims):
            return
        expires_ms = self._expires_ms.get(stake.rid)
        self.vacate(stake)
        stake.claims = [claim for claim in stake.claims if claim.hold_id in hold_ids]
        full = self.occupy(stake, "held", expires_ms)
        assert not full, "a part of the booked slots must fit"

    def vacate(self, stake: Stake) -> None:
        """Take everything of `stake` off the calendars."""
        for resource, booking_id in self._placed.pop(stake.rid, ()):
            if resource in self._watched:
                self._moved[resource, booking_id] = None
            booking = self.calendars[resource].release(booking_id)
            self._freed.append((resource, booking.start, booking.end))
        self._uncount(stake)
        self._set_expiry(stake, None)
        if self._changers.get(stake.replaces) == stake.rid:
            del self._changers[stake.replaces]

    def leave(self, old: Stake) -> None:
        """Take the locked `old` off the calendars; a replacement under way then stands by itself.

        It always fits: for every instant the calendars carried the larger of both.
        """
        changer = self.stakes.get(self.changer_of(old.rid))
        state: State = "held" if changer is not None and changer.has("held") else "prepared"
        expires_ms = self._expires_ms.get(changer.rid) if changer is not None else None
        if changer is not None:
            self.vacate(changer)
        self.vacate(old)
        if changer is not None:
            self._occupy_alone(changer, state, expires_ms)

    def expire(self, now_ms: int) -> list[Stake]:
        """Take off the calendars every stake whose hold has run out; returns them."""
        ended = []
        while self._expiries and self._expiries[0][0] <= now_ms:
            stake = self.stakes[self._expiries[0][1]]
            self.vacate(stake)
            ended.append(stake)
        return ended

    def next_expiry_ms(self) -> int | None:
        """When the next hold runs out; None when none will."""
        return self._expiries[0][0] if self._expiries else None

    def check(self) -> None:
        """Raises `AssertionError` when calendars and stakes disagree."""
        booked: Counter[str] = Counter()
        counts: Counter[tuple[str, State]] = Counter()
        for stake, placed, (user, kind, number) in self._booked():
            assert any(claim.state in BOOKED for claim in stake.claims)
            for resource, booking_id in set(placed):
                booking = self.calendars[resource].calendar.get(booking_id)
                assert booking.reservation == stake.rid
                assert booking.state == _state_of(stake.claims[0]), (booking, stake)
                booked[resource] += 1
            if not any((each.resource, each.hold_id) in self._spent for each in stake.claims):
                self._check_amounts(stake, placed)
            counts[user, kind] += number
        self.usage.check(
            (
                (stake, kind, self._counted_already(stake))
                for stake, _, (_, kind, _) in self._booked()
            ),
            self._used(),
        )
        assert counts == self._counts
        assert all(counts.values())
        for state, total in self._totals.items():
            assert total == sum(each for (_, of), each in counts.items() if of == state)
        assert list(self._expiries) == sorted((ms, rid) for rid, ms in self._expires_ms.items())
        for name, calendar in self.calendars.items():
            calendar.check()
            assert len(calendar.calendar) == booked[name] + self.others[name]
        for stake in self.stakes.every():
            rid = stake.rid
            if any(claim.state in BOOKED for claim in stake.claims):
                assert (rid in self._placed) != self.stakes.is_resting(rid), stake
                assert stake.has("held") == (rid in self._expires_ms), stake
            assert len({claim.state for claim in stake.claims}) <= 1, stake
            assert stake.has("held") or not are_alternatives(stake.claims), stake

    def _booked(self) -> Iterator[tuple[Stake, Sequence[Placed], tuple[str, State, int]]]:
        """Every stake that is on the calendars, where, and what is counted of it."""
        for rid, placed in self._placed.items():
            yield self.stakes[rid], placed, self._counted[rid]
        for stake in self.stakes.resting():
            if stake.has("locked"):
                yield stake, self._places_of(stake), _counted_of(stake)

    def _check_amounts(self, stake: Stake, placed: Sequence[Placed]) -> None:
        """What is booked is at every instant what the claims need beyond what they replace."""
        if self.stakes.is_resting(stake.rid):
            self.buffers.note_booked(stake.claims)
        standing = buffered(self._standing(stake) or [])
        bookings = [(name, self.calendars[name].calendar.get(number)) for name, number in placed]
        for name in {claim.resource for claim in stake.claims} | {name for name, _ in bookings}:
            wanted = [claim for claim in buffered(stake.claims) if claim.resource == name]
            old = [claim for claim in standing if claim.resource == name]
            here = [booking for where, booking in bookings if where == name]
            spans = [(each.start, each.end) for each in (*wanted, *old)]
            spans += [(each.start, each.end) for each in here]
            for at in {time_s for span in spans for time_s in span}:
                booked = sum(each.units for each in here if each.start <= at < each.end)
                needed = envelope_at(wanted, at) - envelope_at(old, at)
                assert booked == max(needed, 0), (name, at, stake)

    def _places_of(self, stake: Stake) -> list[Placed]:
        return self._unspent([(claim.resource, claim.hold_id) for claim in stake.claims])

    def _unspent(self, placed: list[Placed]) -> list[Placed]:
        return [each for each in placed if each not in self._spent] if self._spent else placed

    def _standing(self, stake: Stake) -> list[Claim] | None:
        """The locked claims that `stake` is to replace, or None when it stands by itself."""
        old = self.stakes.peek(stake.replaces) if stake.replaces and not stake.decided else None
        if old is None or not old.has("locked"):
            return None
        if self.buffers.kept:
            self.buffers.note_booked(old.claims)
        return old.claims

    def _standing_claims(self, rid: str, user: str | None = None) -> list[Claim]:
        """The claims of the reservation `rid`, of `user` or (None) of any, while it is locked here."""
        stake = self.stakes.peek(rid)
        if stake is None or not stake.has("locked"):
            return []
        if user is not None and stake.principal.user != user:
            return []
        if self.buffers.kept:
            self.buffers.note_booked(stake.claims)
        return stake.claims

    def _counted_already(self, stake: Stake) -> list[Claim]:
        """The locked claims of its user that `stake` is to replace, while they are on the calendars."""
        booked = stake.replaces in self._placed or self.stakes.is_resting(stake.replaces)
        if not booked or self._standing(stake) is None:
            return []
        return self._standing_claims(stake.replaces, stake.principal.user)

    def _occupy_alone(self, stake: Stake, state: State, expires_ms: int | None) -> None:
        bookings = [booking_of(stake, claim, state) for claim in stake.claims]
        resources = [claim.resource for claim in stake.claims]
        full = place(self.calendars, bookings, resources)
        assert not full, f"{stake.rid} does not fit in place of {stake.replaces}"
        self._note(stake, bookings, resources, state, expires_ms)

    def _note(
        self,
        stake: Stake,
        bookings: Sequence[Booking],
        resources: Sequence[str],
        state: State,
        expires_ms: int | None,
    ) -> None:
        self._placed[stake.rid] = [
            (resource, booking.id) for resource, booking in zip(resources, bookings, strict=True)
        ]
        self._moved |= {each: None for each in self._placed[stake.rid] if each[0] in self._watched}
        self._count(stake, state)
        self._set_expiry(stake, expires_ms)

    def _count(self, stake: Stake, state: State) -> None:
        """Claims, not bookings: of a change only the pieces beyond the old are booked."""
        self._uncount(stake)
        user, number = stake.principal.user, len(stake.claims)
        self._counted[stake.rid] = (user, state, number)
        self._counts[user, state] += number
        self._totals[state] += number
        self.usage.note(stake, state, self._counted_already(stake))

    def _uncount(self, stake: Stake) -> None:
        self.usage.drop(stake.rid)
        if stake.rid in self._counted:
            user, state, number = self._counted.pop(stake.rid)
            self._totals[state] -= number
            self._counts[user, state] -= number
            if not self._counts[user, state]:
                del self._counts[user, state]

    def _set_expiry(self, stake: Stake, expires_ms: int | None) -> None:
        known_ms = self._expires_ms.pop(stake.rid, None)
        if known_ms is not None:
            self._expiries.remove((known_ms, stake.rid))
        if expires_ms is not None:
            self._expires_ms[stake.rid] = expires_ms
            self._expiries.add((expires_ms, stake.rid))


def _have_companions(calendars: Mapping[str, ResourceCalendar]) -> bool:
    return any(each.info.companions for each in calendars.values())


def _state_of(claim: Claim) -> str:
    """As calendars call it: what a batch system has to grant is promised, but for the vote."""
    return "prepared" if claim.state == "intended" else claim.state


def _counted_of(stake: Stake) -> tuple[str, State, int]:
    """What is counted of a locked one."""
    return stake.principal.user, "locked", len(stake.claims)


def _is_booked(stake: Stake) -> bool:
    """Whether a stake that was stored is on the calendars: all its claims are in one state."""
    return bool(stake.claims) and stake.claims[0].state in ("held", "prepared", "locked")


def _restored_as(
    stake: Stake, held_until_ms: int
) -> tuple[Literal["held", "prepared"], int | None]:
    """How a stake that does not rest is booked: until when, if it is only held."""
    return ("held", held_until_ms) if stake.has("held") else ("prepared", None)


def _kept(want: Want, standing: Sequence[Claim], beyond: Sequence[Piece]) -> KeptSlots:
    """Return what `want` keeps of `standing`; `beyond` is where all wants need more than that."""
    slots = frozenset(
        Interval(claim.start, claim.end) for claim in standing if claim.resource == want.resource
    )
    more = joined(
        (max(start, want.start), min(end, want.end))
        for resource, start, end, _ in beyond
        if resource == want.resource and start < want.end and want.start < end
    )
    return KeptSlots(slots, tuple(more))
