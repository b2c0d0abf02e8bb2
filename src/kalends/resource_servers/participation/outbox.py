"""The single outlet for effects of a site's parts."""

from __future__ import annotations

from typing import Final

from kalends.contract import messages as m
from kalends.resource_servers.participation.effects import (
    ParticipantEffects,
    PlaceAsk,
    Provision,
    Relay,
    RunTask,
    Send,
    SiteFact,
    StartWord,
)

REGISTER: Final = "register:"
"""Where to send what is for whichever replica looks after a reservation: this, and its register."""


class ParticipantOutbox:
    """The effects since they were last taken, in the order of their making."""

    def __init__(self) -> None:
        self._effects = ParticipantEffects()

    def send(self, to: str, message: m.Message) -> None:
        """Send `message` to a session, by its name, or to a URL."""
        self._effects.sends.append(Send(to, message))

    def store(self, fact: SiteFact) -> None:
        self._effects.facts.append(fact)

    def alarm(self, text: str) -> None:
        """Tell the operator of what the protocol forbids."""
        self._effects.alarms.append(text)

    def report(self, about: str, text: str) -> None:
        """Tell the operator what is wrong with a state, or with "" that this is over."""
        self._effects.reports.append((about, text))

    def run(self, errand: RunTask) -> None:
        self._effects.errands.append(errand)

    def relay(self, relay: Relay) -> None:
        self._effects.relays.append(relay)

    def provision(self, provision: Provision) -> None:
        """Ask a batch system for something, once what this step has stored is durable."""
        self._effects.provisions.append(provision)

    def ask_queues(self, ask: PlaceAsk) -> None:
        self._effects.asks.append(ask)

    def start(self, word: StartWord) -> None:
        """Hand on whether a job may start here."""
        self._effects.starts.append(word)

    def take(self) -> ParticipantEffects:
        """Return all effects since the last call."""
        taken, self._effects = self._effects, ParticipantEffects()
        return taken
