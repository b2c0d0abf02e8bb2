"""The stakes of a site: those at work as they are, those at rest as the bytes that were stored of them.

A site may have a million reservations, of which it works on few. A stake rests that was opened from the
store with nothing left to decide: its bytes take a quarter of the memory, and making a million objects
takes longer than all else of a start. Whoever asks for one by its id wakes it, and it stays awake; who only
looks, peeks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping
from typing import Any

from kalends.calendars import Booking
from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
    decode_stake,
    register_mark,
    stored,
)
from kalends.resource_servers.participation.claims.endings import Endings


class Restored(Collection[Stake]):
    """The stakes of a store that is opened, sorted into those that rest and those that do not.

    `bookings` are those of the locked claims at rest, by resource, request and number; `locked` counts them
    by user.
    Iterating makes every stake anew: for whoever compares, not for a start.
    """

    def __init__(self, stakes: Iterable[Stake] = ()) -> None:
        self.awake: dict[str, Stake] = {}
        self.resting: dict[str, bytes] = {}
        self.bookings: defaultdict[str, dict[tuple[str, int], Booking]] = defaultdict(dict)
        self.locked: Counter[str] = Counter()
        self.registers: Counter[str] = Counter()
        """How many reservations at rest each register has."""
        self.endings = Endings()
        self.buffered = False
        """Whether the owner keeps a buffer behind any of it."""
        self._known: dict[object, Any] = {}
        for stake in stakes:
            self.take(stake, stored(stake, "").body)

    def take(self, stake: Stake, body: bytes) -> None:
        """`stake` is what `body` holds; what others have in common with it is kept once.

        Done a million times at a start: what can be said in place is said in place.
        """
        once = self._known.setdefault
        self.endings.load(stake.rid, stake.ends_at)
        claims = stake.claims
        state = claims[0].state if claims else "absent"
        for claim in claims:
            if claim.gap_s:
                self.buffered = True
        if state in ("held", "prepared"):
            self.awake[stake.rid] = self._shared(stake)
            return
        self.resting[stake.rid] = body
        if state != "locked":
            return
        user = once(stake.principal.user, stake.principal.user)
        self.registers[stake.register] += 1
        self.locked[user] += len(claims)
        for claim in claims:
            booking = Booking(
                id=claim.hold_id,
                start=once(claim.start, claim.start),
                end=once(claim.end + claim.gap_s, claim.end + claim.gap_s),
                units=claim.units,
                state="locked",
                holder=user,
                reservation=stake.rid,
                gap_s=claim.gap_s,
            )
            self.bookings[claim.resource][stake.rid, claim.hold_id] = booking

    def drop(self, rid: str) -> None:
        """Be as if the stake of `rid` had never been taken."""
        stake = self.awake.pop(rid, None)
        if stake is None:
            body = self.resting.pop(rid, None)
            if body is None:
                return
            stake = decode_stake(body)
            if stake.claims and stake.claims[0].state == "locked":
                self.registers[stake.register] -= 1
                self.locked[stake.principal.user] -= len(stake.claims)
                for claim in stake.claims:
                    together = self.bookings[claim.resource]
                    del together[rid, claim.hold_id]
                    if not together:
                        del self.bookings[claim.resource]
        self.endings.unload(rid, stake.ends_at)

    def __iter__(self) -> Iterator[Stake]:
        yield from self.awake.values()
        for body in self.resting.values():
            yield self._shared(decode_stake(body))

    def __len__(self) -> int:
        return len(self.awake) + len(self.resting)

    def __contains__(self, rid: object) -> bool:
        return rid in self.awake or rid in self.resting

    def _shared(self, stake: Stake) -> Stake:
        """`stake`, with what others have, too, in the place of its own copies."""
        once = self._known.setdefault
        stake.principal = once(stake.principal, stake.principal)
        stake.parts = once(stake.parts, stake.parts)
        stake.coords = once(stake.coords, stake.coords)
        for claim in stake.claims:
            claim.resource = once(claim.resource, claim.resource)
        return stake


class Stakes(MutableMapping[str, Stake]):
    """Every stake of a site by its request's id.

    Getting one wakes it. Iterating over values or items makes those that rest anew, and they may not be
    changed: for whoever must see all. `woken` hears of each that wakes.
    """

    def __init__(self, woken: Callable[[Stake], None]) -> None:
        self._woken = woken
        self._awake: dict[str, Stake] = {}
        self._resting: dict[str, bytes] = {}
        self._registers: Counter[str] = Counter()
        self.endings = Endings()

    def restore(self, restored: Restored) -> None:
        """Begin with `restored`, which is not to be used any more."""
        self._awake, self._resting = restored.awake, restored.resting
        self._registers, self.endings = restored.registers, restored.endings

    def __getitem__(self, rid: str) -> Stake:
        stake = self._awake.get(rid)
        return stake if stake is not None else self._wake(rid)

    def get(self, rid: str, default: Any = None) -> Any:
        stake = self._awake.get(rid)
        if stake is not None:
            return stake
        return self._wake(rid) if rid in self._resting else default

    def peek(self, rid: str) -> Stake | None:
        """The stake of `rid`, which may not be changed; it rests on."""
        stake = self._awake.get(rid)
        if stake is not None:
            return stake
        body = self._resting.get(rid)
        return decode_stake(body) if body is not None else None

    def reservation_of(self, rid: str) -> str:
        """Return the id by which users call the reservation that `rid` is, or is a change of.

        Changed requests are forgotten some time: then the oldest id that is known here.
        """
        stake = self.peek(rid)
        while stake is not None and stake.replaces:
            rid = stake.replaces
            stake = self.peek(rid)
        return rid

    def is_resting(self, rid: str) -> bool:
        return rid in self._resting

    def awake(self) -> Collection[Stake]:
        """All those at work: whoever holds, or has promised, is among them."""
        return self._awake.values()

    def resting(self) -> Iterator[Stake]:
        """Copies of all that rest, made one after the other; none may wake meanwhile."""
        return map(decode_stake, self._resting.values())

    def every(self) -> Iterator[Stake]:
        """All, those at rest as in `resting`."""
        yield from list(self._awake.values())
        yield from self.resting()

    def perhaps_of(self, register: str) -> list[str]:
        """The ids of all stakes of `register`, and rarely another: its bytes hold the same somewhere.

        A fifth of a second for a million: none is made for it.
        """
        mark = register_mark(register)
        found = [rid for rid, stake in self._awake.items() if stake.register == register]
        found += [rid for rid, body in self._resting.items() if mark in body]
        return found

    def registers_at_rest(self) -> Counter[str]:
        """How many reservations each register has among those that rest."""
        return self._registers

    def __setitem__(self, rid: str, stake: Stake) -> None:
        before = self.get(rid)
        if before is not None:
            self.endings.remove(rid, before.ends_at)
        self._awake[rid] = stake
        self.endings.add(rid, stake.ends_at)

    def __delitem__(self, rid: str) -> None:
        self.endings.remove(rid, self[rid].ends_at)
        del self._awake[rid]

    def __contains__(self, rid: object) -> bool:
        return rid in self._awake or rid in self._resting

    def __iter__(self) -> Iterator[str]:
        yield from self._awake
        yield from self._resting

    def __len__(self) -> int:
        return len(self._awake) + len(self._resting)

    def values(self) -> Any:
        return list(self.every())

    def items(self) -> Any:
        return [(stake.rid, stake) for stake in self.every()]

    def _wake(self, rid: str) -> Stake:
        stake = decode_stake(self._resting.pop(rid))
        self._awake[rid] = stake
        if stake.has("locked"):
            self._registers[stake.register] -= 1
        self._woken(stake)
        return stake
