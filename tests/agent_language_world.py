"""What the tests of the agents' language share: runs without an event loop, and random scripts.

The scripts come from a grammar of the language that mostly keeps to the types of what it names.
"""

from __future__ import annotations

import random
from typing import Any, NoReturn

from kalends.agents.language.job import perform

Result = dict[str, Any]


class Finished(BaseException):
    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


def never() -> NoReturn:
    raise AssertionError("the steps of this test have run out")


def performed(
    source: str, arguments: list[Any], *, steps_max: int = 20_000, code: bytes = b""
) -> Result:
    """The result of a run of `choose`."""

    def finish(result: Result) -> NoReturn:
        raise Finished(result)

    job = {
        "op": "run",
        "source": source,
        "code": code,
        "function": "choose",
        "arguments": arguments,
        "inbox": [],
        "zones": {"UTC": [[0, 0]]},
        "steps_max": steps_max,
    }
    try:
        perform(job, finish)
    except Finished as finished:
        return finished.result


INTEGERS, TEXTS, LISTS, DICTS = ("n", "m"), ("s", "t"), ("v", "w"), ("d", "e")

PATTERNS: dict[str, tuple[str, ...]] = {
    "int": (
        "0", "1", "-1", "7", "100_000", "10 ** 18", "n", "m", "n", "m", "len({list})", "len({text})",
        "({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} // {int})", "({int} % {int})",
        "({int} ** {int})", "({int} << {int})", "({int} >> {int})", "({int} & {int})", "({int} | {int})",
        "({int} ^ {int})", "(-{int})", "(~{int})", "abs({int})", "min({int}, {int})", "max({ints})",
        "sum({ints})", "sum(n for n in {ints})", "({int} if {bool} else {int})", "{ints}[{int}]",
        "int({text})", "round({int} / 4, 2)", "round({int})", "{list}.index({any})", "{list}.count({any})",
        "{text}.find({text})", "(lambda n, m=3: {int})({int})", "f({int})", "f({int}, m={int})",
        "{dict}[{text}]", "{dict}.get({text}, 5)", "divmod({int}, {int})[1]",
        "{list}.pop()", "{list}.pop({int})",
    ),
    "text": (
        "''", "'x'", "'abc'", "'y'", "s", "t", "s", "t", "({text} + {text})", "({text} * {int})",
        "{text}[{int}]", "{text}[{int}:{int}]", "str({int})", "f'{{n}}-{{s:>4}}'", "f'{{m:,}}'",
        "{text}.upper()", "{text}.strip()", "{text}.replace({text}, {text})", "','.join({texts})",
        "({text} if {bool} else {text})", "str({bool})", "{text}.removeprefix({text})",
    ),
    "bool": (
        "True", "False", "({int} < {int})", "({int} <= {int} < {int})", "({int} == {any} != {int})",
        "({text} < {text})", "({list} == {list})", "({any} in {list})", "({text} not in {dict})",
        "({text} in {text})", "({bool} and {bool})", "({bool} or {bool})", "(not {bool})", "bool({any})",
        "any({list})", "all({list})", "({any} is None)", "{text}.startswith({text})", "({list} <= {list})",
    ),
    "ints": ("[1, 2, 3]", "[{int}, {int}]", "list(range({int}))", "[n for n in {list} if {bool}]",
             "[{int} for n in {ints} for m in {ints}]", "sorted({ints})", "({ints} + {ints})",
             "range(3)", "map(lambda n: {int}, {ints})", "(4, 5)"),
    "texts": ("['x', {text}]", "{text}.split({text})", "[str(n) for n in {ints}]", "list({text})",
              "list({dict})"),
    "list": (
        "[]", "v", "w", "v", "w", "{ints}", "{texts}", "[{any}, {any}]", "({any}, {any})", "{list}[{int}:]",
        "({list} * 2)", "sorted({list}, key=lambda v: {int}, reverse={bool})", "list(reversed({list}))",
        "[{any} for v in {list}]", "zip({list}, {list})", "enumerate({list})", "list({list})",
        "filter(lambda v: {bool}, {list})", "tuple({list})", "{list}.copy()",
    ),
    "dict": ("{{}}", "d", "e", "d", "{{{text}: {int}}}", "{{s: {int} for s in {texts}}}", "({dict} | {dict})",
             "dict(x={int})", "dict(zip({texts}, {ints}))", "{dict}.copy()"),
    "any": ("{int}", "{text}", "{bool}", "{list}", "{dict}", "None", "1.5"),
}  # fmt: skip
"""What makes a value of each type; names in braces stand for expressions."""

STATEMENTS = (
    "n = {int}", "m = {int}", "s = {text}", "v = {list}", "w = {list}", "d = {dict}", "n, m = {int}, {int}",
    "n += {int}", "m = (n := {int}) + n", "m *= {int}", "s += {text}", "v += {list}", "v *= 2", "d |= {dict}",
    "d[{text}] = {int}",
    "v[{int}] = {any}", "v.append({any})", "v.extend({list})", "v.insert({int}, {any})", "v.remove({any})",
    "v.reverse()", "v.sort()", "d.setdefault({text}, {int})", "d.update({dict})", "assert {bool}, {text}",
    "return {any}", "{any}",
)  # fmt: skip
BLOCKS = ("if {bool}:", "while {bool}:", "for n in {ints}:", "for v in {list}:", "for s in {dict}:",
          "for n, s in enumerate({texts}):")  # fmt: skip


class Author:
    """Writes random scripts; the same from the same seed, on every Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def script(self) -> str:
        """A whole script, with one function besides `choose`."""
        lines = ["def f(n, m=2):", "    s, t, v, w, d, e = 'x', 'yz', [1], [], {'x': 1}, {}"]
        lines += ["    " + line for line in self._lines(1, in_loop=False)]
        lines += ["    return " + self.expression("int", 3)]
        lines += ["def choose(v, d):", "    n, m, s, t, w, e = 3, 5, 'x', 'ab', [2, 1], {'y': 2}"]
        lines += ["    " + line for line in self._lines(0, in_loop=False)]
        return "\n".join([*lines, "    return [n, m, s, t, v, w, d, e]", ""])

    def expression(self, kind: str, size: int) -> str:
        """Return an expression of the type `kind`; one in forty has another type."""
        if self._random.random() < 0.025:
            return f"({self.expression(self._random.choice([*PATTERNS]), size)})"
        patterns = PATTERNS[kind]
        if size <= 0:
            patterns = tuple(one for one in patterns if "{" not in one.replace("{{", "")) or ("n",)
        return self._filled(self._random.choice(patterns), size)

    def _filled(self, pattern: str, size: int) -> str:
        text, rest = "", pattern
        while rest:
            if rest[:2] in ("{{", "}}"):
                text, rest = text + rest[0], rest[2:]
            elif rest[0] == "{":
                kind, rest = rest[1:].split("}", 1)
                text += self.expression(kind, size - 1)
            else:
                text, rest = text + rest[0], rest[1:]
        return text

    def _lines(self, depth: int, *, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self._random.randint(1, 4)):
            if depth < 3 and self._random.random() < 0.25:
                head = self._filled(self._random.choice(BLOCKS), 2)
                body = self._lines(depth + 1, in_loop=in_loop or not head.startswith("if"))
                lines += [head, *("    " + line for line in body)]
            elif in_loop and self._random.random() < 0.15:
                lines.append(self._random.choice(["break", "continue"]))
            else:
                lines.append(self._filled(self._random.choice(STATEMENTS), 3))
        return lines
