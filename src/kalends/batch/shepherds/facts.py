"""The lines of a record: facts about one attempt, in the order in which they became true.

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


class Stopped(NamedTuple):
    """All processes stand still, as was asked by stop `number`."""

    number: int
    at: float


class NotStopped(NamedTuple):
    """They could not be brought to that, and go on."""

    number: int
    why: str
    at: float


class WentOn(NamedTuple):
    """They go on after stop `number`, on `cores`; none: wherever they were."""

    number: int
    cores: tuple[int, ...]
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
    """Without the time in which it stood still."""
    cpu_s: float
    memory_bytes: int
    """The most that one of its processes had; 0: no more than the process had that started the program."""
    strays: int
    """Processes that it left behind, and that were ended."""
    here: int = 0
    """1: it could not be started because this host can run no program of its user at present."""


class Void(NamedTuple):
    """The attempt has not begun, and never can."""

    at: float


Fact = Begun | Main | ChangeAsked | ChangeAnswered | Stopped | NotStopped | WentOn | Ended | Void

EXIT: Final = "exit"
LIMIT: Final = "limit"
KILLED: Final = "killed"
NOT_STARTED: Final = "not-started"
LOST: Final = "lost"
KINDS: Final = (EXIT, LIMIT, KILLED, NOT_STARTED, LOST)
"""It ended by itself, at its limit, was killed, could not be started, or its shepherd died with it."""

_TYPES: Final[dict[str, type[Fact]]] = {
    "begun": Begun, "main": Main, "change": ChangeAsked, "changed": ChangeAnswered,
    "stopped": Stopped, "not-stopped": NotStopped, "went-on": WentOn, "ended": Ended, "void": Void,
}  # fmt: skip
_WORDS: Final = {kind: word for word, kind in _TYPES.items()}


_INFINITE: Final = float("inf")
_DECODE: Final = json.JSONDecoder(parse_constant=lambda constant: _refuse(constant)).decode


def encode(fact: Fact) -> bytes:
    """Return `fact` as a line; raises `ValueError` for one that could not be read again.

    `json.dumps` would do it, and cost each shepherd a tenth of its memory.
    """
    for name, value in zip(fact._fields, fact, strict=True):
        _check(type(fact).__annotations__[name], value)
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
    """Return `value`, as JSON has it, if it is of the annotated `kind`."""
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is list:
        value = _tuple(value)
    _check(kind, value)
    return value


def _check(kind: Any, value: Any) -> None:
    """Raise `ValueError` unless `value` is a number or text of `kind`, or consists of whole numbers."""
    if kind in (int, str, float):
        if type(value) is not kind or (kind is float and not abs(value) < _INFINITE):
            raise ValueError(value)
    elif type(value) is not tuple:
        raise ValueError(value)
    else:
        for each in value:
            _check(tuple if type(each) is tuple else int, each)


def _tuple(values: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuple(each) if type(each) is list else each for each in values)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
