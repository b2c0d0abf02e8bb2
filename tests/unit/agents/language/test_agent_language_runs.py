"""Runs of scripts: what the guards allow, what ends a run, and what the outcome says."""

from __future__ import annotations

import marshal
import subprocess
import sys
from typing import Any, NoReturn

import pytest

from kalends.agents.language import ENGINE, limits
from kalends.agents.language.job import perform
from kalends.agents.runs import Engine, RunOutcome, ScriptRun
from kalends.agents.sandbox.language_only import LanguageOnly

STEPS_MAX = 300_000


def script(*lines: str) -> str:
    return "def choose(view, request):\n" + "".join(f"    {line}\n" for line in lines)


async def run(*lines: str, view: Any = None, inbox: tuple[Any, ...] = ()) -> RunOutcome:
    job = ScriptRun("ada", script(*lines), "choose", (view, {}), inbox, {"UTC": ((0, 0),)})
    return await LanguageOnly(steps_max=STEPS_MAX).run(job)


ANSWERS: list[tuple[str, Any]] = [
    ("1 + 2 * 3 - 4 // 3 % 5 ** 2", 6),
    ("[7 / 2, 7 & 3, 7 | 8, 7 ^ 2, 1 << 3, 9 >> 1, ~1, -1, not 1]", [3.5, 3, 15, 5, 8, 4, -2, -1, False]),
    ("[1 < 2 <= 2, 1 < 3 < 2, 1 == 1.0, 'a' != 'b', [1] >= [0], 3 > 3]",
     [True, False, True, True, True, False]),
    ("[1 in [1], 'a' in 'ab', 'k' in {'k': 1}, 3 not in range(3), 1.0 in range(3)]", [True] * 5),
    ("[1, 2, 3, 4][1:3] + [0][:]", [2, 3, 0]),
    ("['abc'[-1], (1, 2)[0], range(5)[2], {'a': 1}['a'], 'abcd'[::2]]", ["c", 1, 2, 1, "ac"]),
    ("(1, (2, [3]))", [1, [2, [3]]]),
    ("'ab' * 2 + 3 * 'c'", "ababccc"),
    ("{'a': 1} | {'b': 2}", {"a": 1, "b": 2}),
    ("[x * y for x in range(3) for y in (1, 2) if x]", [1, 2, 2, 4]),
    ("{k: v for k, v in zip('ab', [1, 2])}", {"a": 1, "b": 2}),
    ("sum(x for x in [1, 2, 3])", 6),
    ("sum([0.1] * 10)", 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1),
    ("f'{1:03d}|{2.5:.2f}|{\"x\":>{3}}|{True}|{None}|{1_000:,}'", "001|2.50|  x|True|None|1,000"),
    ("[int('7'), int('ff', 16), int(3.9), float('1.5'), str(1.0), bool([]), list('ab'), tuple([1])]",
     [7, 255, 3, 1.5, "1.0", False, ["a", "b"], [1]]),
    ("[dict(a=1), dict([('b', 2)]), dict({'c': 3}, d=4)]", [{"a": 1}, {"b": 2}, {"c": 3, "d": 4}]),
    ("[min([3, 1]), max(1, 5), min([], default=0), max('ab', 'c', key=len)]", [1, 5, 0, "ab"]),
    ("[sorted([3, 1, 2], reverse=True), sorted(['bb', 'a'], key=len)]", [[3, 2, 1], ["a", "bb"]]),
    ("[any([0, 1]), all([]), abs(-2), divmod(7, 2), round(2.5), round(1.25, 1), len('abc')]",
     [True, True, 2, [3, 1], 2, 1.2, 3]),
    ("[enumerate('ab', 1), reversed([1, 2]), map(lambda a, b: a + b, [1], [2]), filter(None, [0, 1])]",
     [[[1, "a"], [2, "b"]], [2, 1], [3], [1]]),
    ("['a,b'.split(','), ' x '.strip(), 'ab'.upper(), '-'.join(['a', 'b']), 'aXa'.replace('a', 'bb')]",
     [["a", "b"], "x", "AB", "a-b", "bbXbb"]),
    ("['abc'.find('c'), 'abc'.startswith(('x', 'a')), 'a1'.isdigit(), 'k=v'.partition('=')]",
     [2, True, False, ["k", "=", "v"]]),
    ("[{'a': 1}.get('b', 2), {'a': 1}.items(), {'a': 1}.keys(), {'a': 1}.values()]",
     [2, [["a", 1]], ["a"], [1]]),
    ("[(1, 2, 1).count(1), [1, 2].index(2)]", [2, 1]),
    ("sorted([{'a': 1, 'b': 2}, {'a': 1, 'b': 3}, {'a': 0, 'b': 1}], key=by('a', '-b'))",
     [{"a": 0, "b": 1}, {"a": 1, "b": 3}, {"a": 1, "b": 2}]),
    ("(lambda a, b=2: a + b)(1)", 3),
    ("(y := 2) + y", 4),
    ("1 if view is None else 2", 1),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "answer"), ANSWERS)
async def test_an_expression_has_the_value_that_python_gives_it(
    expression: str, answer: Any
) -> None:
    outcome = await run(f"return {expression}")
    assert (outcome.code, outcome.detail) == ("ok", "")
    assert outcome.answer == answer
    assert outcome.engine == ENGINE
    assert 0 < outcome.cost.steps < 1_000


async def test_statements_do_what_they_do_in_python() -> None:
    outcome = await run(
        "values = [5, 3]",
        "same = values",
        "values += [1]",
        "values *= 2",
        "counts = {}",
        "counts |= {'n': 0}",
        "for number, value in enumerate(values):",
        "    if value == 3:",
        "        continue",
        "    counts['n'], counts[(number, 'x')] = counts['n'] + 1, value",
        "else:",
        "    values.append('else')",
        "n = 10",
        "while True:",
        "    n -= 3",
        "    if n < 0:",
        "        break",
        "def inner(a, *, b=2):",
        "    def deeper():",
        "        return a + b",
        "    return deeper()",
        "values.sort(key=str)",
        "values.insert(0, values.pop())",
        "values.remove(1)",
        "values.reverse()",
        "return [same, counts['n'], len(counts), n, inner(1), inner(1, b=n)]",
    )
    assert outcome.answer == [[5, 5, 3, 3, 1, "else"], 4, 5, -2, 3, -1]


ERRORS: list[tuple[str, str]] = [
    ("{}['q']", "KeyError: there is no key 'q'"),
    ("{}[7]", "KeyError: there is no key 7"),
    ("{}.pop((1,))", "KeyError: there is no such tuple"),
    ("[1][5]", "IndexError: list index out of range"),
    ("1 // 0", "ZeroDivisionError: "),
    ("1 + 'a'", "TypeError: unsupported operand type(s) for +: 'int' and 'str'"),
    ("'a' % 1", 'TypeError: % does not format text; write f"{value}"'),
    ("'a' * 'b'", "TypeError: cannot multiply str by str"),
    ("'a' * 10 ** 12", "OverflowError: a text of more than 100,000 characters"),
    ("[0] * 10 ** 6", "OverflowError: more than 200,000 items"),
    ("[1] + [0] * 200_000", "OverflowError: more than 200,000 items"),
    ("10 ** 10 ** 8", "OverflowError: an integer of more than 512 bits"),
    ("3 ** 512", "OverflowError: an integer of more than 512 bits"),
    ("1 << 10 ** 9", "OverflowError: an integer of more than 512 bits"),
    ("1 << 512", "OverflowError: an integer of more than 512 bits"),
    ("(1 << 511) * 2", "OverflowError: an integer of more than 512 bits"),
    ("(1 << 511) + (1 << 511)", "OverflowError: an integer of more than 512 bits"),
    ("-(1 << 511) - (1 << 511)", "OverflowError: an integer of more than 512 bits"),
    ("int(1e300)", "OverflowError: an integer of more than 512 bits"),
    ("round(1e300)", "OverflowError: an integer of more than 512 bits"),
    ("int('9' * 601)", "OverflowError: an integer of more than 512 bits"),
    ("round(5, -10 ** 9)", "ValueError: digits to round to are integers up to 30"),
    ("(-8) ** 0.5", "ValueError: a root of a negative number"),
    ("range(10 ** 9)", "OverflowError: more than 200,000 items"),
    ("range(0, -10 ** 9, -2)", "OverflowError: more than 200,000 items"),
    ("len(range(10 ** 30))", "OverflowError: more than 200,000 items"),
    ("f'{1:>201}'", "ValueError: a format wider than 200"),
    ("f'{1:.99999}'", "ValueError: this format is not in the language"),
    ("f'{1:n}'", "ValueError: this format is not in the language"),
    ("f'{view}{[]}'", "TypeError: list has no text; write out its items"),
    ("str(len)", "TypeError: function has no text; write out its items"),
    ("'a'.join([1])", "TypeError: join takes texts, not int"),
    ("('a' * 50_000).replace('a', 'bbb')", "OverflowError: a text of more than 100,000 characters"),
    ("('a' * 1000).join(['b'] * 1000)", "OverflowError: a text of more than 100,000 characters"),
    ("{[]: 1}", "TypeError: a key cannot be list"),
    ("{[n]: n for n in [1]}", "TypeError: a key cannot be list"),
    ("'a' * 60_000 + 'b' * 60_000", "OverflowError: a text of more than 100,000 characters"),
    ("[a := 'a' * 60_000, f'{a}{a}']", "OverflowError: a text of more than 100,000 characters"),
    ("('\u00df' * 60_000).upper()", "OverflowError: a text of more than 100,000 characters"),
    ("max([])", "ValueError: there is nothing to choose from"),
    ("{(1, [2]): 1}", "TypeError: a key cannot hold list"),
    ("{len: 1}", "TypeError: a key cannot be function"),
    ("{} in {}", "TypeError: a key cannot be dict"),
    ("[x for x in 5]", "TypeError: there are no items in int"),
    ("1 in 5", "TypeError: there are no items in int"),
    ("5[0]", "TypeError: there are no items in int"),
    ("list(None)", "TypeError: there are no items in None"),
    ("[3].index(4)", "ValueError: this is not among the items"),
    ("(3).index(4)", "TypeError: int has no method index"),
    ("'a'.append(4)", "TypeError: str has no method append"),
    ("{}.update([('a', 1)])", "TypeError: update takes a dict, not list"),
    ("int('x')", "ValueError: invalid literal for int() with base 10: 'x'"),
    ("int([])", "TypeError: list is not a number"),
    ("len(1, 2)", "TypeError: len() takes 1 positional argument but 2 were given"),
    ("weekday(0, 'Mars/Olympus')", "ValueError: no resource here is in the time zone Mars/Olympus"),
    ("weekday('x')", "TypeError: a time is an integer of seconds, not str"),
    ("local_date(10 ** 14)", "ValueError: a time is between the years 1970 and 3000, in seconds"),
    ("hours('2')", "TypeError: an amount of time is a number, not str"),
    ("minutes(0.001)", "ValueError: an amount of time is a whole number of seconds"),
    ("hours(1e300 * 1e300 * 0)", "ValueError: an amount of time is a whole number of seconds"),
    ("clock('9:30')", 'ValueError: a time of day is written "09:30"'),
    ("clock('24:01')", 'ValueError: a time of day is written "09:30"'),
    ("merge([[2, 1]])", "ValueError: an interval ends before it starts"),
    ("merge([1])", "TypeError: an interval is a dict or a pair, not int"),
    ("overlaps({}, {})", 'KeyError: an interval has "start" and "end"'),
    ("sorted([{}], key=by('a'))", "KeyError: there is no key 'a'"),
    ("sorted([{'a': 'x'}], key=by('-a'))", "TypeError: only numbers can be sorted downwards, not str"),
    ("by(1)", "TypeError: by takes names, not int"),
    ("by('a')(1)", "TypeError: by sorts dicts, not int"),
    ("send(len)", "ValueError: a message is short, plain data: function cannot be handed over"),
    ("send('x' * 5000)", "ValueError: a message is short, plain data: too much data in all"),
    ("send('\\t' * 4000)", "ValueError: a message is short, plain data: more than 4,096 characters"),
    ("[send(n) for n in range(17)]", "ValueError: a run sends at most 16 messages"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "detail"), ERRORS)
async def test_an_error_names_its_type_its_text_and_its_line(expression: str, detail: str) -> None:
    outcome = await run("x = 1", f"return {expression}")
    assert (outcome.code, outcome.line, outcome.answer, outcome.sent) == (
        "agent-error",
        3,
        None,
        (),
    )
    assert outcome.detail.startswith(detail)


@pytest.mark.parametrize(
    ("statement", "detail"),
    [
        ("raise ValueError('no ' + str(1))", "ValueError: no 1"),
        ("raise KeyError('k')", "KeyError: k"),
        ("raise Exception", "Exception"),
        ("assert view, f'empty {1}'", "AssertionError: empty 1"),
        ("assert view", "AssertionError"),
        ("raise ValueError('\\x00\\ud800\\n\\x1b')", "ValueError: \\x00\\ud800\\n\\x1b"),
        ("raise ValueError([])", "TypeError: list has no text; write out its items"),
        ("view['x'] = 1", "TypeError: nothing in None can be set"),
        ("(1,)[0], x = 1, 2", "TypeError: nothing in tuple can be set"),
        ("[1]['x'], x = 1, 2", "TypeError: the index of a list is not str"),
        ("a, b = [1]", "ValueError: not enough values to unpack (expected 2, got 1)"),
        ("a = a + 1", "NameError: a has no value yet"),
        ("a = [1 for b in [1] if c]\n    c = a", "NameError: c has no value yet"),
        (
            "a = (lambda first=1: first)(frst=2)",
            "TypeError: choose.<locals>.<lambda>() got an unexpected",
        ),
        ("a = 1.5 % 0", "ZeroDivisionError: division by zero"),
        ("a = 0 ** -1", "ZeroDivisionError: zero to a negative power"),
        ("a = 'x'.count(1)", "TypeError: count takes texts, not int"),
        ("a = 'x'.find('x', '1')", "TypeError: find counts in integers, not str"),
        ("a = 'x'.startswith(('x', 1))", "TypeError: startswith takes texts, not int"),
        ("a = 'x'.replace('x', None)", "TypeError: replace takes texts, not None"),
    ],
)
async def test_what_a_script_raises_is_said(statement: str, detail: str) -> None:
    outcome = await run(statement)
    assert (outcome.code, outcome.line) == ("agent-error", 2)
    assert outcome.detail.startswith(detail)
    assert outcome.detail.isprintable()


@pytest.mark.parametrize(
    "expression",
    [
        "'a'.join()",
        "'a'.split(foo=1)",
        "[1].append()",
        "{}.get()",
        "[2].sort(1)",
        "(1,).count()",
        "len()",
    ],
)
async def test_errors_of_calls_name_what_was_called_and_nothing_of_ours(expression: str) -> None:
    ended = await run(f"return {expression}")
    assert ended.code == "agent-error"
    assert "locals" not in ended.detail
    assert "guard" not in ended.detail


async def test_the_text_of_an_error_is_short() -> None:
    outcome = await run("raise ValueError('\\x00' * 100_000)")
    assert len(outcome.detail) == limits.DETAIL_CHARS_MAX


async def test_the_line_is_the_innermost_of_the_script() -> None:
    outcome = await run("def f(n):", "    return 1 // n", "return sorted([1, 0], key=f)")
    assert (outcome.code, outcome.line) == ("agent-error", 3)


async def test_an_error_outside_of_every_function_has_its_line() -> None:
    job = ScriptRun("ada", "X = 1 // 0\n" + script("return X"), "choose", (None, {}))
    outcome = await LanguageOnly().run(job)
    assert (outcome.code, outcome.line) == ("agent-error", 1)


BOMBS: list[tuple[str, ...]] = [
    ("while True: pass",),
    ("while not []: x = 1",),
    ("values = [1]", "for value in range(1000):", "    values = values + values[:1000]"),
    ("def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)", "return fib(40)"),
    ("return [1 for a in range(1000) for b in range(1000)]",),
    ("return {a: 1 for a in range(200_000)}",),
    ("a = 'a' * 100_000", "b = 'a' * 99_999 + 'a'", "while a == b: pass"),
    ("a = 'a' * 100_000", "while 'b' * 1_000 not in a: pass"),
    ("a = 'a' * 100_000", "while a.rfind('b' + 'a' * 50_000) < 0: pass"),
    ("a = list(range(10_000))", "while -1 not in a: pass"),
    ("a = [[0] * 1000] * 1000", "return a == [[0] * 1000] * 1000"),
    ("a = [1] * 10_000", "while sum(a): pass"),
    ("a = list(range(10_000))", "while sorted(a): pass"),
    ("a = (1,)", "for n in range(15): a = (a, a, a)", "return {a: 1}"),
    ("a = [1]", "for n in range(15): a = [a, a, a]", "return a == [a[0], a[0], a[1][:]]"),
    ("while True: x = {1: 2, 3: [4, 5]}",),
    ("x = []", "while True: x = [x]"),
    ("x = {}", "while True: x['x' + str(len(x))] = 1"),
    ("while True: x = f'{1:>200}{2:>200}'",),
    ("a = ['x'] * 50_000", "while ','.join(a): pass"),
    ("a = 'a,' * 50_000", "while a.split(','): pass"),
    ("return map(lambda a: map(lambda b: b, range(1000)), range(1000))",),
    ("values = []", "while True:", "    values.insert(0, 1)", "    if len(values) > 100_000: values = []"),
    ("while True: merge([[1, 2]] * 100)",),
    ("while True: weekday(0)",),
]  # fmt: skip


@pytest.mark.parametrize("lines", BOMBS)
async def test_endless_or_huge_work_ends_when_the_steps_do(lines: tuple[str, ...]) -> None:
    outcome = await run(*lines)
    assert (outcome.code, outcome.cost.steps) == ("limit-steps", STEPS_MAX)
    assert outcome.line >= 2
    assert outcome.detail == f"all {STEPS_MAX:,} steps are used up"


@pytest.mark.parametrize(
    ("named", "placed"),
    [("t.split(sep=s)", "t.split(s)"), ("t.rsplit(sep=s, maxsplit=1)", "t.rsplit(s, 1)")],
)
async def test_work_costs_the_same_whether_arguments_are_named_or_not(
    named: str, placed: str
) -> None:
    texts = ("t = 'ab' * 1000", "s = 'ba' * 50")
    by_name = await run(*texts, f"return {named}")
    by_place = await run(*texts, f"return {placed}")
    assert by_name.code == by_place.code == "ok"
    assert by_name.cost.steps >= by_place.cost.steps > 10_000


@pytest.mark.parametrize("compared", ["{k: 1} == d", "{k: 1} in [d]", "[d].count({k: 1})"])
async def test_keys_of_dicts_are_paid_for_where_dicts_are_compared(compared: str) -> None:
    lines = ("k = tuple(range(20000))", "d = {k: 1}")
    without = await run(*lines, "{k: 1}", "return 1")
    with_it = await run(*lines, f"{compared}", "return 1")
    assert with_it.cost.steps - without.cost.steps >= 20_000


@pytest.mark.parametrize(
    "expression",
    [
        "{2 ** 60: 1}",
        "{-(2 ** 60): 1}",
        "{}.get(2 ** 61 - 1)",
        "{(1, 2 ** 40): 1}",
        "{((2 ** 40,),): 1}",
    ],
)
async def test_integers_that_could_share_a_hash_are_no_keys(expression: str) -> None:
    ended = await run(f"return {expression}")
    assert (ended.code, ended.detail[:13]) == ("agent-error", "OverflowError")
    assert (
        await run("return [{2 ** 60 - 1: 1}[2 ** 60 - 1], {(1, 2 ** 40 - 1): 2}[(1, 2 ** 40 - 1)]]")
    ).answer == [1, 2]


async def test_a_loop_over_a_list_that_grows_ends() -> None:
    outcome = await run(
        "values = [1, 2]", "for value in values: values.append(value)", "return values"
    )
    assert outcome.answer == [1, 2, 1, 2]


@pytest.mark.parametrize(
    "lines",
    [
        ("def f(n): return f(n + 1)", "return f(0)"),
        ("f = lambda n: f(n + 1)", "return f(0)"),
        ("def f(n): return sorted([n], key=f)", "return f(0)"),
        ("def f(n): return [f(n) for x in [1]]", "return f(0)"),
        ("def f(n): return map(f, [n])", "return f(0)"),
        ("def f(n): return 1 < 2 < f(n)", "return f(0)"),
        ("def f(n): return dict([min([n], key=f)])", "return f(0)"),
    ],
)
async def test_calls_without_end_are_a_recursion_too_deep(lines: tuple[str, ...]) -> None:
    outcome = await run(*lines)
    assert outcome.code == "limit-recursion"
    assert outcome.detail == "RecursionError: more than 400 calls inside one another"


@pytest.mark.parametrize("line", ["return 1", "return 1 // 0", "while True: pass"])
async def test_python_s_own_limit_of_recursion_is_put_back(line: str) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 4_321)
    try:
        await run(line)
        assert sys.getrecursionlimit() == before + 4_321
    finally:
        sys.setrecursionlimit(before)


async def test_calls_that_return_do_not_add_up() -> None:
    outcome = await run(
        "def f(n):",
        "    if n == 0: return 0",
        "    f(0)",
        "def g(n): return n if n < 390 else f(n)",
        "return [[g(n) for n in range(1000)][389], (lambda n: n)(1)]",
    )
    assert outcome.answer == [389, 1]


@pytest.mark.parametrize(
    "expression",
    [
        "a == b", "a < b", "a in [b]", "[b].count(a)", "[b].index(a)", "sorted([a, b])", "min(a, b)",
        "{c: 1}", "{}.get(c)", "c in {}", "dict([(c, 1)])", "{}.setdefault(c)",
    ],
)  # fmt: skip
async def test_data_nested_too_deep_is_not_compared_and_is_no_key(expression: str) -> None:
    nested = ["a, b, c = [], [], ()", "for n in range(3000): a, b, c = [a], [b], (c,)"]
    outcome = await run(*nested, f"return {expression}")
    assert outcome.code == "limit-recursion"
    assert outcome.detail == "RecursionError: data nested deeper than 16"


async def test_a_list_that_holds_itself_ends_nothing_but_the_run() -> None:
    outcome = await run("a = []", "a.append(a)", "return a == [a]")
    assert outcome.code == "limit-recursion"
    assert (await run("a = []", "a.append(a)", "return a")).code == "limit-output"


@pytest.mark.parametrize(
    "lines",
    [
        ("x = [1]", "for n in range(2000): x = (y for y in x)", "return sum(x)"),
        ("f = lambda: 1", "for n in range(2000): f = (lambda g: lambda: g)(f)", "return 1"),
        ("x = ()", "for n in range(2000): x = (x,)", "x = 1", "return x"),
        ("x = {}", "for n in range(2000): x = {'x': x}", "x = 1", "return x"),
    ],
)
async def test_long_chains_of_objects_do_no_harm(lines: tuple[str, ...]) -> None:
    assert (await run(*lines)).answer == 1


PLAIN: list[Any] = [None, True, 0, -(2**63), 2**63 - 1, 1.5, "", "ä" * 4_096, [], {}, {"a": [1, {"b": None}]},
                    [[[[[[[[1]]]]]]]], [0] * 19_999]  # fmt: skip


@pytest.mark.parametrize("answer", PLAIN)
async def test_plain_answers_are_handed_over(answer: Any) -> None:
    outcome = await run("return view", view=answer)
    assert (outcome.code, outcome.answer) == ("ok", answer)


@pytest.mark.parametrize(
    ("expression", "code", "detail"),
    [
        ("2 ** 63", "bad-result", "an integer of more than 64 bits"),
        ("-2 ** 63 - 1", "bad-result", "an integer of more than 64 bits"),
        ("1e999", "bad-result", "inf is not a finite number"),
        ("1e999 * 0", "bad-result", "nan is not a finite number"),
        ("len", "bad-result", "function cannot be handed over"),
        ("[lambda: 1]", "bad-result", "function cannot be handed over"),
        ("range(3)", "bad-result", "range cannot be handed over"),
        ("{1: 2}", "bad-result", "the keys of a dict are texts, not int"),
        ("'\\ud800'", "bad-result", "half of a surrogate pair in a text"),
        ("{'\\udfff': 1}", "bad-result", "half of a surrogate pair in a text"),
        ("'ä' * 4_097", "limit-output", "a text of more than 8,192 bytes"),
        ("[0] * 20_000", "limit-output", "more than 20,000 items in all"),
        ("[[[[[[[[[]]]]]]]]]", "limit-output", "nested deeper than 8"),
        ("['x' * 8_000] * 40", "limit-output", "too much data in all"),
    ],
)
async def test_other_answers_are_not(expression: str, code: str, detail: str) -> None:
    outcome = await run(f"return {expression}")
    assert (outcome.code, outcome.detail, outcome.answer) == (code, detail, None)


async def test_messages_come_and_go() -> None:
    outcome = await run(
        "note = [receive(), receive(), receive()]",
        "send(note)",
        "note.append('later')",
        "send({'n': 1})",
        "return note",
        inbox=({"a": 1}, None),
    )
    assert outcome.sent == ([{"a": 1}, None, None], {"n": 1})
    assert outcome.answer == [{"a": 1}, None, None, "later"]


async def test_nothing_is_sent_by_a_run_that_fails() -> None:
    assert (await run("send(1)", "return 1 // 0")).sent == ()
    assert (await run("send(1)", "return len")).sent == ()
    assert (await run("send(1)", "while True: pass")).sent == ()


async def test_a_script_changes_nothing_of_its_host_s() -> None:
    view = {"slots": [{"id": 1}]}
    message = ["note"]
    outcome = await run(
        "view['slots'].append(2)",
        "view['slots'][0]['id'] = 7",
        "receive().append(3)",
        "return view",
        view=view,
        inbox=(message,),
    )
    assert outcome.answer == {"slots": [{"id": 7}, 2]}
    assert (view, message) == ({"slots": [{"id": 1}]}, ["note"])


async def test_no_run_leaves_anything_to_the_next() -> None:
    source = "SEEN = []\n" + script("SEEN.append(1)", "return SEEN")
    engine: Engine = LanguageOnly()
    for _ in range(2):
        assert (await engine.run(ScriptRun("ada", source, "choose", (None, {})))).answer == [1]
    await engine.close()


async def test_recall_is_called_with_what_it_takes() -> None:
    source = "def recall(slot, asker, view):\n    return slot < asker < view\n"
    outcome = await LanguageOnly().run(ScriptRun("ada", source, "recall", (1, 2, 3)))
    assert outcome.answer is True


async def test_a_function_that_is_not_there_is_an_error_of_the_script() -> None:
    outcome = await LanguageOnly().run(ScriptRun("ada", script("return []"), "recall", (1, 2, 3)))
    assert (outcome.code, outcome.detail) == (
        "agent-error",
        "NameError: the script defines no recall",
    )


async def test_a_check_names_the_functions_or_the_violations() -> None:
    engine = LanguageOnly()
    checked = await engine.check(script("return 1 // 0"), "ada")
    assert (checked.code, checked.functions, checked.violations) == ("ok", ("choose",), ())
    both = "def recall(a, b, c): return True\n" + script("return []")
    assert (await engine.check(both, "ada")).functions == ("choose", "recall")
    refused = await engine.check("import os\n" + script("return os.x"), "ada")
    assert refused.code == "rejected"
    assert [violation.rule for violation in refused.violations] == ["no-import", "no-attribute"]
    assert refused.detail.startswith("no-import: ")


async def test_a_run_of_a_source_that_breaks_rules_is_rejected() -> None:
    outcome = await run("return view.slots")
    assert (outcome.code, outcome.line, outcome.cost.steps) == ("rejected", 2, 0)
    assert [violation.rule for violation in outcome.violations] == ["no-attribute"]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("together(1, 2)", "TypeError"),
        ("together({'slots': [1]}, {'terms': []})", "TypeError"),
        ("together({'slots': [{'term': 0}]}, {'terms': []})", "KeyError"),
        ("together({'slots': [{'common': True, 'term': 0}]}, {'terms': []})", "TypeError"),
        ("ids(3)", "TypeError"),
        ("ids(['x'])", "TypeError"),
        ("ids([{'id': 1.0}])", "TypeError"),
        ("ids([[{'id': 1}] * 1000] * 1000)", "OverflowError"),
    ],
)
async def test_what_is_no_slot_is_an_error_of_the_script(expression: str, error: str) -> None:
    outcome = await run(f"return {expression}")
    assert outcome.code == "agent-error"
    assert outcome.detail.startswith(error)


def test_a_worker_loads_nothing_of_a_server() -> None:
    heavy = "asyncio msgspec aiohttp numpy socket sqlite3 importlib.metadata"
    program = (
        "import sys, kalends.agents.language.job; "
        f"print([name for name in {heavy.split()!r} if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


class Finished(BaseException):
    pass


def performed(job: dict[str, Any]) -> dict[str, Any]:
    results: list[dict[str, Any]] = []

    def finish(result: dict[str, Any]) -> NoReturn:
        results.append(result)
        raise Finished

    with pytest.raises(Finished):
        perform(job, finish)
    (result,) = results
    return result


def run_job(source: str, code: bytes = b"", steps_max: int = 100_000) -> dict[str, Any]:
    return {"op": "run", "source": source, "code": code, "function": "choose",
            "arguments": [{"slots": [3, 1, 2]}, {}], "inbox": [], "zones": {},
            "steps_max": steps_max}  # fmt: skip


def test_the_bytecode_of_a_check_gives_the_same_result_as_the_source() -> None:
    source = script("send('x')", "return sorted(s for s in view['slots'] if 1 < s <= 3)")
    checked = performed({"op": "check", "source": source})
    assert (checked["code"], checked["functions"]) == ("ok", ["choose"])
    assert marshal.loads(checked["bytecode"]).co_filename == "<agent>"
    from_source = performed(run_job(source))
    assert from_source["answer"] == [2, 3]
    assert performed(run_job(source, checked["bytecode"])) == from_source


def test_steps_that_run_out_finish_the_job_from_inside_once() -> None:
    result = performed(run_job(script("while True: pass"), steps_max=1_000))
    assert (result["code"], result["steps"], result["line"]) == ("limit-steps", 1_000, 2)


@pytest.mark.parametrize("steps_max", range(1, 60))
def test_a_run_with_fewer_steps_than_it_needs_has_no_answer(steps_max: int) -> None:
    source = script("return [s for s in view['slots'] if s > 1]")
    needed = performed(run_job(source))["steps"]
    result = performed(run_job(source, steps_max=steps_max))
    assert (result["code"], result["steps"]) == (
        ("ok", needed) if steps_max >= needed else ("limit-steps", steps_max)
    )
