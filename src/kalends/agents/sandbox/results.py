"""Reading of a worker's result, and verdicts on workers that ended without one: nothing is taken on trust.

A worker may be in a stranger's hands. So every field must have exactly its type and fit its limit;
anything else is a bad result. The worst that a worker can do is to lie about its own job.
"""

from __future__ import annotations

import math
import os
import signal
from typing import Any, Final, NamedTuple, TypeVar, cast, get_args

import msgspec

from kalends.agents.runs import Function
from kalends.agents.sandbox import worker
from kalends.core import limits
from kalends.core.scripts import RunCode, Violation

RESULT_BYTES_MAX: Final = 384 * 1024
"""Bytes of a run's result: an answer of 256 kB, and messages."""

CHECK_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of a check's result: the bytecode of the longest source, and every violation."""

DEPTH_MAX: Final = 16
ITEMS_MAX: Final = 20_000
TEXT_CHARS_MAX: Final = 8_192
DETAIL_CHARS_MAX: Final = 300
RULE_CHARS_MAX: Final = 80
VIOLATIONS_MAX: Final = 500
INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 63) - 1

SAID: Final[frozenset[RunCode]] = frozenset(
    {
        "ok",
        "rejected",
        "agent-error",
        "bad-result",
        "limit-steps",
        "limit-recursion",
        "limit-output",
        "limit-memory",
    }
)
"""Ends of a job that a worker may report; all others are seen from outside."""

FUNCTIONS: Final[frozenset[str]] = frozenset(get_args(Function))


class BadRunResult(Exception):
    """Bytes that are not a result; the text explains why, and quotes nothing of them."""


class RunResult(NamedTuple):
    """See `kalends.agents.runs.RunOutcome` and `Checked`; `bytecode` is opaque, and for workers only."""

    code: RunCode
    detail: str = ""
    line: int = 0
    violations: tuple[Violation, ...] = ()
    functions: tuple[Function, ...] = ()
    bytecode: bytes = b""
    answer: Any = None
    sent: tuple[Any, ...] = ()
    steps: int = 0


class _Fields(msgspec.Struct):
    """Result that a worker sends. `answer` and `sent` stay bytes until they are wanted."""

    code: str
    detail: str = ""
    line: int = 0
    violations: list[tuple[int, int, str, str]] = []
    functions: list[str] = []
    bytecode: bytes = b""
    answer: msgspec.Raw = msgspec.Raw(b"\xc0")
    sent: msgspec.Raw = msgspec.Raw(b"\x90")
    steps: int = 0


def read_result(body: bytes) -> RunResult:
    """Return the result in a frame's `body`; raises `BadRunResult`.

    It costs memory for what is in `body`, and not for the lengths that it claims.
    """
    fields = _decoded(_FIELDS, body)
    if fields.code not in SAID:
        raise BadRunResult("no known code")
    said: Any = fields.code
    result = RunResult(
        said,
        printable(fields.detail, DETAIL_CHARS_MAX),
        _count(fields.line),
        tuple(_violation(*entry) for entry in fields.violations[:VIOLATIONS_MAX]),
        _functions(fields.functions),
        fields.bytecode,
        steps=_count(fields.steps),
    )
    if said != "ok":
        return result
    for each in (fields.answer, fields.sent):
        if len(memoryview(each)) > RESULT_BYTES_MAX:
            raise BadRunResult(f"an answer of more than {RESULT_BYTES_MAX} bytes")
    sent = _decoded(_LIST, fields.sent)
    if len(sent) > limits.AGENT_MESSAGES_MAX:
        raise BadRunResult("too many messages")
    answer = _decoded(_ANY, fields.answer)
    check_plain([answer, sent])
    return result._replace(answer=answer, sent=tuple(sent))


def check_plain(value: Any) -> None:
    """Raise `BadRunResult` unless `value` is plain data within the limits, of exactly the plain types."""
    items = 0
    layer = [value]
    for _ in range(DEPTH_MAX):
        inner: list[Any] = []
        for part in layer:
            items += 1
            _check_leaf(part)
            if type(part) is list:
                inner += part
            elif type(part) is dict:
                for name in part:
                    if type(name) is not str:
                        raise BadRunResult("a key that is not text")
                    _check_leaf(name)
                inner += part.values()
            if items + len(inner) > ITEMS_MAX:
                raise BadRunResult(f"more than {ITEMS_MAX} values")
        if not inner:
            return
        layer = inner
    raise BadRunResult(f"nested more than {DEPTH_MAX} deep")


def printable(text: str, chars_max: int) -> str:
    """Return `text` on one line, without control or invisible characters, cut to size."""
    return "".join(char if char.isprintable() else " " for char in text[:chars_max])


T = TypeVar("T")


def _decoded(decoder: msgspec.msgpack.Decoder[T], body: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(body)
    except (ValueError, TypeError, RecursionError, OverflowError):
        raise BadRunResult("not a map of the fields of a result, or no MessagePack") from None


def _no_extension(code: int, data: memoryview) -> None:
    raise ValueError(f"extension {code} of {len(data)} bytes")


_FIELDS: Final = msgspec.msgpack.Decoder(_Fields)
_LIST: Final = msgspec.msgpack.Decoder(list[Any], ext_hook=_no_extension)
_ANY: Final = msgspec.msgpack.Decoder(Any, ext_hook=_no_extension)


def _check_leaf(part: Any) -> None:
    kind = type(part)
    if kind is str:
        if len(part) > TEXT_CHARS_MAX:
            raise BadRunResult(f"a text of more than {TEXT_CHARS_MAX} characters")
    elif kind is int:
        if not INTEGER_MIN <= part <= INTEGER_MAX:
            raise BadRunResult("an integer of more than 64 bits")
    elif kind is float:
        if not math.isfinite(part):
            raise BadRunResult("a number that is not finite")
    elif kind not in (bool, type(None), list, dict):
        raise BadRunResult(f"a value of type {kind.__name__}")


def _count(value: int) -> int:
    if not 0 <= value <= INTEGER_MAX:
        raise BadRunResult("a count below zero, or of more than 64 bits")
    return value


def _violation(line: int, column: int, rule: str, detail: str) -> Violation:
    return Violation(
        _count(line), _count(column), printable(rule, RULE_CHARS_MAX),
        printable(detail, DETAIL_CHARS_MAX),
    )  # fmt: skip


def _functions(value: list[str]) -> tuple[Function, ...]:
    if len(value) > len(FUNCTIONS) or not FUNCTIONS.issuperset(value):
        raise BadRunResult("entries that are not functions")
    return cast("tuple[Function, ...]", tuple(value))


class RunVerdict(NamedTuple):
    code: RunCode
    detail: str


_NO_TIME: Final = RunVerdict("limit-cpu", "the script used up its processor time")

_BY_SIGNAL: Final[dict[int, RunVerdict]] = {
    signal.SIGSYS: RunVerdict(
        "policy-violation", "the script left its language and made a forbidden system call"
    ),
    signal.SIGPROF: _NO_TIME,
    signal.SIGXCPU: _NO_TIME,
    signal.SIGKILL: RunVerdict("killed", "the worker was killed from outside; try again"),
}

_BY_EXIT: Final[dict[int, RunVerdict]] = {
    worker.EXIT_NO_MEMORY: RunVerdict("limit-memory", "the script used up its memory"),
    worker.EXIT_UNABLE: RunVerdict(
        "killed", "the worker could not lock itself down; nothing was run"
    ),
}


def verdict(status: int, cpu_us: int, cpu_us_max: float) -> RunVerdict:
    """Return the verdict on a wait status (see wait(2)) of a worker that ended without a result.

    Whoever has used more than `cpu_us_max` has used up its time, whatever ended it: that is nobody else's
    fault, and not tried again.
    """
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        said = _BY_EXIT.get(code, RunVerdict("crash", f"the interpreter exited with code {code}"))
    else:
        said = _BY_SIGNAL.get(-code, RunVerdict("crash", f"the interpreter died of {_name(-code)}"))
    return _NO_TIME if said.code == "killed" and cpu_us > cpu_us_max else said


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
