"""Messages that nobody would send: of the right types, out of what was heard, nearly heard, and anything.

What a type asks for is drawn from the same field of messages that were seen, from one a little beside
it, or at random. So a message names requests, attempts, holds, secrets and times that exist, in
combinations that no honest server makes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from random import Random
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from kalends.contract import messages as m

T = TypeVar("T", bound=m.Message)

KNOWN_MAX: Final = 200
"""Values that are remembered of one field: beyond it a random one is forgotten."""

TRIES_MAX: Final = 20

KINDRED: Final = {
    "replaces": "rid", "after": "rid", "seen": "att", "hold_ids": "hold_id", "kept": "hold_id",
    "lost": "hold_id", "proof": "secret", "first": "start", "last": "start", "only": "start",
    "common": "start", "wished": "start", "horizon": "end", "until": "end", "resources": "resource",
    "near": "site", "way": "site", "blockers": "rid", "epoch": "stamp", "url": "coords",
}  # fmt: skip
"""Fields that hold what another holds, too."""

NUMBERS: Final = (0, 1, 2, 3, 60, 3_600, 1 << 20, 1 << 31, 1 << 40, (1 << 62) - 1, 1 << 62)
TEXTS: Final = ("", "a", "é\n", "x" * 200, "x" * 1_000)


@cache
def _type_of(kind: type[m.Message]) -> inspect.StructType:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return info


class Inventor:
    """Invents from what it has heard; all chance is of `random`."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._known: dict[str, list[Any]] = defaultdict(list)
        self._messages: list[m.Message] = []

    def hear(self, message: m.Message) -> None:
        """Remember what `message` says, and that it was said."""
        self._keep(self._messages, message)
        self._walk("", msgspec.to_builtins(message))

    def learn(self, field: str, values: Iterable[Any]) -> None:
        """Remember `values` as what `field` may hold."""
        known = self._known[KINDRED.get(field, field)]
        for value in values:
            if value not in known:
                self._keep(known, value)

    def one_of(self, field: str) -> Any:
        """Something known of `field`; None where nothing is."""
        known = self._known[KINDRED.get(field, field)]
        return self._random.choice(known) if known else None

    def heard(self, kinds: tuple[type[m.Message], ...]) -> m.Message | None:
        """A message of these kinds that was heard, to be said again."""
        fitting = [each for each in self._messages if isinstance(each, kinds)]
        return self._random.choice(fitting) if fitting else None

    def message(self, kind: type[T], fixed: Mapping[str, Any]) -> T | None:
        """A new message with the fields `fixed`; None where chance makes none that the type allows."""
        info = _type_of(kind)
        for _ in range(TRIES_MAX):
            fields = {"kind": kind.__name__.lower(), **self._struct(info, 0), **fixed}
            try:
                return msgspec.convert(fields, kind)
            except msgspec.ValidationError:
                continue
        return None

    def altered(self, message: T) -> T:
        """`message` with one or two fields changed; as it is where chance finds nothing allowed."""
        kind = type(message)
        info = _type_of(kind)
        for _ in range(TRIES_MAX):
            fields = msgspec.to_builtins(message)
            for field in self._random.sample(info.fields, min(2, len(info.fields))):
                fields[field.name] = self._value(field.name, field.type, 0)
            try:
                return msgspec.convert(fields, kind)
            except msgspec.ValidationError:
                continue
        return message

    # Remembering

    def _walk(self, field: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                if field in ("chosen", "proofs"):
                    self.learn("site", (name,))
                    self._walk("hold_id" if field == "chosen" else "secret", inner)
                else:
                    self._walk(name, inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                self._walk(field, inner)
        elif field and field != "kind" and value is not None:
            self.learn(field, (value,))

    def _keep(self, known: list[Any], value: Any) -> None:
        if len(known) >= KNOWN_MAX:
            known[self._random.randrange(KNOWN_MAX)] = value
        else:
            known.append(value)

    # Inventing

    def _struct(self, info: inspect.StructType, depth: int) -> dict[str, Any]:
        return {
            field.name: self._value(field.name, field.type, depth + 1)
            for field in info.fields
            if field.required or self._random.random() < 0.6
        }

    def _value(self, field: str, kind: inspect.Type, depth: int) -> Any:
        random = self._random
        match kind:
            case inspect.Metadata():
                return self._value(field, kind.type, depth)
            case inspect.StructType():
                return self._struct(kind, depth)
            case inspect.LiteralType():
                return random.choice(kind.values)
            case inspect.UnionType():
                return self._value(field, random.choice(kind.types), depth)
            case inspect.VarTupleType() | inspect.ListType():
                least = kind.min_length or 0
                count = max(least, random.choice((0, 1, 1, 2, 3) if depth < 3 else (0, 1)))
                return [
                    self._value(field, kind.item_type, depth + 1)
                    for _ in range(min(count, kind.max_length or count))
                ]
            case inspect.TupleType():
                return [self._value(field, each, depth + 1) for each in kind.item_types]
            case inspect.DictType():
                return self._table(field, kind, depth)
            case inspect.BoolType():
                return random.random() < 0.5
            case inspect.IntType():
                return self._number(field, kind)
            case inspect.StrType():
                return self._text(field)
        return self.one_of(field)

    def _table(self, field: str, kind: inspect.DictType, depth: int) -> dict[Any, Any]:
        inside = {"chosen": "hold_id", "proofs": "secret"}.get(field, field)
        names = {"chosen": "site", "proofs": "site"}.get(field, "argument")
        keys = [self._value(names, kind.key_type, depth) for _ in range(self._random.randrange(3))]
        return {key: self._value(inside, kind.value_type, depth + 1) for key in keys}

    def _number(self, field: str, kind: inspect.IntType) -> int:
        random = self._random
        least, most = int(kind.ge or 0), int(kind.le if kind.le is not None else 1 << 62)
        known = self.one_of(field)
        fate = random.random()
        if isinstance(known, int) and fate < 0.6:
            return known
        if isinstance(known, int) and fate < 0.8:
            return min(max(known + random.choice((-3_600, -2, -1, 1, 2, 3_600)), least), most)
        small = random.randrange(least, min(least + 10, most) + 1)
        return small if fate < 0.9 else min(max(random.choice(NUMBERS), least), most)

    def _text(self, field: str) -> str:
        random = self._random
        known = self.one_of(field)
        if isinstance(known, str) and random.random() < 0.85:
            return known
        if KINDRED.get(field, field) in ("secret", "register", "life"):
            return f"{random.getrandbits(128):032x}"
        if KINDRED.get(field, field) == "rid":
            return f"{random.getrandbits(32):08x}-0000-7000-8000-{random.getrandbits(48):012x}"
        return random.choice(TEXTS)
