"""Records of runs: all that went in, what came out, and how to see that it comes out again.

A record holds the script, everything that it was shown, and the outcome. Times and costs are written
down for people; a replay compares what must be equal on every host: code, answer, messages, steps.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from kalends.agents.runs import Engine, Function, RunOutcome, ScriptRun
from kalends.agents.world.answers import judged
from kalends.core.errors import InvalidInput, TooLarge
from kalends.core.scripts import RunCode, ScriptHash, ScriptSource, script_hash

RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
"""A record unpacked: the most slots and taken slots with the longest names are a tenth of it."""

_DEPENDS_ON_HOST: Final = frozenset(
    {"limit-cpu", "limit-memory", "limit-wall", "crash", "busy", "killed", "sandbox-unavailable"}
)
"""Codes that say as much about the host and its load as about the script."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a script for `user` at `site`, for request `rid`; `number` counts the site's runs.

    The order of keys in `arguments` is kept: a script may walk through them.
    """

    number: Annotated[int, Meta(ge=0, le=(1 << 62))]
    at_ms: int
    rid: str
    site: str
    user: str
    script: ScriptHash
    source: ScriptSource
    function: Function
    arguments: tuple[Any, ...]
    inbox: tuple[Any, ...]
    zones: dict[str, tuple[tuple[int, int], ...]]
    view_hash: ScriptHash
    engine: str
    code: RunCode
    detail: Annotated[str, Meta(max_length=1_000)]
    line: int
    answer: Any
    sent: tuple[Any, ...]
    steps: int
    cpu_us: int
    wall_us: int

    @property
    def chosen(self) -> int:
        """Number of slots that the script chose."""
        return len(self.answer) if self.function == "choose" and self.code == "ok" else 0

    def job(self) -> ScriptRun:
        return ScriptRun(
            self.user, self.source, self.function, self.arguments, self.inbox, self.zones
        )


class Replayed(NamedTuple):
    """Whether a replay came to the `same` end; `detail` is the difference, or a remark."""

    same: bool
    detail: str = ""


def view_hash(job: ScriptRun) -> str:
    """Return the SHA-256 of the script's inputs: equal for equal jobs, at any site and time."""
    zones = {name: job.zones[name] for name in sorted(job.zones)}
    shown = (job.function, job.arguments, job.inbox, zones)
    return hashlib.sha256(msgspec.msgpack.encode(shown)).hexdigest()


def record_of(
    job: ScriptRun, outcome: RunOutcome, *, number: int, at_ms: int, rid: str, site: str
) -> RunRecord:
    """Return the record of `job` that ended as `outcome`.

    An answer that is none is written as "bad-result".
    """
    ended = judged(job, outcome)
    cost = ended.cost
    return RunRecord(
        number=number,
        at_ms=at_ms,
        rid=rid,
        site=site,
        user=job.user,
        script=script_hash(job.source),
        source=job.source,
        function=job.function,
        arguments=job.arguments,
        inbox=job.inbox,
        zones={name: job.zones[name] for name in sorted(job.zones)},
        view_hash=view_hash(job),
        engine=ended.engine,
        code=ended.code,
        detail=ended.detail[:1_000],
        line=ended.line,
        answer=ended.answer if ended.code == "ok" else None,
        sent=ended.sent if ended.code == "ok" else (),
        steps=cost.steps,
        cpu_us=cost.cpu_us,
        wall_us=cost.wall_us,
    )


def encode(record: RunRecord) -> bytes:
    """Encode as MessagePack, compressed (RFC 1950), because views repeat themselves."""
    return zlib.compress(msgspec.msgpack.encode(record), level=1)


def decode(body: bytes) -> RunRecord:
    """Raises `InvalidInput` for an invalid or a changed record; `TooLarge` beyond its limit."""
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(body, RECORD_BYTES_MAX)
        if unpacker.unconsumed_tail:
            raise TooLarge(f"the record has more than {RECORD_BYTES_MAX} bytes", where="record")
        record = msgspec.msgpack.decode(raw, type=RunRecord)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_record("not a record of a run") from error
    if record.script != script_hash(record.source):
        raise _no_record("the script differs from the one that the record names")
    if record.view_hash != view_hash(record.job()):
        raise _no_record("the view of the script differs from the one that the record names")
    if not _could_be_shown(record):
        raise _no_record("no site shows scripts a view of this form")
    return record


def _could_be_shown(record: RunRecord) -> bool:
    """Return whether all is plain data, and the slots that ``choose`` was shown have numbers."""
    if not _is_plain([*record.arguments, *record.inbox]):
        return False
    if record.function != "choose":
        return True
    view = record.arguments[0] if record.arguments else None
    slots = view.get("slots") if isinstance(view, dict) else None
    return isinstance(slots, list) and all(
        isinstance(slot, dict) and type(slot.get("id")) is int for slot in slots
    )


def _is_plain(value: Any) -> bool:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if not all(isinstance(name, str) for name in part):
                return False
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
        elif part is not None and not isinstance(part, bool | int | float | str):
            return False
    return True


async def replay(record: RunRecord, engine: Engine) -> Replayed:
    """Run the record's job again, and compare."""
    job = record.job()
    outcome = judged(job, await engine.run(job))
    differences = list(_differences(record, outcome))
    remarks = list(_remarks(record, outcome, bool(differences)))
    return Replayed(not differences, "; ".join(differences + remarks))


def _differences(record: RunRecord, outcome: RunOutcome) -> Iterator[str]:
    if outcome.code != record.code:
        yield f"it ended as {outcome.code} ({outcome.detail}), and was {record.code} ({record.detail})"
        return
    if _differ(outcome.answer if record.code == "ok" else None, record.answer):
        yield "the answer differs"
    if _differ(outcome.sent if record.code == "ok" else (), record.sent):
        yield "the messages for the client differ"
    if outcome.cost.steps != record.steps and record.code not in _DEPENDS_ON_HOST:
        yield f"it took {outcome.cost.steps} steps, and {record.steps} then"


def _remarks(record: RunRecord, outcome: RunOutcome, differs: bool) -> Iterator[str]:
    if outcome.engine != record.engine:
        yield f"the engine is {outcome.engine or 'unknown'}, and was {record.engine or 'unknown'}"
    hosts = [code for code in (record.code, outcome.code) if code in _DEPENDS_ON_HOST]
    if hosts and differs:
        yield f"{hosts[0]} depends on the host and its load"


def _differ(one: Any, other: Any) -> bool:
    """Return whether values or types differ: here True is not 1, and neither is 1.0."""
    return msgspec.msgpack.encode(one) != msgspec.msgpack.encode(other)


def _no_record(detail: str) -> InvalidInput:
    return InvalidInput(
        detail, where="record", remedy="ask the site for it again: kalends agent replay"
    )
