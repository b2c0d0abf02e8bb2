"""Reading what a worker says of its job: nothing is taken on trust.

A worker may be in a stranger's hands. So every field must have exactly its type and fit its limit;
anything else is a bad result. The worst that a worker can do is to lie about its own job.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple, get_args

import msgpack

from kalends.agents.runs import Function
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


def read_result(body: bytes) -> RunResult:
    """Return the result in a frame's `body`; raises `BadRunResult`."""
    fields = _unpack(body)
    code = fields.get("code")
    if type(code) is not str or code not in SAID:
        raise BadRunResult("no known code")
    said: Any = code
    result = RunResult(
        said,
        printable(_text(fields, "detail"), DETAIL_CHARS_MAX),
        _count(fields, "line"),
        _violations(fields.get("violations", [])),
        _functions(fields.get("functions", [])),
        _bytecode(fields.get("bytecode", b"")),
        steps=_count(fields, "steps"),
    )
    if said != "ok":
        return result
    answer, sent = fields.get("answer"), fields.get("sent", [])
    if type(sent) is not list or len(sent) > limits.AGENT_MESSAGES_MAX:
        raise BadRunResult("too many messages, or no list of them")
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


def _unpack(body: bytes) -> dict[str, Any]:
    try:
        fields = msgpack.unpackb(
            body,
            raw=False,
            use_list=True,
            strict_map_key=True,
            ext_hook=_no_extension,
            max_array_len=ITEMS_MAX,
            max_map_len=ITEMS_MAX,
        )
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        raise BadRunResult("not one value of MessagePack") from None
    if type(fields) is not dict:
        raise BadRunResult("not a map")
    return fields


def _no_extension(code: int, data: bytes) -> None:
    raise ValueError(f"extension {code} of {len(data)} bytes")


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


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if type(value) is not str:
        raise BadRunResult(f"{name} is not text")
    return value


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    if type(value) is not int or not 0 <= value <= INTEGER_MAX:
        raise BadRunResult(f"{name} is not a count")
    return value


def _violations(value: Any) -> tuple[Violation, ...]:
    if type(value) is not list:
        raise BadRunResult("violations is not a list")
    return tuple(_violation(entry) for entry in value[:VIOLATIONS_MAX])


def _violation(entry: Any) -> Violation:
    if type(entry) is not list or [type(part) for part in entry] != [int, int, str, str]:
        raise BadRunResult("a violation is not line, column, rule and detail")
    line, column, rule, detail = entry
    if not (0 <= line <= INTEGER_MAX and 0 <= column <= INTEGER_MAX):
        raise BadRunResult("a violation is nowhere")
    return Violation(
        line, column, printable(rule, RULE_CHARS_MAX), printable(detail, DETAIL_CHARS_MAX)
    )


def _functions(value: Any) -> tuple[Function, ...]:
    if type(value) is not list or not all(
        type(name) is str and name in FUNCTIONS for name in value
    ):
        raise BadRunResult("functions that are none")
    return tuple(value)


def _bytecode(value: Any) -> bytes:
    if type(value) is not bytes:
        raise BadRunResult("bytecode is not bytes")
    return value
