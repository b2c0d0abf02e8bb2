"""Agents on the wire: a user's script, its offers, and the outcome of a run.

A *script* is named by its hash; its source is sent only if it is not known yet. At a site it gets the
*offers* for the request's terms: every slot there that it may hold, numbered. See `kalends.agents`
for the language and the sandbox; Ramamoorthi et al. 1997, section 3, for the idea.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits

ScriptHash = Annotated[str, Meta(pattern=ids.whole(ids.HASH_PATTERN))]
"""SHA-256 of the source in UTF-8, in hexadecimal digits."""

ScriptSource = Annotated[str, Meta(max_length=limits.SCRIPT_BYTES_MAX)]
ScriptName = Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))]

ArgumentValue = (
    Annotated[str, Meta(max_length=200)]
    | Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)]
    | float
    | bool
)
Arguments = Annotated[
    dict[Annotated[str, Meta(pattern=ids.whole(ids.ARGUMENT_PATTERN))], ArgumentValue],
    Meta(max_length=limits.ARGUMENTS_MAX),
]
"""Arguments of a script: names and plain values, read as ``request["arguments"]``."""

AgentMessage = Annotated[str, Meta(max_length=limits.AGENT_MESSAGE_CHARS_MAX)]
"""A message to or from an agent: plain data as JSON text."""

AgentMessages = Annotated[tuple[AgentMessage, ...], Meta(max_length=limits.AGENT_MESSAGES_MAX)]

RunCode = Literal[
    "ok",
    "rejected",
    "agent-error",
    "bad-result",
    "limit-steps",
    "limit-recursion",
    "limit-output",
    "limit-cpu",
    "limit-memory",
    "limit-wall",
    "crash",
    "policy-violation",
    "busy",
    "killed",
    "sandbox-unavailable",
    "unknown-script",
]
"""The end of a run. Any code but "ok" means that its result is ignored and the default chooses."""


def script_hash(source: str) -> str:
    """Return the hash that names a script; raises `UnicodeEncodeError` for lone surrogates."""
    return hashlib.sha256(source.encode()).hexdigest()


Blame = Literal["", "author", "host", "attack"]

BLAME: Final[dict[RunCode, Blame]] = {
    "ok": "",
    "rejected": "author",
    "agent-error": "author",
    "bad-result": "author",
    "limit-steps": "author",
    "limit-recursion": "author",
    "limit-output": "author",
    "limit-cpu": "author",
    "limit-memory": "author",
    "crash": "author",
    "policy-violation": "attack",
    "limit-wall": "host",
    "busy": "host",
    "killed": "host",
    "sandbox-unavailable": "host",
    "unknown-script": "host",
}
"""The party that can fix it: the script's author, or the operator of the host (then: try again)."""


class Violation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A violation of the language by a source, with its place; lines and columns count from 1."""

    line: int
    column: int
    rule: str
    """Stable name, such as ``no-import``."""
    detail: str
    """The fault and the remedy."""


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`units` of `resource` for term number `term`, during ``[c + offset_s, c + offset_s + length_s)``.

    `c` is the common start of a choice.
    """

    term: Annotated[int, Meta(ge=0, le=limits.TERMS_MAX)]
    resource: Annotated[str, Meta(pattern=ids.whole(ids.RESOURCE_PATTERN))]
    length_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]
    units: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)] = 1
    offset_s: Annotated[int, Meta(ge=-limits.OFFSET_S_MAX, le=limits.OFFSET_S_MAX)] = 0


Asks = Annotated[tuple[Ask, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]


TermNeeds = Annotated[
    tuple[
        tuple[
            Annotated[int, Meta(ge=0, le=limits.TERMS_MAX)],
            Annotated[int, Meta(ge=1, le=limits.CLAIMS_MAX)],
        ],
        ...,
    ],
    Meta(max_length=limits.TERMS_MAX),
]
"""Numbers of terms, each with how many different resources it needs."""


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A further site to pass a visit on to, and the request there.

    `secret` proves to that site that the visit came this way.
    """

    site: Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))]
    asks: Asks
    secret: Annotated[str, Meta(max_length=64)] = ""


class Starts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The common starts to choose among: `first`, and every `step_s` from there up to `last`.

    If `only` is not empty, just those. A site adds the starts of its own free intervals.
    """

    first: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    last: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    step_s: Annotated[int, Meta(ge=1, le=limits.WINDOW_S_MAX)]
    only: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)], ...],
        Meta(max_length=limits.OFFERS_MAX),
    ] = ()


def asked_for(starts: Starts, asks: tuple[Ask, ...]) -> str:
    """Return a canonical text of an agent's choices, to be proved with a visit."""
    return msgspec.json.encode((starts, asks)).decode()


class HeldChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A slot that is held now: `units` of `resource` during ``[start, end)`` for term `term`.

    `common` is the common start that it belongs to; slots of different common starts are
    alternatives to one another.
    """

    hold_id: Annotated[int, Meta(ge=1, le=(1 << 62))]
    term: Annotated[int, Meta(ge=0, le=limits.TERMS_MAX)]
    resource: Annotated[str, Meta(pattern=ids.whole(ids.RESOURCE_PATTERN))]
    start: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    end: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    units: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)]
    common: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]


class Offered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The common starts at which `resource` could serve `term` when the agent looked.

    Runs of ``(first, last)``, both included, `step_s` of the visit apart; a lone start is a run of one.
    """

    term: Annotated[int, Meta(ge=0, le=limits.TERMS_MAX)]
    resource: Annotated[str, Meta(pattern=ids.whole(ids.RESOURCE_PATTERN))]
    runs: Annotated[tuple[tuple[int, int], ...], Meta(max_length=limits.OFFERS_MAX)]
