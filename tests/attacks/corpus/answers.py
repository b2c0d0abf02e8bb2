"""Answers that are no answers: not plain, too much, or with ids that were never shown."""

from __future__ import annotations

from .kinds import BAD, OK, OUTPUT, Attack, Codes, choosing, expressions, forged, harmless, inside

_NOT_PLAIN = (
    "choose",
    "lambda: 0",
    "len",
    "[len]",
    "[[choose]]",
    "{'a': choose}",
    "by('id')",
    "1e999",
    "-1e999",
    "1e999 - 1e999",
    "[float('nan')]",
    "[float('inf')]",
    "2 ** 64",
    "-2 ** 64",
    "[2 ** 200]",
    "{1: 2}",
    "{None: 1}",
    "{(1, 2): 3}",
    "{True: 1}",
    "[{0: 0}]",
    "'\\ud800'",
    "['\\udfff']",
    "{'\\ud800': 0}",
)

_TOO_MUCH = (
    "list(range(100000))",
    "[[0] * 999] * 999",
    "'a' * 99999",
    "['a' * 8000] * 999",
    "{str(n): n for n in range(30000)}",
    "['\\U0001f600' * 2500]",
    "{'a' * 9000: 0}",
    "[[[[[[[[[[[[0]]]]]]]]]]]]",
    "{'a': {'a': {'a': {'a': {'a': {'a': {'a': {'a': {'a': 0}}}}}}}}}",
)


def _recalls(expression: str, answer: object) -> Attack:
    """An answer of ``recall`` that is neither True nor False."""
    source = f"def recall(slot, asker, view):\n    return {expression}\n"
    return Attack(
        f"recall: {expression}",
        "neither yes nor no",
        source,
        frozenset({"ok"}),
        function="recall",
        answer=answer,
        judged="bad-result",
    )


def _recall_fails(name: str, tries: str, body: str, codes: Codes) -> Attack:
    source = choosing(body).replace("choose(view, request)", "recall(slot, asker, view)")
    return Attack(f"recall: {name}", tries, source, codes, function="recall")


ATTACKS = [
    *expressions("an answer that is no plain data", _NOT_PLAIN, BAD),
    *expressions("an answer larger or deeper than allowed", _TOO_MUCH, OUTPUT),
    inside(
        "an answer in itself", "never end on the way out", "x = []\nx.append(x)\nreturn x", OUTPUT
    ),
    inside(
        "an answer through a circle of dicts",
        "never end on the way out",
        "x = {}\nx['x'] = [x]\nreturn [x]",
        OUTPUT,
    ),
    inside(
        "a million ids",
        "more than there can be",
        "return [n for n in range(100000)] * 10",
        frozenset({"agent-error"}),
    ),
    inside(
        "an answer deep as the sea",
        "overflow whoever reads it",
        "x = []\nfor n in range(100000):\n    x = [x]\nreturn x",
        OUTPUT,
    ),
    inside(
        "an answer deep as the sea, of dicts",
        "overflow whoever reads it",
        "x = {}\nfor n in range(100000):\n    x = {'x': x}\nreturn x",
        OUTPUT,
    ),
    inside(
        "an answer deep as the sea, of tuples",
        "overflow whoever reads it",
        "x = ()\nfor n in range(100000):\n    x = (x,)\nreturn x",
        OUTPUT,
    ),
    inside(
        "a web as answer",
        "a few lists with billions of paths through them",
        "x = [0]\nfor n in range(6):\n    x = [x] * 99\nreturn x",
        OUTPUT,
    ),
    inside("the view as answer", "more than ids", "return view", OK)._replace(
        answer=..., judged="bad-result"
    ),
    harmless(
        "a generator",
        "an answer that is not there yet: it is a list here",
        "return (slot['id'] for slot in view['slots'] if slot['id'] < 1)",
    ),
    forged("a generator in a list", "an answer that is not there yet", "[(x for x in [0])]", [[0]]),
    forged("nothing", "no answer at all", "None", None),
    forged("yes", "a truth value", "True", True),
    forged("one id, without a list", "a number", "0", 0),
    forged("a text", "a text that reads like a list", "'[0]'", "[0]"),
    forged("an empty text", "iterates like an empty list", "''", ""),
    forged("a dict of ids", "iterates like a list of its keys", "{'0': 0}", {"0": 0}),
    forged("an empty dict", "iterates like an empty list", "{}", {}),
    forged("a negative id", "the last slot, counted from the end", "[-1]", [-1]),
    forged("the id after the last", "one more than there are", "[len(view['slots'])]", [24]),
    forged("an id of a billion", "an index far outside", "[10 ** 9]", [10**9]),
    forged("the largest id", "an index that overflows", "[2 ** 63 - 1]", [2**63 - 1]),
    forged("the smallest id", "an index that overflows", "[-2 ** 63]", [-(2**63)]),
    forged("a truth value as id", "True is 1 to many", "[True]", [True]),
    forged("a false one as id", "False is 0 to many", "[False]", [False]),
    forged("a float as id", "1.0 is 1 to many", "[1.0]", [1.0]),
    forged("a negative zero as id", "-0.0 is 0 to many", "[-0.0]", [-0.0]),
    forged("a text as id", "'1' is 1 to some", "['1']", ["1"]),
    forged("nothing as id", "None among ids", "[0, None]", [0, None]),
    forged("a list as id", "a list among ids", "[[0]]", [[0]]),
    forged(
        "a slot instead of its id",
        "the whole dict",
        "[{'id': 0, 'resource': 'sdsc/secret', 'units': 10 ** 6}]",
        [{"id": 0, "resource": "sdsc/secret", "units": 10**6}],
    ),
    forged("one id twice", "held twice", "[0, 0]", [0, 0]),
    forged("one id again and again", "held a thousand times", "[0] * 1000", [0] * 1000),
    forged(
        "all ids and one more",
        "one too many",
        "[s['id'] for s in view['slots']] + [24]",
        [*range(25)],
    ),
    forged(
        "good ids and a forged one",
        "the good ones would carry the bad one",
        "[0, 1, 2, 99999]",
        [0, 1, 2, 99999],
    ),
    forged("the start of a slot", "a time instead of an id", "[1_800_000_000]", [1_800_000_000]),
    _recalls("1", 1),
    _recalls("0", 0),
    _recalls("None", None),
    _recalls("'True'", "True"),
    _recalls("''", ""),
    _recalls("[]", []),
    _recalls("[True]", [True]),
    _recalls("1.0", 1.0),
    _recalls("{'give': True}", {"give": True}),
    _recall_fails("a function", "neither yes nor no", "return recall", BAD),
    _recall_fails("no number", "neither yes nor no", "return 1e999 - 1e999", BAD),
    _recall_fails(
        "an endless thought", "never answer", "while True:\n    pass", frozenset({"limit-steps"})
    ),
    _recall_fails("an error", "no answer", "raise ValueError('no')", frozenset({"agent-error"})),
    _recall_fails(
        "an escape", "as any other function", "return slot.__class__", frozenset({"rejected"})
    ),
    _recall_fails(
        "who asks",
        "the asker's name is not told",
        "return asker['name']",
        frozenset({"agent-error"}),
    ),
]
