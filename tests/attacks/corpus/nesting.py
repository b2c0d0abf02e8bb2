"""Sources that are small in bytes and deep, wide or heavy for parsers, compilers and interpreters."""

from __future__ import annotations

from .kinds import ERROR, RECURSION, Attack, choosing, forged, whole

_DEPTH = 9_000


def _answers(name: str, expression: str) -> Attack:
    source = f"def choose(view, request):\n    return {expression}\n"
    return whole(f"deep: {name}", "overflow a stack of the parser or of the compiler", source)


def _staircase(line: str, steps: int, last: str) -> str:
    """`line` on `steps` lines, each one deeper than the one before."""
    lines = ["def choose(view, request):"]
    lines += [" " * (step + 1) + line for step in range(steps)]
    return "\n".join([*lines, " " * (steps + 1) + last, ""])


ATTACKS = [
    _answers("parentheses", "(" * _DEPTH + "0" + ")" * _DEPTH),
    _answers("parentheses never closed", "(" * 30_000),
    _answers("lists", "[" * _DEPTH + "]" * _DEPTH),
    _answers("lists never closed", "[" * 30_000),
    _answers("dicts never closed", "{1:" * _DEPTH),
    _answers("minus signs", "-" * 30_000 + "1"),
    _answers("tildes", "~" * 30_000 + "1"),
    _answers("not", "not " * 7_000 + "1"),
    _answers("attributes", "view" + ".get" * 7_000),
    _answers("subscripts", "view" + "[0]" * _DEPTH),
    _answers("calls", "choose" + "()" * _DEPTH),
    _answers("lambdas", "lambda: " * 3_000 + "0"),
    _answers("additions", "1" + "+1" * _DEPTH),
    _answers("powers", "1" + "**1" * _DEPTH),
    _answers("comparisons", "1" + "<1" * _DEPTH),
    forged("deep: and", "overflow a stack of the parser", "1" + " and 1" * 5_000, 1),
    _answers("conditions", "1 if 1 else " * 2_000 + "1"),
    _answers("walruses", "(x := " * 3_000 + "0" + ")" * 3_000),
    forged("deep: texts side by side", "one text of many", "'a' " * 7_000, "a" * 7_000),
    _answers("f-strings", "f'{1}' " * 4_000),
    _answers("f-strings in f-strings", "f'{" * 1_000 + "1" + "}'" * 1_000),
    _answers("format specifications", "f'{1:" + "{1:" * 500 + "}" * 500 + "}'"),
    _answers("comprehensions", "[" * 80 + "0" + " for x in [1]]" * 80 + " + [" * 3_000),
    _answers("loops in one comprehension", "[0" + " for x in [1]" * 2_000 + "]"),
    _answers("slices", "view" + "[0:0]" * 5_000),
    _answers("arguments", "max(" + "1," * 10_000 + ")"),
    _answers("keywords", "dict(" + ",".join(f"k{number}=1" for number in range(4_000)) + ")"),
    _answers("elements", "[" + "0," * 10_000 + "]"),
    _answers("a number of many digits", "9" * 30_000),
    _answers("a number of many hexadecimal digits", "0x" + "f" * 30_000),
    _answers("a decimal fraction of many digits", "[" + "0." + "1" * 30_000 + "]" * 2),
    whole(
        "deep: a staircase of conditions",
        "overflow the list of indentations",
        _staircase("if view:", 200, "return [0]"),
    ),
    whole(
        "deep: a staircase of loops",
        "more blocks than the compiler nests",
        _staircase("for x in [1]:", 30, "return [0]"),
    ),
    whole(
        "deep: a staircase of functions",
        "scopes inside of scopes",
        _staircase("def inner():", 98, "return [0]"),
    ),
    whole(
        "deep: elif after elif",
        "a chain in the source is a ladder in the tree",
        "def choose(view, request):\n    if view:\n        return [0]\n"
        + "    elif view:\n        return [0]\n" * 800,
    ),
    whole(
        "wide: functions",
        "more nodes than are allowed",
        "def f(): return 0\n" * 1_800 + choosing("return [0]"),
    ),
    whole(
        "wide: names",
        "more nodes than are allowed",
        "def choose(view, request):\n" + "".join(f"    a{n} = 1\n" for n in range(2_300)),
    ),
    whole(
        "heavy: the compiler is asked for a huge power",
        "constants are folded when the source is compiled",
        choosing("return [9 ** 9 ** 9]"),
        ERROR,
    ),
    whole(
        "heavy: the compiler is asked for a huge shift",
        "constants are folded when the source is compiled",
        choosing("return [1 << 10 ** 9]"),
        ERROR,
    ),
    whole(
        "heavy: the compiler is asked for a huge text",
        "constants are folded when the source is compiled",
        choosing("return ['a' * 10 ** 12]"),
        ERROR,
    ),
    whole(
        "heavy: the compiler is asked for a huge tuple",
        "constants are folded when the source is compiled",
        choosing("return [((0,) * 10 ** 9) * 10 ** 9]"),
        ERROR,
    ),
    whole(
        "heavy: the compiler is asked to format",
        "a constant format is folded when the source is compiled (3.11 on)",
        choosing("return ['%1000000000s' % ('a',)]"),
        ERROR,
    ),
    whole(
        "deep: a value that is nested while running",
        "overflow the stack when it is compared",
        choosing(
            """
            a = []
            b = []
            for number in range(50000):
                a = [a]
                b = [b]
            return [0] if a == b else [1]
            """
        ),
        RECURSION,
    ),
]
