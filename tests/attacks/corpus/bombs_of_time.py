"""Scripts that would never end, or keep a processor busy: in Python, in C, and between the two."""

from __future__ import annotations

from .kinds import ERROR, OK, RECURSION, REJECTED, STEPS, harmless, inside, whole

ATTACKS = [
    inside("while True", "never end", "while True:\n    pass", STEPS),
    inside("while with continue", "never end", "while 1:\n    continue", STEPS),
    inside(
        "while with an empty else",
        "never end",
        "while not None:\n    x = 0\nelse:\n    pass",
        STEPS,
    ),
    inside(
        "while with a condition that works", "never end", "while [0 for x in [1]]:\n    pass", STEPS
    ),
    inside(
        "while on two levels", "never end", "while True:\n    while True:\n        break", STEPS
    ),
    inside("a counter without end", "never end", "n = 0\nwhile n >= 0:\n    n += 1", STEPS),
    inside(
        "loops within loops",
        "an end that is a thousand years away",
        "for a in range(200000):\n    for b in range(200000):\n        pass\nreturn [0]",
        STEPS,
    ),
    inside(
        "any of many",
        "a loop inside of a builtin",
        "return [any(False for a in range(99999) for b in range(99999))]",
        STEPS,
    ),
    inside(
        "sum of many",
        "a loop inside of a builtin",
        "return [sum(b for a in range(99999) for b in range(99999))]",
        STEPS,
    ),
    inside(
        "max with a slow key",
        "a loop inside of a builtin",
        "return [max(range(100000), key=lambda n: sum(range(100000)))]",
        STEPS,
    ),
    inside(
        "min with a key that never ends",
        "a function that a builtin calls",
        "def slow(n):\n    while True:\n        pass\nreturn [min([2, 1], key=slow)]",
        STEPS,
    ),
    inside(
        "sorted with a key that sorts",
        "a function that a builtin calls",
        "return sorted(range(99999), key=lambda n: sorted(range(99999)))",
        STEPS,
    ),
    inside(
        "map of map",
        "lazy values that call one another",
        "return list(map(lambda n: list(map(lambda m: m, range(99999))), range(99999)))",
        STEPS,
    ),
    inside(
        "filter that drops all",
        "a loop that yields nothing",
        "return list(filter(lambda n: list(filter(None, range(99999))) and False, range(99999)))",
        STEPS,
    ),
    inside(
        "fib",
        "a tree of calls",
        "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nreturn [fib(60)]",
        STEPS,
    ),
    inside(
        "ackermann",
        "deep and many calls",
        "def a(m, n):\n    return n + 1 if not m else "
        "a(m - 1, 1 if not n else a(m, n - 1))\nreturn [a(4, 4)]",
        RECURSION,
    ),
    inside("recursion", "overflow the stack", "def f():\n    return f()\nreturn f()", RECURSION),
    inside(
        "recursion with an argument",
        "overflow the stack",
        "def f(n):\n    return 1 + f(n + 1)\nreturn [f(0)]",
        RECURSION,
    ),
    inside(
        "mutual recursion",
        "overflow the stack",
        "def f():\n    return g()\ndef g():\n    return f()\nreturn f()",
        RECURSION,
    ),
    inside("recursion of choose", "overflow the stack", "return choose(view, request)", RECURSION),
    inside(
        "recursion of a lambda", "overflow the stack", "f = lambda g: g(g)\nreturn f(f)", RECURSION
    ),
    inside(
        "recursion through sorted",
        "a stack of C and Python in turns",
        "def f(n):\n    return sorted([1, 2], key=f)\nreturn f(0)",
        RECURSION,
    ),
    inside(
        "recursion through map",
        "a stack of C and Python in turns",
        "def f(n):\n    return list(map(f, [n]))\nreturn f(0)",
        RECURSION,
    ),
    inside(
        "recursion through max",
        "a stack of C and Python in turns",
        "def f(n):\n    return max([1, 2], key=f)\nreturn [f(0)]",
        RECURSION,
    ),
    inside(
        "recursion through a genexp",
        "a stack of C and Python in turns",
        "def f(n):\n    return sum(f(m) for m in [n])\nreturn [f(0)]",
        RECURSION,
    ),
    inside(
        "recursion through a comprehension",
        "a stack of frames",
        "def f(n):\n    return [f(m) for m in [n]]\nreturn f(0)",
        RECURSION,
    ),
    inside(
        "recursion through an f-string",
        "a stack of frames",
        "def f(n):\n    return f'{f(n)}'\nreturn f(0)",
        RECURSION,
    ),
    inside(
        "recursion through by",
        "a stack of frames",
        "def f(n):\n    return sorted([{'id': 1}], key=lambda d: f(by('id')(d)))\nreturn f(0)",
        RECURSION,
    ),
    whole(
        "recursion on the top level",
        "overflow the stack before choose is called",
        "def f():\n    return f()\nf()\ndef choose(view, request):\n    return [0]\n",
        REJECTED,
    ),
    whole(
        "an endless loop on the top level",
        "never come to choose",
        "while True:\n    pass\ndef choose(view, request):\n    return [0]\n",
        REJECTED,
    ),
    whole(
        "an endless loop in a default",
        "never come to choose",
        "def choose(view, request, n=[0 for a in range(99999) for b in range(99999)]):\n"
        "    return [0]\n",
        REJECTED,
    ),
    inside(
        "in, over a long list",
        "a loop in C that is charged as one step",
        "big = list(range(200000))\nfor n in range(200000):\n    -1 in big\nreturn [0]",
        STEPS,
    ),
    inside(
        "not in, over a long list",
        "a loop in C that is charged as one step",
        "big = list(range(200000))\nreturn [0 for n in range(200000) if n not in big]",
        STEPS,
    ),
    inside(
        "in, over a long text",
        "a loop in C that is charged as one step",
        "big = 'a' * 50000 + 'b'\nneedle = 'a' * 25000 + 'c'\n"
        "return [0 for n in range(200000) if needle in big]",
        STEPS,
    ),
    inside(
        "comparing long lists",
        "a loop in C that is charged as one step",
        "a = list(range(200000))\nb = list(range(200000))\n"
        "return [0 for n in range(200000) if a != b]",
        STEPS,
    ),
    inside(
        "comparing long texts",
        "a loop in C that is charged as one step",
        "a = 'a' * 99999\nb = 'a' * 99998 + 'a'\nreturn [0 for n in range(200000) if a != b or n < 0]",
        STEPS,
    ),
    inside(
        "comparing dicts",
        "a loop in C that is charged as one step",
        "a = {n: n for n in range(50000)}\nb = {n: n for n in range(50000)}\n"
        "return [0 for n in range(200000) if a != b]",
        STEPS,
    ),
    inside(
        "summing a long list",
        "a loop in C that is charged as one step",
        "big = list(range(200000))\nreturn [0 for n in range(200000) if sum(big) < 0]",
        STEPS,
    ),
    inside(
        "the largest of a long list",
        "a loop in C that is charged as one step",
        "big = list(range(200000))\nreturn [0 for n in range(200000) if max(big) < 0]",
        STEPS,
    ),
    inside(
        "sorting a long list",
        "a loop in C that is charged as one step",
        "big = list(range(200000))\nreturn [0 for n in range(200000) if not sorted(big)]",
        STEPS,
    ),
    inside(
        "counting in a long list",
        "a method in C that is charged as one step",
        "big = list(range(200000))\nreturn [0 for n in range(200000) if big.count(-1)]",
        STEPS,
    ),
    inside(
        "looking for an index in a long list",
        "a method in C that is charged as one step",
        "big = [0] * 99999 + [1]\nreturn [0 for n in range(200000) if not big.index(1)]",
        STEPS,
    ),
    inside(
        "removing from the front of a long list",
        "a method in C that is charged as one step",
        "big = [0] * 100000 + [1]\nfor n in range(200000):\n    big.insert(0, big.pop())\nreturn [0]",
        STEPS,
    ),
    inside(
        "splitting a long text",
        "a method in C that is charged as one step",
        "big = 'a ' * 50000\nreturn [0 for n in range(200000) if not big.split()]",
        STEPS,
    ),
    inside(
        "upper case of a long text",
        "a method in C that is charged as one step",
        "big = 'a' * 99999\nreturn [0 for n in range(200000) if not big.upper()]",
        STEPS,
    ),
    inside(
        "replacing in a long text",
        "a method in C that is charged as one step",
        "big = 'ab' * 49999\nreturn [0 for n in range(200000) if not big.replace('a', 'c')]",
        STEPS,
    ),
    inside(
        "slicing a long list",
        "a copy in C that is charged as one step",
        "big = list(range(200000))\nreturn [0 for n in range(200000) if not big[1:]]",
        STEPS,
    ),
    inside(
        "copying a dict",
        "a copy in C that is charged as one step",
        "big = {n: n for n in range(50000)}\nreturn [0 for n in range(200000) if not dict(big)]",
        STEPS,
    ),
    inside(
        "text of a long list",
        "a loop in C that is charged as one step",
        "big = list(range(9999))\nreturn [0 for n in range(200000) if not str(big)]",
        ERROR,
    ),
    inside(
        "the longest text into a number",
        "digits into a number takes the square of their count",
        "big = '9' * 4000\nreturn [0 for n in range(200000) if not int(big)]",
        ERROR,
    ),
    inside(
        "keys of one hash",
        "every look into the dict compares with all keys",
        "m = 2 ** 61 - 1\nd = {}\nfor n in range(100000):\n    d[n * m] = n\n"
        "for n in range(100000):\n    d.get(n * m)\nreturn [0]",
        ERROR,
    ),
    inside(
        "tuples of one hash",
        "pairs that are made to have one hash, by the arithmetic of tuples' own",
        """
        wide = 2 ** 64
        def turned(x):
            return (x * 2 ** 31 | x // 2 ** 33) % wide * 11400714785074694791 % wide
        d = {}
        for a in range(20000):
            first = turned((2870177450012600261 + a * 14029467366897019727) % wide)
            b = (0 - first) * 839798700976720815 % wide
            if b < 2 ** 61 - 1:
                d[(a, b)] = 0
        while True:
            for pair in d:
                d.get(pair)
        """,
        ERROR,
    ),
    inside(
        "a separator by its name",
        "a search for a long text, charged as if it were for nothing",
        "many, sought = 'a' * 90000, 'a' * 45000 + 'b'\nwhile True:\n    many.split(sep=sought)",
        STEPS,
    ),
    inside(
        "dicts of long keys",
        "keys that are tuples are hashed and compared anew each time, charged as one item",
        """
        one = {tuple(range(100000)): 1}
        other = [{tuple(range(100000)): 1}]
        while True:
            one == other[0] or one in other or other.count(one)
        """,
        STEPS,
    ),
    inside(
        "merging what overlaps",
        "a helper that takes the square of the count",
        "spans = [[n, n + 100000] for n in range(5000)]\nreturn [0 for n in range(9999) if not merge(spans)]",
        STEPS,
    ),
    inside(
        "gaps of much",
        "a helper charged as one step",
        "spans = [[2 * n, 2 * n + 1] for n in range(5000)]\n"
        "return [0 for n in range(9999) if not gaps(spans, 0, 99999)]",
        STEPS,
    ),
    inside(
        "the day of the week, for ever",
        "a helper charged as one step",
        "while True:\n    weekday(0, 'UTC')",
        STEPS,
    ),
    inside(
        "the date, for ever",
        "a helper charged as one step",
        "while True:\n    local_date(0, 'UTC')",
        STEPS,
    ),
    inside(
        "waiting for a message", "block on the client", "while receive() is None:\n    pass", STEPS
    ),
    harmless(
        "a list that grows while it is read",
        "an end that moves away",
        "seen = [0]\nfor x in seen:\n    seen.append(x)\nreturn [len(seen) - 2]",
    ),
    harmless(
        "a list that grows in its comprehension",
        "an end that moves away",
        "seen = [0]\nmore = [seen.append(x) for x in seen]\nreturn [len(more) - 1]",
    ),
    harmless(
        "a list that grows in its genexp",
        "an end that moves away",
        "seen = [0]\nreturn [len([seen.append(x) for x in (y for y in seen)]) - 1]",
    ),
    harmless(
        "a list that grows under map",
        "an end that moves away from a builtin",
        "seen = [0]\nreturn [len(list(map(lambda x: seen.append(x), seen))) - 1]",
    ),
    harmless(
        "a list that grows under enumerate",
        "an end that moves away from a builtin",
        "seen = [0]\nfor number, x in enumerate(seen):\n    seen.append(x)\nreturn [len(seen) - 2]",
    ),
    harmless(
        "a list that grows under zip",
        "an end that moves away from a builtin",
        "seen = [0]\nfor a, b in zip(seen, seen):\n    seen.append(a)\nreturn [len(seen) - 2]",
    ),
    harmless(
        "a list that grows under any",
        "an end that moves away from a builtin",
        "seen = [0]\nreturn [0 if not any(seen.append(x) for x in seen) else 1]",
    ),
    harmless(
        "a list that grows while it is extended",
        "an end that moves away from a method",
        "seen = [0]\nseen.extend(map(lambda x: seen.append(x) or x, seen))\nreturn [0]",
    ),
    inside(
        "a dict that grows while it is read",
        "an end that moves away",
        "seen = {0: 0}\nfor x in seen:\n    seen[x + 1] = 0\nreturn [0]",
        OK,
    )._replace(answer=[0]),
]
