"""Recovery of a site that may have forgotten promises: an older image of its store was restored.

It cannot know that by itself. A broker's Welcome says what its register remembers of the site: a life
and a position in it. What the site's own past does not include, it has forgotten. Then it takes nothing
new until every register that it knows of has compared what is promised here with what it has decided,
and had locked again what was lost.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Final

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.memory.past import Past, RecoveryChanged
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.this_site import ThisSite

RECOVERY_MS_MIN: Final = 10_000
"""The least time that brokers have to connect: each tries every five seconds."""

FORGOTTEN_TOLD_MAX: Final = 1_000
"""Requests of which brokers are told in a session that they are forgotten: one comparison finds the rest."""


@dataclass(eq=False)
class Recovery:
    """Closes the site when a register remembers more than it does, until all have compared."""

    here: ThisSite
    past: Past
    stakes: Stakes
    claims: Claims
    outbox: ParticipantOutbox
    registers: Registers
    recovering: bool
    """Promises may be forgotten: nothing new is taken."""
    consequences: Consequences
    now: InitVar[Moment]
    _settled: set[str] = field(init=False, default_factory=set)
    _accusers: set[str] = field(init=False, default_factory=set)
    _told_forgotten: set[tuple[str, str]] = field(init=False, default_factory=set)
    """Sources, and the requests of which each of them was told in its session that they are forgotten."""
    _recovers_at_ms: int | None = field(init=False)
    """Not before all brokers may have come (monotonic); None once that is over."""

    def __post_init__(self, now: Moment) -> None:
        self._recovers_at_ms = now.monotonic_ms + RECOVERY_MS_MIN

    @property
    def plug(self) -> Plug:
        settle = on(m.Settled, lambda source, settled, now: self.settle(source, now), owned=False)
        return Plug(Tier.ASKS, handles=[settle], timed=self)

    def next_deadline_ms(self) -> int | None:
        return self._recovers_at_ms

    def meet(self, source: str, welcome: m.Welcome, position: int, now: Moment) -> None:
        """Answer an admitted broker: does our past include what its register remembers?"""
        register = welcome.register
        self._told_forgotten = {told for told in self._told_forgotten if told[0] != source}
        forgotten = [
            mark for mark in welcome.remembered if not self.past.includes(register, mark, position)
        ]
        known = not forgotten
        self.consequences.lives_forgotten([mark.life for mark in forgotten])
        if not known and register not in self._settled:
            self._fall_behind(register, now)
        behind = self.recovering and register not in self._settled
        marks = self.registers.marks(register)
        self.outbox.send(source, m.Known(behind=behind, forgotten=not known, marks=marks))

    def tell_forgotten(self, source: str, rid: str) -> None:
        """Ask the broker to compare, once: the register would not commit what was never promised."""
        told = (source, rid)
        if told not in self._told_forgotten and len(self._told_forgotten) < FORGOTTEN_TOLD_MAX:
            self._told_forgotten.add(told)
            marks = self.registers.marks(self.registers.of(source))
            self.outbox.send(source, m.Known(behind=True, forgotten=True, marks=marks))

    def _fall_behind(self, register: str, now: Moment) -> None:
        """Take nothing new, durably, until the registers have compared."""
        self._accusers.add(register)
        if self.recovering:
            return
        self.recovering = True
        self._recovers_at_ms = now.monotonic_ms + RECOVERY_MS_MIN
        self.outbox.store(RecoveryChanged(on=True))
        self.outbox.report(
            "store",
            "an older backup of this site's store was restored, and promises are missing in it",
        )
        for stake in [each for each in self.stakes.awake() if each.has("held")]:
            self.claims.end_hold(stake, "expiry")
        for stake in [each for each in self.stakes.awake() if each.has("intended")]:
            self.claims.end_intent(stake, "expiry")

    def refusal(self) -> Refusal | None:
        """Return why nothing new is taken yet, or None when it is: for a broker like a site that is down."""
        if self.recovering:
            detail = "the site first compares its promises with the brokers"
        elif self.awaits_brokers():
            detail = "the site has just started and waits a few seconds for its brokers"
        else:
            return None
        return self.here.refusal(RefusalCode.SITE_DOWN, detail)

    def awaits_brokers(self) -> bool:
        """Whether a broker that has not come yet may be about to find that it has promises forgotten here."""
        return (
            not self.recovering
            and self._recovers_at_ms is not None
            and bool(self.registers.missing())
        )

    def is_certain_of(self, register: str) -> bool:
        """Whether nothing that was promised to `register` is forgotten here, as far as it can tell itself.

        It has connected in this life of the site, and has found nothing that is forgotten.
        """
        return not self.recovering and (not register or register in self.registers.welcomed())

    def unsettled(self) -> dict[str, int]:
        """Return the registers that have not compared yet, with the number of their reservations here."""
        counts = dict.fromkeys(sorted(self._accusers | self.registers.welcomed()), 0)
        for register, number in self.stakes.registers_at_rest().items():
            if register and number:
                counts[register] = counts.get(register, 0) + number
        for stake in self.stakes.awake():
            if stake.register and (stake.has("locked") or stake.has("prepared")):
                counts[stake.register] = counts.get(stake.register, 0) + 1
        return {register: counts[register] for register in counts if register not in self._settled}

    def go_on(self) -> None:
        """Take new bookings again, as the owner says, whatever has not been compared."""
        self._recovers_at_ms = None
        self._recover()

    def settle(self, source: str, now: Moment) -> None:
        """Note that the register of `source` has compared everything."""
        self._settled.add(self.registers.of(source))
        self.advance(now)

    def advance(self, now: Moment) -> None:
        if self._recovers_at_ms is not None and self._recovers_at_ms <= now.monotonic_ms:
            self._recovers_at_ms = None
        if self.recovering and self._recovers_at_ms is None and not self.unsettled():
            self._recover()

    def _recover(self) -> None:
        if self.recovering:
            self.recovering = False
            self.outbox.store(RecoveryChanged(on=False))
            self.outbox.report("store", "")
