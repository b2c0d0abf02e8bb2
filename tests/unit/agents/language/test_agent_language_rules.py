"""Each rule of the language: what breaks it, where it is said to be broken, and what stays allowed."""

from __future__ import annotations

import pytest

from kalends.agents.language import limits
from kalends.agents.language.checker import parsed
from kalends.agents.language.policy import Rejected, compile_script
from kalends.agents.language.rules import REMEDIES

CHOOSE = "def choose(view, request):\n"


def body(*lines: str) -> str:
    return CHOOSE + "".join(f"    {line}\n" for line in lines)


BROKEN: list[tuple[str, str, int, int]] = [
    ("syntax", body("return ("), 2, 12),
    ("syntax", body("break"), 2, 5),
    ("syntax", body("return [a := 1 for a in [1]]"), 2, 13),
    ("big-number", CHOOSE + f"    return {'9' * 5_000}\n", 2, 1),
    ("bad-character", "x = 1\ny = '\0'\n", 2, 6),
    ("bad-character", "x = '\ud800'", 1, 6),
    ("too-long", body("return []") + "#" * limits.SOURCE_BYTES_MAX, 1, 1),
    ("too-large", CHOOSE + "    x = 1\n" * 2_500, 1, 1),
    ("too-deep", body("return " + "-" * 100 + "1"), 2, 73),
    ("too-deep", "-" * 30_000 + "1", 1, 1),
    ("too-deep", body("return " + "[" * 17 + "0" + " for x in [1]]" * 17), 2, 28),
    (
        "too-deep",
        CHOOSE + "".join(f"{' ' * n}for x in [1]:\n" for n in range(1, 18)) + " " * 18 + "pass",
        18,
        18,
    ),
    ("syntax", body("return f'{view['a']}'"), 2, 12),
    ("syntax", body("return f'{\"\\n\"}'"), 2, 12),
    ("syntax", body("return f'{1:{2:{3}}}'"), 2, 12),
    ("unknown-syntax", body("return view[1, 2:3]"), 2, 20),
    ("module-level", "x = 1\n'not the docstring'\n" + body("return x"), 2, 1),
    ("module-level", "if True:\n    x = 1\n" + body("return []"), 1, 1),
    ("module-level", "a, b = 1, 2\n" + body("return []"), 1, 1),
    ("entry-missing", "def chose(view, request):\n    return []\n", 1, 1),
    ("entry-arguments", "def choose(view):\n    return []\n", 1, 1),
    ("entry-arguments", "choose = lambda view, request: []\n" + body("return []"), 1, 1),
    ("entry-arguments", "def recall(slot, asker, view, more):\n    return True\n", 1, 1),
    ("entry-arguments", "def choose(view, request, *, more):\n    return []\n", 1, 1),
    ("no-import", "import os\n" + body("return []"), 1, 1),
    ("no-import", body("from os import path", "return []"), 2, 5),
    ("no-class", "class A:\n    pass\n" + body("return []"), 1, 1),
    ("no-try", body("try:", "    return 1", "except ValueError as e:", "    return e"), 2, 5),
    ("no-try", body("try:", "    return 1", "except* ValueError:", "    pass"), 2, 5),
    ("no-with", body("with view:", "    return []"), 2, 5),
    ("no-del", body("del view['slots']"), 2, 5),
    ("no-global", body("global x", "return []"), 2, 5),
    ("no-global", body("x = 1", "def f():", "    nonlocal x", "return f"), 4, 9),
    ("no-yield", body("yield 1"), 2, 5),
    ("no-yield", body("yield from view"), 2, 5),
    ("no-async", "async def choose(view, request):\n    return []\n", 1, 1),
    ("no-async", body("return [x async for x in view]"), 2, 25),
    ("no-match", body("match view:", "    case 1:", "        return []"), 2, 5),
    ("no-set", body("return {1, 2}"), 2, 12),
    ("no-set", body("return {x for x in view}"), 2, 12),
    ("no-literal", body("return b'x'"), 2, 12),
    ("no-literal", body("return 1j"), 2, 12),
    ("no-literal", body("return ..."), 2, 12),
    ("big-number", body(f"return {1 << 512}"), 2, 12),
    ("no-operator", body("return view @ request"), 2, 12),
    ("no-is", body("return view is request"), 2, 12),
    ("no-is", body("return None is None is None"), 2, 12),
    ("no-annotation", "def choose(view: dict, request):\n    return []\n", 1, 12),
    ("no-annotation", "def choose(view, request) -> list:\n    return []\n", 1, 30),
    ("no-annotation", body("x: int = 1", "return x"), 2, 5),
    ("no-decorator", "@sorted\n" + body("return []"), 1, 2),
    ("no-star-args", body("return max(*view)"), 2, 16),
    ("no-star-args", body("return dict(**view)"), 2, 17),
    ("no-star-args", body("return {**view}"), 2, 15),
    ("no-star-args", body("a, *b = view", "return b"), 2, 8),
    ("no-star-args", body("def f(*a):", "    return a", "return f"), 2, 12),
    ("no-star-args", body("return lambda **a: a"), 2, 21),
    ("no-dunder", body("_x = 1", "return []"), 2, 5),
    ("no-dunder", body("return __name__"), 2, 12),
    ("no-dunder", body("a__roles__ = 1", "return []"), 2, 5),
    ("no-dunder", body("return dict(_x=1)"), 2, 17),
    ("no-dunder", body("def f(_getattr_):", "    return 1", "return f"), 2, 11),
    ("no-dunder", body("return lambda _tick_: 1"), 2, 19),
    ("ascii-name", body("größe = 1", "return []"), 2, 5),
    ("reserved-name", body("print = 1", "return []"), 2, 5),
    ("reserved-name", body("return ValueError('x')"), 2, 12),
    ("unknown-name", body("return open('x')"), 2, 12),
    ("unknown-name", body("return [x for x in view] + [x]"), 2, 33),
    ("unknown-name", body("f = lambda a: a", "return a"), 3, 12),
    ("no-attribute", body("return view.slots"), 2, 12),
    ("no-attribute", body("f = view.get", "return f"), 2, 9),
    ("no-attribute", body("view.x = 1", "return []"), 2, 5),
    ("unknown-method", body("return '{}'.format(view)"), 2, 12),
    ("unknown-method", body("return view.__class__()"), 2, 12),
    ("no-target", body("[a, b] = view", "return a"), 2, 5),
    ("no-target", body("view[1:2] = []", "return []"), 2, 5),
    ("no-augmented-item", body("view['n'] += 1", "return []"), 2, 5),
    ("no-conversion", body("return f'{view!r}'"), 2, 15),
    ("no-conversion", body("return f'{view=}'"), 2, 15),
    ("raise-form", body("raise"), 2, 5),
    ("raise-form", body("raise ValueError('a') from KeyError('b')"), 2, 5),
    ("raise-form", body("raise view"), 2, 5),
    ("raise-form", body("raise ValueError('a', 'b')"), 2, 5),
    ("raise-form", body("raise OSError('a')"), 2, 5),
    ("walrus-in-chain", body("return 1 < 2 < (x := 3)"), 2, 21),
]


@pytest.mark.parametrize(("rule", "source", "line", "column"), BROKEN)
def test_a_broken_rule_is_named_at_its_place(
    rule: str, source: str, line: int, column: int
) -> None:
    found = parsed(source)[1]
    assert rule in {violation.rule for violation in found}
    broken = next(violation for violation in found if violation.rule == rule)
    assert broken.line == line
    if "f'" not in source:  # Python 3.11 and 3.12 place the parts of an f-string differently.
        assert broken.column == column
    assert broken.detail.endswith(REMEDIES[rule])
    assert broken.detail.isprintable()
    with pytest.raises(Rejected) as rejected:
        compile_script(source)
    assert rejected.value.violations == found


def test_every_rule_has_an_example_that_breaks_it() -> None:
    """But `restricted-python`: what the checker lets through, RestrictedPython lets through."""
    assert {rule for rule, *_ in BROKEN} == set(REMEDIES) - {"restricted-python"}


def test_all_broken_rules_are_named_at_once_in_order_of_place() -> None:
    found = parsed(
        "import os\n"
        "class A: pass\n"
        "def choose(view, request):\n"
        "    try:\n"
        "        return view.slots + {1}\n"
        "    except KeyError:\n"
        "        return os\n"
    )[1]
    assert [(violation.line, violation.rule) for violation in found] == [
        (1, "no-import"),
        (2, "no-class"),
        (4, "no-try"),
        (5, "no-attribute"),
        (5, "no-set"),
        (6, "reserved-name"),
    ]


def test_columns_count_characters_not_bytes() -> None:
    (broken,) = parsed(body("return ['äöü', nothing]"))[1]
    assert (broken.line, broken.column) == (2, 20)


def test_a_source_with_very_many_violations_shows_the_first_of_them() -> None:
    found = parsed("import os\n" * 500 + body("return []"))[1]
    assert [violation.line for violation in found] == list(range(1, limits.VIOLATIONS_MAX + 1))


HOSTILE = [
    "(" * 30_000,
    "[" * 5_000 + "]" * 5_000,
    "a" + ".b" * 15_000,
    "f" + "(1)" * 10_000,
    "x = 1" + "+1" * 15_000,
    "x = 1" + "**1" * 10_000,
    "not " * 8_000 + "1",
    "lambda: " * 4_000 + "1",
    "x = " + "1 if 1 else " * 2_500 + "1",
    "".join(" " * depth + "if 1:\n" for depth in range(150)),
    "if 1:\n pass\n" + "elif 1:\n pass\n" * 2_000,
    "f'{" * 200 + "1" + "}'" * 200,
    "'a' " * 8_000,
    "\x0c\r\r\n\t x",
    "\ufeffx = 1",
    "# -*- coding: utf-7 -*-\nx = 1",
    "x = '\\N{NO SUCH NAME}'",
    "x = 0x" + "f" * 30_000,
    "x = 1e" + "9" * 30_000,
    "\\",
    "'" * 3,
]


def test_what_is_refused_is_named_as_its_author_has_written_it() -> None:
    source = (
        "from os import path\nclass A:\n    pass\n"
        "def choose(view, request):\n    try:\n        return {1}\n    except KeyError:\n        pass\n"
    )
    said = [violation.detail.partition(";")[0] for violation in parsed(source)[1]]
    assert [text for text in said if text.endswith("not in the language")] == [
        f"{written} is not in the language" for written in ("`import`", "`class`", "`try`", "a set")
    ]


@pytest.mark.parametrize("source", HOSTILE)
def test_hostile_text_is_refused_with_a_place(source: str) -> None:
    found = parsed(source)[1]
    assert found
    assert all(violation.line >= 1 and violation.column >= 1 for violation in found)


ALLOWED = [
    body("return [s['id'] for s in view['slots'] if s['units'] > 1 < 2]"),
    body('"""A docstring."""', "return []"),
    "'A docstring.'\nLIMIT = minutes(5)\nA = B = 3\n" + body("return [LIMIT, A, B]"),
    body("if view is None or view is not True:", "    return []", "return (x := 1) + x"),
    body("for a, (b, c) in view:", "    view[a], b = b, c", "else:", "    return a", "return []"),
    body("def f(a, b=1, *, c=2):", "    return lambda d=b: a + d + c", "return f(1, c=2)()"),
    body(
        "while view:",
        "    x = view.pop(0)",
        "    x += 1",
        "    if x: continue",
        "    break",
        "return []",
    ),
    body("return f'{len(view):>{3}} {request}'"),
    body("assert view, 'empty'", "raise ValueError"),
    body("return {k: [v for v in vs if v] for k, vs in view.items()}"),
    body("min = 3", "_ = 4", "return [min, _]"),
    "def recall(slot, asker, view):\n    return asker['older']\n",
]


@pytest.mark.parametrize("source", ALLOWED)
def test_what_the_language_has_is_not_refused(source: str) -> None:
    assert parsed(source)[1] == ()
    compile_script(source)
