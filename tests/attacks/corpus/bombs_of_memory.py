"""Scripts that grow something: doubling, multiplying, nesting, chaining, and forgetting to stop."""

from __future__ import annotations

from .kinds import ERROR, MEMORY, OK, RECURSION, REJECTED, STEPS, expressions, harmless, inside

ATTACKS = [
    *expressions(
        "more than any memory holds, in one operation",
        (
            "'a' * 10 ** 12",
            "10 ** 12 * 'a'",
            "[0] * 10 ** 12",
            "(0,) * 10 ** 12",
            "[[0] * 10 ** 6] * 10 ** 6",
            "10 ** 10 ** 8",
            "2 ** 2 ** 40",
            "(-2) ** 10 ** 9",
            "1 << 10 ** 9",
            "1 << (1 << 62)",
            "list(range(10 ** 30))",
            "list(range(10 ** 8))",
            "tuple(range(10 ** 8))",
            "sorted(range(10 ** 8))",
            "dict(enumerate(range(10 ** 8)))",
            "range(10 ** 8)[5]",
            "','.join(map(str, range(10 ** 8)))",
            "sum(range(10 ** 40))",
            "max(range(10 ** 15))",
            "reversed(range(10 ** 15))",
            "'a'.replace('', 'b' * 99999).replace('a', 'c' * 99999).replace('b', 'd' * 99999)",
            "('a' * 90000).replace('a', 'b' * 90000)",
            "('a' * 300).join(['b'] * 90000)",
            "str(10 ** 150 * 10 ** 150)",
            "int('9' * 5000)",
            "int('9' * 99999)",
            "int('f' * 99999, 16)",
            "round(10 ** 100, -10 ** 9)",
            "round(1.5, 10 ** 9)",
            "round(1, -10 ** 18)",
            "divmod(10 ** 150, 10 ** -150 * 0)",
            "float('1' + '0' * 400) * 0 + int(float('inf'))",
            "0.1 ** -10 ** 9",
            "(-8) ** 0.5 + 1",
        ),
        ERROR,
    ),
    inside(
        "a list is doubled", "twice as much each turn", "x = [0]\nwhile True:\n    x = x + x", ERROR
    ),
    inside(
        "a list is doubled in place",
        "twice as much each turn",
        "x = [0]\nwhile True:\n    x += x",
        ERROR,
    ),
    inside(
        "a list is multiplied in place",
        "twice as much each turn",
        "x = [0]\nwhile True:\n    x *= 2",
        ERROR,
    ),
    inside(
        "a list is extended by itself",
        "twice as much each turn",
        "x = [0]\nwhile True:\n    x.extend(x)",
        ERROR,
    ),
    inside(
        "a list is extended by a slice of itself",
        "twice as much each turn",
        "x = [0]\nwhile True:\n    x = x[:] + x[:]",
        ERROR,
    ),
    inside(
        "a list is assigned to its own slice",
        "twice as much each turn",
        "x = [0]\nwhile True:\n    x[0:0] = x",
        REJECTED,
    ),
    inside(
        "a text is doubled", "twice as much each turn", "x = 'a'\nwhile True:\n    x = x + x", ERROR
    ),
    inside(
        "a text is doubled in place",
        "twice as much each turn",
        "x = 'a'\nwhile True:\n    x += x",
        ERROR,
    ),
    inside(
        "a text is doubled by an f-string",
        "twice as much each turn",
        "x = 'a'\nwhile True:\n    x = f'{x}{x}'",
        ERROR,
    ),
    inside(
        "a text is doubled by join",
        "twice as much each turn",
        "x = 'a'\nwhile True:\n    x = x.join([x, x])",
        ERROR,
    ),
    inside(
        "a text is doubled by replace",
        "twice as much each turn",
        "x = 'a'\nwhile True:\n    x = x.replace('a', 'aa')",
        ERROR,
    ),
    inside(
        "a text is doubled by str of a list",
        "a text inside of a text",
        "x = 'a'\nwhile True:\n    x = str([x, x])",
        ERROR,
    ),
    inside(
        "a text grows when it becomes upper case",
        "one letter becomes three",
        "x = '\\u0390' * 99999\nwhile True:\n    x = x.upper()",
        ERROR,
    ),
    inside(
        "a tuple is doubled",
        "twice as much each turn",
        "x = (0,)\nwhile True:\n    x = x + x",
        ERROR,
    ),
    inside(
        "a tuple is doubled in place",
        "twice as much each turn",
        "x = (0,)\nwhile True:\n    x += x",
        ERROR,
    ),
    inside(
        "a dict is filled",
        "a new key each turn",
        "x = {}\nn = 0\nwhile True:\n    x[n] = [n]\n    n += 1",
        STEPS,
    ),
    inside(
        "a dict is filled by setdefault",
        "a new key each turn",
        "x = {}\nn = 0\nwhile True:\n    x.setdefault(n, [n])\n    n += 1",
        STEPS,
    ),
    inside(
        "a dict is filled by update",
        "many keys each turn",
        "x = {}\nn = 0\nwhile True:\n    x.update({n: n, n + 1: n})\n    n += 2",
        STEPS,
    ),
    inside(
        "a list is filled by append",
        "one more each turn",
        "x = []\nwhile True:\n    x.append({})",
        ERROR,
    ),
    inside(
        "a list is filled by insert",
        "one more each turn",
        "x = []\nwhile True:\n    x.insert(0, {})",
        STEPS,
    ),
    inside(
        "many long lists",
        "each allowed, all together not",
        "return [list(range(100000)) for n in range(100000)]",
        STEPS,
    ),
    inside(
        "many long texts",
        "each allowed, all together not",
        "return ['a' * (90000 + n) for n in range(9999)]",
        STEPS,
    ),
    inside(
        "many big numbers",
        "each allowed, all together not",
        "return [[2 ** 500 + n + m for n in range(9999)] for m in range(9999)]",
        STEPS,
    ),
    inside(
        "many dicts of long keys",
        "each allowed, all together not",
        "return [{str(n) * 999: str(m) * 999 for m in range(999)} for n in range(999)]",
        STEPS,
    ),
    inside(
        "many functions",
        "each holds its scope",
        "x = []\nwhile True:\n    x.append(lambda y=[0] * 1000: y)",
        STEPS,
    ),
    inside(
        "many splits",
        "a list of many texts from one text",
        "x = 'a,' * 49999\nreturn [x.split(',') for n in range(9999)]",
        STEPS,
    ),
    inside(
        "all splits of all lines",
        "a list of lists of texts",
        "x = ('a b\\n' * 24999)\nreturn [[y.split() for y in x.splitlines()] for n in range(9999)]",
        STEPS,
    ),
    inside(
        "a number squared again and again",
        "twice the digits each turn",
        "x = 3\nwhile True:\n    x = x * x",
        ERROR,
    ),
    inside(
        "a number squared in place",
        "twice the digits each turn",
        "x = 3\nwhile True:\n    x *= x",
        ERROR,
    ),
    inside(
        "a number shifted in place",
        "as many digits more as it is large",
        "x = 9\nwhile True:\n    x <<= x",
        ERROR,
    ),
    inside(
        "a number to its own power",
        "as many digits more as it is large",
        "x = 9\nwhile True:\n    x **= x",
        ERROR,
    ),
    inside(
        "a number doubled by addition",
        "one digit more each turn",
        "x = 1\nwhile True:\n    x = x + x",
        ERROR,
    ),
    inside(
        "a number doubled by sum",
        "one digit more each turn",
        "x = 1\nwhile True:\n    x = sum([x, x])",
        ERROR,
    ),
    inside(
        "a number doubled by subtraction",
        "one digit more each turn",
        "x = 1\nwhile True:\n    x = x - -x",
        ERROR,
    ),
    inside(
        "a float that overflows",
        "an infinity by multiplication",
        "x = 2.0\nfor n in range(9999):\n    x *= x\nreturn [x]",
        frozenset({"bad-result"}),
    ),
    inside(
        "lists summed to one",
        "each addition copies all before",
        "return sum([[0] * 1000] * 1000, [])",
        STEPS,
    ),
    inside(
        "texts summed to one",
        "each addition copies all before",
        "return sum(['a' * 1000] * 1000, '')",
        ERROR,
    ),
    inside(
        "tuples summed to one",
        "each addition copies all before",
        "return sum([(0,) * 1000] * 1000, ())",
        STEPS,
    ),
    inside(
        "a nested tuple as key",
        "hashing recurses in C without a check",
        "x = ()\nfor n in range(100000):\n    x = (x,)\nreturn [{x: 0}]",
        RECURSION,
    ),
    inside(
        "a nested tuple is looked up",
        "hashing recurses in C without a check",
        "x = ()\nfor n in range(100000):\n    x = (x,)\nreturn [{}.get(x)]",
        RECURSION,
    ),
    inside(
        "a nested tuple in a dict of pairs",
        "hashing recurses in C without a check",
        "x = ()\nfor n in range(100000):\n    x = (x,)\nreturn dict([(x, 0)])",
        RECURSION,
    ),
    inside(
        "a nested tuple is sorted",
        "comparing recurses in C",
        "x = ()\ny = ()\nfor n in range(100000):\n    x = (x,)\n    y = (y,)\nreturn sorted([x, y])",
        RECURSION,
    ),
    inside(
        "a nested list in a list",
        "comparing recurses in C",
        "x = []\ny = []\nfor n in range(100000):\n    x = [x]\n    y = [y]\nreturn [x in [y]]",
        RECURSION,
    ),
    inside(
        "text of a nested list",
        "repr recurses in C",
        "x = []\nfor n in range(100000):\n    x = [x]\nreturn [str(x)]",
        ERROR,
    ),
    inside(
        "an f-string of a nested dict",
        "repr recurses in C",
        "x = {}\nfor n in range(100000):\n    x = {0: x}\nreturn [f'{x}']",
        ERROR,
    ),
    inside(
        "a nested list raised",
        "the text of an error recurses",
        "x = []\nfor n in range(100000):\n    x = [x]\nraise Exception(x)",
        ERROR,
    ),
    harmless(
        "a nested list is dropped",
        "freeing memory recurses",
        "x = []\nfor n in range(100000):\n    x = [x]\nx = 0\nreturn [0]",
    ),
    harmless(
        "nested tuples and dicts are dropped",
        "freeing memory recurses",
        "x = ()\nfor n in range(50000):\n    x = ({0: x},)\nx = 0\nreturn [0]",
    ),
    harmless(
        "nested functions are dropped",
        "freeing memory recurses",
        "x = 0\nfor n in range(50000):\n    x = (lambda y: lambda: y)(x)\nx = 0\nreturn [0]",
    ),
    inside(
        "chained genexps",
        "each asks the one before it, in C",
        "x = [1]\nfor n in range(50000):\n    x = (y for y in x)\nreturn [y for y in x]",
        OK,
    )._replace(answer=[1]),
    *(
        inside(
            f"chained {name}",
            "each asks the one before it, in C",
            f"x = [1]\nfor n in range(50000):\n    x = {call}\nreturn [len(list(x)) - 1]",
            OK,
        )._replace(answer=[0])
        for name, call in (
            ("map", "map(lambda y: y, x)"),
            ("filter", "filter(lambda y: True, x)"),
            ("zip", "zip(x)"),
            ("enumerate", "enumerate(x)"),
            ("reversed", "reversed(list(x))"),
            ("slices", "x[:]"),
        )
    ),
    inside(
        "a list in itself as text",
        "repr of a circle",
        "x = []\nx.append(x)\nreturn [str(x)]",
        ERROR,
    ),
    inside(
        "two circles compared",
        "comparing circles never ends",
        "x = []\ny = [x]\nx.append(y)\nreturn [x == y]",
        RECURSION,
    ),
    inside(
        "two circles of dicts compared",
        "comparing circles never ends",
        "x = {}\ny = {0: x}\nx[0] = y\nreturn [x == y]",
        RECURSION,
    ),
    inside(
        "a web of lists compared",
        "a few lists with billions of paths through them",
        "x = [0]\ny = [0]\nfor n in range(14):\n    x = [x] * 14\n    y = [y] * 14\nreturn [x == y]",
        STEPS,
    ),
    inside(
        "text of a web of lists",
        "a few lists with billions of paths through them",
        "x = [0]\nfor n in range(14):\n    x = [x] * 14\nreturn [str(x)]",
        ERROR,
    ),
    inside(
        "a web of tuples as key",
        "a few tuples with billions of paths through them",
        "x = (0,)\nfor n in range(14):\n    x = (x,) * 14\nreturn [{x: 1}]",
        STEPS,
    ),
    inside(
        "a web of lists sorted",
        "a few lists with billions of paths through them",
        "x = [0]\ny = [0]\nfor n in range(14):\n    x = [x] * 14\n    y = [y] * 14\n"
        "return sorted([x, y])",
        STEPS,
    ),
    inside(
        "a web of lists minimised",
        "a few lists with billions of paths through them",
        "x = [0]\ny = [0]\nfor n in range(14):\n    x = [x] * 14\n    y = [y] * 14\n"
        "return min([x, y])",
        STEPS,
    ),
    inside(
        "a web of lists counted",
        "a few lists with billions of paths through them",
        "x = [0]\ny = [0]\nfor n in range(14):\n    x = [x] * 14\n    y = [y] * 14\n"
        "return [[x].count(y)]",
        STEPS,
    ),
    *(
        inside(
            f"memory: {name}",
            "each value and each step allowed, all together more than there is",
            f"x = {value}\nreturn [{call} for n in range(9999)]",
            MEMORY,
        )
        for name, value, call in (
            ("wide letters", "'\\U0001f600' * 99000", "x + str(n)"),
            ("wide letters, repeated", "'\\U0001f600'", "x * (99000 + n)"),
            ("wide letters, sliced", "'\\U0001f600' * 99000", "x[n:]"),
            ("wide letters, joined", "'\\U0001f600' * 99000", "''.join([x, 'a'])"),
            ("wide letters, in an f-string", "'\\U0001f600' * 99000", "f'{x}{n}'"),
            ("words", "'\\U0001f600a ' * 33000", "x.split()"),
            ("words from the right", "'\\U0001f600a,' * 33000", "x.rsplit(',')"),
            ("lines of wide letters", "'\\U0001f600a\\n' * 33000", "x.splitlines()"),
            ("pairs of a list", "list(range(199999))", "enumerate(x)"),
        )
    ),
    *(
        inside(
            f"memory: {name}",
            "each value allowed, all together more than there is, and more work than is allowed",
            f"x = {value}\nreturn [{call} for n in range(9999)]",
            STEPS,
        )
        for name, value, call in (
            ("wide letters, in upper case", "'\\U0001f600' * 99000", "x.upper()"),
            ("pairs of a dict", "{n: n for n in range(9999)}", "x.items()"),
        )
    ),
    *(
        inside(
            f"memory: {name} with long keys",
            "what a builtin keeps while it works",
            f"return [{name}(range(199999), key=lambda n: '\\U0001f600' * 999)]",
            MEMORY,
        )
        for name in ("sorted", "max", "min")
    ),
]
