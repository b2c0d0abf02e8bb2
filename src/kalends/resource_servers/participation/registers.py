"""The registers that a site knows: whose key each is bound to, and what proves its messages.

Whatever is claimed at a site belongs to one broker's register. Who comes first with a register's id, by a
key that the owner trusts, has it from then on, and the names that it spoke as: no other key can take
either. Only the owner of the site can: by listing a name under another key (``brokers``), which then takes
over the name and the registers that have spoken as it. That is how a broker's key is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import NotAllowed
from kalends.core.principals import ANYBODY, VouchedNames
from kalends.resource_servers.participation.effects import SiteFact

REGISTERS_OF_KEY_MAX: Final = 64
"""Registers that one key may be first with: a broker has one, and a new one after a loss of its file."""

NAMES_MAX: Final = 64
"""Replicas of one broker that are remembered by name."""


SOURCES_MAX: Final = 10_000
"""Sessions whose register is remembered, the newest: more than are ever open at once."""


class Badge(NamedTuple):
    """Identity that a session has proved: its key, and what the owner lets this key vouch for.

    `through` are the virtual sites that it has come by, as these say.
    """

    key: str = ""
    vouching: VouchedNames = ANYBODY
    through: tuple[str, ...] = ()


NO_BADGE: Final = Badge()
"""The badge of a session where access is open."""


class KnownRegister(msgspec.Struct, frozen=True):
    """`secret` is the key that its broker shares with this site; `names` are what it has spoken as; `marks`
    are how far it was, in each of its last lives, oldest first.
    """

    register: str
    key: str
    secret: str
    names: tuple[str, ...] = ()
    marks: tuple[m.Mark, ...] = ()


class RegisterStored(SiteFact, frozen=True):
    """Fact: `register` is known as in `body` (see `decode_register`)."""

    register: str
    body: bytes


_ENCODER = msgspec.msgpack.Encoder()

decode_register: Final = msgspec.msgpack.Decoder(KnownRegister).decode
"""The inverse of `stored_register`; raises `msgspec.DecodeError` for other bytes."""


def stored_register(known: KnownRegister) -> RegisterStored:
    return RegisterStored(known.register, _ENCODER.encode(known))


class Registers:
    """By id; and for each source of messages the one that it speaks for."""

    def __init__(self, known: Iterable[KnownRegister] = ()) -> None:
        self._known = {each.register: each for each in known}
        self._of_source: dict[str, str] = {}
        self._badges: dict[str, Badge] = {}
        self._came: set[str] = set()
        """The names that have been spoken as in this life of the site."""
        self._marked: set[str] = set()
        """Registers that are further than is stored."""

    def of(self, source: str) -> str:
        """The register that `source` speaks for; "" while it has not said so."""
        return self._of_source.get(source, "")

    def of_visit(self, source: str, dispatch: m.Dispatch) -> str:
        """The register of whoever sends `dispatch` from `source`, or has a near site pass it on; or ""."""
        return self.of(source) or dispatch.register

    def secret(self, register: str) -> str:
        """The key that we share with its broker; "" for a register that we do not know."""
        known = self._known.get(register)
        return known.secret if known is not None else ""

    def marks(self, register: str) -> tuple[m.Mark, ...]:
        """How far `register` was when it was last heard of, in each of its last lives."""
        known = self._known.get(register)
        return known.marks if known is not None else ()

    def mark(self, source: str, mark: m.Mark) -> None:
        """The register of `source` is so far: to be stored with the next thing that it has us store."""
        register = self.of(source)
        known = self._known.get(register)
        if known is None:
            return
        before = {each.life: each for each in known.marks}
        if mark.life in before and mark.position <= before[mark.life].position:
            return
        before.pop(mark.life, None)
        marks = (*before.values(), mark)[-limits.MARKS_MAX :]
        self._known[register] = msgspec.structs.replace(known, marks=marks)
        self._marked.add(register)

    def take_marked(self) -> list[RegisterStored]:
        """Return facts to store about registers that are ahead of the store."""
        marked, self._marked = self._marked, set()
        return [stored_register(self._known[register]) for register in sorted(marked)]

    def badge(self, register: str) -> Badge:
        """Return the badge of the last session for `register`; before any session it vouches for all."""
        return self._badges.get(register, NO_BADGE)

    def welcomed(self) -> set[str]:
        """The registers that have come in this life of the site."""
        return set(self._of_source.values())

    def missing(self) -> set[str]:
        """The names of known replicas that have not come in this life of the site.

        What one of them was promised a moment ago, the others of its register may not have read yet.
        """
        return {name for known in self._known.values() for name in known.names} - self._came

    def sources(self, register: str) -> list[str]:
        """All that have said that they speak for `register`."""
        return [source for source, of_one in self._of_source.items() if of_one == register]

    def admit(
        self, source: str, welcome: m.Welcome, badge: Badge, name: str = ""
    ) -> KnownRegister | None:
        """From now on `source` speaks for the register; what is to be stored of that, if anything.

        `name` is the broker's where a source is called otherwise. Raises `NotAllowed` when the key, by
        the owner's word or by who came first, may not speak as this, or for that register.
        """
        name = name or source
        known = self._known.get(welcome.register)
        self._check_name(name, badge)
        if known is None:
            self._check_count(badge)
            known = KnownRegister(welcome.register, badge.key, welcome.secret, (name,))
        elif known.key != badge.key and not all(map(badge.vouching.speaks_as, known.names)):
            raise NotAllowed(
                "this register is bound to another key",
                where="register",
                remedy="if its broker has a new key, list the broker's name under that key: brokers ="
                f" {_listed(known.names)}",
            )
        names = known.names if name in known.names else (*known.names, name)[-NAMES_MAX:]
        marks = known.marks if known is not None else ()
        now = KnownRegister(welcome.register, badge.key, welcome.secret, names, marks)
        self._of_source[source] = welcome.register
        self._came.add(name)
        self._badges[welcome.register] = badge
        while len(self._of_source) > SOURCES_MAX:
            del self._of_source[next(iter(self._of_source))]
        if now == self._known.get(welcome.register):
            return None
        self._known[welcome.register] = now
        return now

    def _check_name(self, name: str, badge: Badge) -> None:
        if badge.vouching.brokers:
            if badge.vouching.speaks_as(name):
                return
            raise NotAllowed(
                f"this key may speak as {', '.join(badge.vouching.brokers)}, not as {name}",
                where="source",
                remedy="name the broker as the owner lists it, or let the owner list this name, too",
            )
        if any(name in each.names and each.key != badge.key for each in self._known.values()):
            raise NotAllowed(
                f"the name {name} is bound to another key",
                where="source",
                remedy="choose another name; or, if the broker has a new key, let the owner of the site"
                f' list it there: brokers = ["{name}"]',
            )

    def _check_count(self, badge: Badge) -> None:
        of_key = sum(each.key == badge.key for each in self._known.values())
        if of_key >= REGISTERS_OF_KEY_MAX:
            raise NotAllowed(
                f"this key has come with {of_key} registers, the maximum",
                where="register",
                remedy="keep the broker's store: a new store is a new register",
            )


def _listed(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
