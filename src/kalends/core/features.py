"""Features: what has come to the wire since its base version, and the marks that say what came with which.

Servers of different owners are upgraded at different times. What both sides of a session know is agreed on
when it opens (`kalends.contract.versions`); what one of them does not know is not sent to it
(`kalends.contract.agreement`). So whoever adds something to a message marks it with its feature:

- a field: ``Annotated[bool, since(SHARES)] = False``. A peer that does not know it is sent no message in
  which it has another value than its default. With ``hint=True`` it is left out: the peer does without;
- a word of a `Literal`: ``Literal["yes", "no"] | Annotated[Literal["later"], since(SHARES)]``. With
  ``instead="no"`` that is what the peer is told;
- a message, or a struct in one: ``SINCE: ClassVar = SHARES`` in its class;
- a field of a frame: as any field; but frames are made by hand, so both links have to leave it out.

What has no mark belongs to the base version, which every server knows that we still talk to.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Meta


class Feature(NamedTuple):
    """`name` is said on the wire, and never changes; `words` tell people what a peer knows nothing of."""

    name: str
    words: str


APPROVAL: Final = Feature("approval", "owners' approval")
STEP_STARTS: Final = Feature("step-starts", "common starts of jobs in step")
SLOT_NODES: Final = Feature("slot-nodes", "nodes that fail in reserved slots")

FEATURES: Final[tuple[Feature, ...]] = (APPROVAL, STEP_STARTS, SLOT_NODES)
"""All that this kalends knows, the oldest first. Peers that do not say what they know have none of them."""

REQUIRED: Final[tuple[Feature, ...]] = ()
"""Those without which a peer is too old to talk to. Their marks may go: they are part of the base then."""


class Since(NamedTuple):
    """The mark of a field or of a word: see the module."""

    feature: Feature
    hint: bool = False
    instead: str = ""


def since(feature: Feature, *, hint: bool = False, instead: str = "") -> Meta:
    """Mark a field or a word as one that came with `feature`."""
    return Meta(extra={MARK: Since(feature, hint, instead)})


MARK: Final = "since"
"""The name of marks among what msgspec keeps for us beside a type."""
