"""The lines of a record: what is known of one attempt, in the order in which it became true.

One JSON object a line, ``{"fact": "begun", ...}``. A shepherd's own process reads and writes them as the
server does, so this needs the standard library only.
"""

import json
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NamedTuple, NoReturn


class Begun(NamedTuple):
    """The shepherd is there and will start the program: this attempt is never started again."""

    at: float
    """Seconds UTC, here and below."""
    shepherd: int
    ticks: int
    """When process `shepherd` began, in ticks since the host did; with `boot` it names it for ever."""
    boot: str


class Main(NamedTuple):
    """The first process of the program, about to run it as user `uid`."""

    pid: int
    ticks: int
    uid: int
    files: tuple[tuple[int, int], ...] = ()
    """Device and inode of standard output, and of standard error if that is another file."""


class ChangeAsked(NamedTuple):
    """The program has been asked to go on with `to` ranks on `cores`: its change `number`."""

    number: int
    to: int
    cores: tuple[int, ...]
    at: float


class ChangeAnswered(NamedTuple):
    """The program's answer to change `number`: it has `ranks` now; `refused` says why not otherwise."""

    number: int
    ranks: int
    took_s: float
    refused: str
    at: float


class Ended(NamedTuple):
    """All processes of the attempt are gone."""

    kind: str
    """One of `KINDS`."""
    status: int
    """The exit status, or the negative number of the signal that ended it."""
    detail: str
    """In words for the user, where there is more to say."""
    at: float
    ran_s: float
    cpu_s: float
    memory_bytes: int
    """The most that one of its processes had."""
    strays: int
    """Processes that it left behind, and that were ended."""


class Void(NamedTuple):
    """The attempt has not begun, and never can."""

    at: float


Fact = Begun | Main | ChangeAsked | ChangeAnswered | Ended | Void

EXIT: Final = "exit"
LIMIT: Final = "limit"
KILLED: Final = "killed"
NOT_STARTED: Final = "not-started"
LOST: Final = "lost"
KINDS: Final = (EXIT, LIMIT, KILLED, NOT_STARTED, LOST)
"""It ended by itself, at its limit, was killed, could not be started, or its shepherd died with it."""

_TYPES: Final[dict[str, type[Fact]]] = {
    "begun": Begun, "main": Main, "change": ChangeAsked, "changed": ChangeAnswered, "ended": Ended,
    "void": Void,
}  # fmt: skip
_WORDS: Final = {kind: word for word, kind in _TYPES.items()}


_DECODE: Final = json.JSONDecoder(parse_constant=lambda constant: _refuse(constant)).decode


def encode(fact: Fact) -> bytes:
    """Return `fact` as a line. `json.dumps` would do it, and cost each shepherd a tenth of its memory."""
    said = ['{"fact": ' + encode_basestring_ascii(_WORDS[type(fact)])]
    said += [f'"{name}": {_text(value)}' for name, value in zip(fact._fields, fact, strict=True)]
    return ", ".join(said).encode() + b"}\n"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    return encode_basestring_ascii(value) if isinstance(value, str) else repr(value)


def decode(line: bytes) -> Fact:
    """Return the fact in `line`; raises `ValueError` for what no version of this program writes."""
    try:
        fields: dict[str, Any] = _DECODE(line.decode())
        kind = _TYPES[fields.pop("fact")]
        return kind(**{name: _checked(kind.__annotations__[name], fields[name]) for name in fields})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a line of a record: {line[:80]!r}") from error


def _checked(kind: Any, value: Any) -> Any:
    """Return `value` if it is of the annotated `kind`: a number, a text, or a list of whole numbers."""
    if kind is float and type(value) in (int, float):
        return float(value)
    if kind in (int, str) and type(value) is kind:
        return value
    if kind not in (int, str, float) and type(value) is list:
        return tuple(_checked(int if type(each) is int else tuple, each) for each in value)
    raise ValueError(value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
