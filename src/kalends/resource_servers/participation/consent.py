"""The socket for a consent before a promise.

It may take days, and slots that wait for it are held: it is no step of a vote.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol

from kalends.contract import messages as m
from kalends.contract.fields import Want
from kalends.core.errors import Refusal
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.parts import Plug


class Consent(Protocol):
    """The questions of the kernel."""

    @property
    def plugs(self) -> tuple[Plug, ...]: ...

    def needed(
        self, principal: Principal, wants: Sequence[Want], replaces: str = ""
    ) -> tuple[Want, ...]:
        """Return those of `wants` that need consent."""

    def lacking(self, stake: Stake, named: Container[int] | None = None) -> tuple[Want, ...]:
        """Return what `stake` claims, or what the `named` holds are, and cannot be promised yet."""

    def only_held(self, visit: m.Visit) -> m.Visit:
        """Return `visit` as one that holds, where what it wants may not be promised at once."""

    def why_over(self, rid: str) -> tuple[Refusal, ...]:
        """Return why the request can no longer get consent."""

    def why_not(self, stake: Stake, named: Container[int]) -> tuple[Refusal, ...]:
        """Return why the `named` holds are not promised."""

    def why_not_again(self, relock: m.Relock) -> str:
        """Return why what a register says was committed is not locked again, or ""."""
