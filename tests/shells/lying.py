"""What all liars of a facility share: what they know, what they are, and the edges at which they lie.

A liar is a shipped server that keeps honest books, so that others deal with it. What it says is held
back, changed, repeated, late or invented, where it leaves the server; nothing of the server is changed. All
liars know the ids, attempts and numbers of everything that sites were ever asked for, as if somebody had
told them, but no secret that nobody told them. In the end they fall silent.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from kalends.contract import messages as m
from kalends.resource_servers.service import SiteEngine
from tests.shells.facility import Facility
from tests.shells.stage import NOBODY, NODE
from tests.shells.substitutes import WALL_AT_BEGIN_S
from tests.simulation.inventing import Inventor

LATE_S_MAX: Final = 20.0

Say = Callable[[m.Message], None]


class Character(NamedTuple):
    """How often a liar alters, withholds, repeats or delays what it would say, and how often it invents.

    `lures`: how often a site's bid becomes one that is hard to resist, or makes no sense.
    """

    alter: float = 0.0
    drop: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    lures: float = 0.0
    every_s: float = 1.0
    burst: int = 1


CHARACTERS: Final = (
    Character(alter=0.3),
    Character(drop=0.4),
    Character(repeat=0.5, delay=0.3, lures=0.3),
    Character(every_s=0.1, lures=0.1),
    Character(every_s=5.0, burst=100, lures=0.5),
    Character(lures=0.9),
    Character(alter=0.1, drop=0.1, repeat=0.2, delay=0.2, lures=0.3, every_s=0.3, burst=4),
)


class Rumours:
    """What has gone about: every request that any site was asked about, but not its secret."""

    def __init__(self, facility: Facility, chance: random.Random) -> None:
        self.facility = facility
        self.chance = chance
        self.att: dict[str, int] = {}
        """The highest attempt of each request that sites have heard of."""
        self._inventors: list[Inventor] = []
        receive = SiteEngine.receive

        def receiving(engine: SiteEngine, source: str, messages: Sequence[m.Message]) -> Any:
            for message in messages:
                self._spread(message)
            return receive(engine, source, messages)

        SiteEngine.receive = receiving  # type: ignore[method-assign]

    def inventor(self) -> Inventor:
        """One who invents from these rumours, and from what it is told itself."""
        made = Inventor(random.Random(self.chance.random()))
        made.learn("site", self.facility.sites)
        made.learn("resource", [f"{site}/cluster" for site in self.facility.sites])
        made.learn("user", ("mallory0", "mallory1", "user0"))
        made.learn("command", (("program", "5.000", "of-a-liar"),))
        times_s = [self.facility.tomorrow + 600 * number for number in range(12)]
        made.learn("start", [*times_s, WALL_AT_BEGIN_S, WALL_AT_BEGIN_S + 600])
        made.learn("end", times_s)
        self._inventors.append(made)
        return made

    def _spread(self, message: m.Message) -> None:
        if not (rid := getattr(message, "rid", "")):
            return
        if rid not in self.att:
            for each in self._inventors:
                each.learn("rid", (rid,))
        self.att[rid] = max(self.att.get(rid, 0), getattr(message, "att", 0))


class Liar:
    """One server that lies, called `name`, until it is `silent`."""

    def __init__(self, rumours: Rumours, name: str, character: Character) -> None:
        self.name = name
        self.rumours = rumours
        self.chance = random.Random(rumours.chance.random())
        self.character = character
        self.inventor = rumours.inventor()
        self.silent = False
        self.said: Counter[str] = Counter()

    def twist(self, message: m.Message, say: Say) -> None:
        """Say `message` as its character has it."""
        chance, character = self.chance, self.character
        fate = chance.random()
        if self.silent or fate < character.drop:
            return
        self.inventor.hear(message)
        if fate < character.drop + character.alter:
            message = self.count("altered", self.inventor.altered(message))
        if chance.random() < character.repeat:
            self.later(say, self.count("repeated", message))
        if chance.random() < character.delay:
            self.later(say, self.count("late", message))
        else:
            say(message)

    def later(self, say: Say, message: m.Message) -> None:
        def said() -> None:
            if not self.silent:
                say(message)

        node = NODE.get()
        context = node.context.copy() if node is not None else NOBODY
        self.rumours.facility.world.loop.call_later(
            self.chance.uniform(0, LATE_S_MAX), said, context=context
        )

    def count(self, how: str, message: Any) -> Any:
        self.said[how] += 1
        return message

    def somebodys(self) -> dict[str, Any]:
        """The id and the attempt of a request of anybody; nothing where none is known."""
        rid = self.inventor.one_of("rid")
        if rid is None:
            return {}
        att = self.rumours.att.get(rid, 1) + self.chance.choice((-1, 0, 0, 0, 0, 1))
        return {"rid": rid, "att": max(att, 1)}

    def invented(self, kinds: Sequence[type[m.Message]], truths: dict[str, Any]) -> Any:
        """A message of one of `kinds`, with the `truths` for which it has fields; None for none by chance."""
        kind = self.chance.choice(kinds)
        known = {name: each for name, each in truths.items() if name in kind.__struct_fields__}
        found = self.inventor.heard((kind,)) if self.chance.random() < 0.15 else None
        return found or self.inventor.message(kind, known)


def of_here(liars: dict[str, Any]) -> Any:
    """The liar whose process runs now; None for who is honest."""
    node = NODE.get()
    return liars.get(node.name) if node is not None else None


def not_a_number(message: m.Message) -> bytes:
    """`message` with a time in it that is no number, as no honest server could send it."""
    fields = msgspec.to_builtins(message)
    fields["at" if "at" in fields else "att"] = float("nan")
    return msgspec.msgpack.encode(fields)
