"""Both machines, under messages that follow their types and break every rule.

A broker's coordinator and the participants of two sites talk with each other, and somebody between them
alters, invents and repeats what they say. Whatever comes: no machine breaks, the invariants of each hold
after every message, an answer is bounded, and a stranger changes nothing of what belongs to others.

    python -m tests.simulation.fuzzing --seconds 300
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random
from typing import Any, Final, get_args

from msgspec.structs import replace

from kalends.contract import codec, proofs
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import KalendsError
from kalends.resource_servers.participation.claims.claim_sets import decode_stake
from tests.owned_messages import ABOUT_A_REQUEST
from tests.protocol_broker import SITES, START, Broker
from tests.protocol_support import REGISTER, Site
from tests.simulation.inventing import Inventor

TO_SITE: Final = tuple(
    kind for kind in (*get_args(m.ToSite), *get_args(m.BetweenSites)) if kind is not m.Welcome
)
TO_BROKER: Final = get_args(m.ToBroker)
ROGUE: Final = "rogue"
NO_SECRET: Final = "0" * 32
SENDS_MAX: Final = 1_000
"""What one message may cause to be sent: everybody in a line is told at most a few things."""


class Play:
    """One seed's course; `messages` counts all that was given to a machine, by kind."""

    def __init__(self, seed: int) -> None:
        self.messages: Counter[str] = Counter()
        self._random = Random(seed)
        self._inventor = Inventor(self._random)
        self._strange = Inventor(self._random)
        """What a stranger can know: its own messages' answers, and ids."""
        self._broker = Broker()
        self._sites = {name: Site(name=name) for name in SITES}
        self._on_the_way: list[tuple[str, str, m.Message]] = []
        """The receiver, the other side, and the message."""
        self._rids: list[str] = []
        for site in self._sites.values():
            welcome = m.Welcome(register="9" * 32, secret=proofs.site_key("its own", site.name))
            site.participant.welcome(ROGUE, welcome)
            site.call(lambda participant, now: None)

    def run(self, steps: int) -> None:
        """Raises what a machine raises, and `AssertionError` for a rule that is broken."""
        for _ in range(steps):
            self._step()

    def _step(self) -> None:
        fate = self._random.random()
        if fate < 0.12:
            self._ask()
        elif fate < 0.57:
            self._deliver(altered=fate > 0.42)
        elif fate < 0.75:
            self._invent_for_site("broker")
        elif fate < 0.85:
            self._invent_for_site(ROGUE)
        elif fate < 0.95:
            self._invent_for_broker()
        elif fate < 0.98:
            self._wait()
        else:
            self._random.choice(list(self._sites.values())).restart()

    # What users ask

    def _ask(self) -> None:
        random = self._random
        number = random.randrange(6)
        wants = tuple(
            m.Want(f"{site}/one", START + 60 * number, START + 60 * number + 60, 1)
            for site in random.choice((SITES, SITES[:1], SITES[1:]))
        )
        key = f"the-key-{random.getrandbits(40)}"
        call = random.choice(("submit", "hold", "ask", "lock", "release", "cancel"))
        try:
            if call in ("submit", "hold"):
                hold_s = 30 if call == "hold" else 0
                self._rids.append(self._broker.submit(key=key, wants=wants, hold_s=hold_s))
            elif call == "ask":
                self._rids.append(self._broker.ask("here/one + there/one", key=key))
            elif self._rids:
                getattr(self._broker, call)(random.choice(self._rids), random.randrange(1, 99))
        except KalendsError:
            return  # Refused to the caller, in words.
        finally:
            self._from_broker()

    # What is said

    def _deliver(self, *, altered: bool) -> None:
        if not self._on_the_way:
            return
        at = self._random.randrange(min(len(self._on_the_way), 4))
        again = self._random.random() < 0.1
        to, other, message = self._on_the_way[at] if again else self._on_the_way.pop(at)
        if altered:
            message = self._inventor.altered(message)
        if to == "broker":
            self._to_broker(other, message)
        else:
            self._to_site(to, "broker", message)

    def _invent_for_site(self, source: str) -> None:
        inventor = self._strange if source == ROGUE else self._inventor
        message = inventor.message(self._random.choice(TO_SITE), {})
        if message is None:
            return
        site = self._random.choice(SITES)
        if isinstance(message, get_args(m.BetweenSites)):
            source = self._random.choice(("http://here", "http://there", "http://x"))
        if source == ROGUE and isinstance(message, ABOUT_A_REQUEST) and not message.secret:
            message = replace(message, secret=NO_SECRET)
        before = self._belongings(site)
        self._to_site(site, source, message)
        if source == ROGUE:
            assert self._belongings(site) == before, f"a stranger's {message} changed something"

    def _invent_for_broker(self) -> None:
        message = self._inventor.message(self._random.choice(TO_BROKER), {})
        if message is not None:
            self._to_broker(self._random.choice(SITES), message)

    def _to_site(self, name: str, source: str, message: m.Message) -> None:
        self.messages[type(message).__name__] += 1
        effects = self._sites[name].receive(message, source)
        self._check(effects.sends)
        for send in effects.sends:
            (self._strange if send.to == ROGUE else self._inventor).hear(send.message)
            if send.to in ("broker", "a", "b"):
                self._on_the_way.append(("broker", name, send.message))

    def _to_broker(self, site: str, message: m.Message) -> None:
        self.messages[type(message).__name__] += 1
        self._broker.receive(site, message)
        self._from_broker()

    def _from_broker(self) -> None:
        sends, self._broker.sends = self._broker.sends, []
        self._check(sends)
        for send in sends:
            self._inventor.hear(send.message)
            self._strange.learn("rid", [getattr(send.message, "rid", self._rids[:1] or [""])[:36]])
            if send.to in self._sites:
                self._on_the_way.append((send.to, "broker", send.message))
        del self._on_the_way[:-200]

    def _wait(self) -> None:
        ms = self._random.choice((10, 1_000, 40_000))
        self._broker.advance(ms)
        self._from_broker()
        for site in self._sites.values():
            for send in site.advance(ms).sends:
                self._inventor.hear(send.message)

    # What must hold; a site's invariants are looked at with each of its steps (`Site`)

    def _check(self, sends: list[Any]) -> None:
        assert len(sends) <= SENDS_MAX, f"{len(sends)} messages for one"
        for send in sends:
            assert len(codec.encode_msgpack(send.message)) < limits.FRAME_BYTES_MAX, send

    def _belongings(self, site: str) -> dict[str, bytes]:
        """What is durable there of the broker's requests."""
        return {
            rid: body
            for rid, body in self._sites[site].stored.items()
            if decode_stake(body).register == REGISTER
        }


def main() -> int:
    """Returns 1 when a seed breaks a machine or a rule, and says which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=400, help="of each seed")
    options = parser.parse_args()
    messages: Counter[str] = Counter()
    until_s = time.monotonic() + options.seconds
    seed, broken = options.first, 0
    while time.monotonic() < until_s:
        play = Play(seed)
        try:
            play.run(options.steps)
        except Exception as error:
            # The boundary of one seed: it is told, and the next one is played.
            broken += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
        messages += play.messages
        seed += 1
    for kind, count in sorted(messages.items()):
        print(f"{count:>10} {kind}")
    print(f"{seed - options.first} seeds, {messages.total()} messages, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
