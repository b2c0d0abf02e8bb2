"""Errors whose texts are the attack: huge, with terminal escapes, with other objects inside."""

from __future__ import annotations

from .kinds import ERROR, expressions, inside

_TEXTS = {
    "a terminal escape": "'\\x1b[2J\\x1b]0;owned\\x07'",
    "a line end and a forged log line": "'a\\r\\n2026-01-01 level=info granted=true'",
    "a null byte": "'a\\0b'",
    "a lone surrogate": "'\\ud800'",
    "bidirectional marks": "'\\u202e\\u2066abc'",
    "an invisible character": "'a\\u200b\\ufeff\\u00ad'",
    "a backspace": "'secret\\b\\b\\b\\b\\b\\bpublic'",
    "a C1 control character": "'\\x9b31m'",
    "line separators": "'a\\u2028b\\u2029c\\x85d'",
    "private and unassigned characters": "'\\ue000\\U0010ffff\\u0378'",
    "a hundred thousand characters": "'a' * 99999",
    "a hundred thousand escapes": "'\\x1b' * 99999",
    "a hundred thousand emoji": "'\\U0001f600' * 99999",
    "percent signs and braces": "'%s%n{0.__class__}' * 9",
    "markup": "'<script>alert(1)</script>'",
    "nothing": "''",
}

ATTACKS = [
    *(
        inside(
            f"raised: {name}",
            "an error's text reaches terminals and logs",
            f"raise ValueError({text})",
            ERROR,
        )
        for name, text in _TEXTS.items()
    ),
    inside(
        "raised as key",
        "KeyError writes its text in its own way",
        "raise KeyError('\\x1b[2J\\n')",
        ERROR,
    ),
    inside(
        "raised by a dict",
        "the key that is missing is a text of the script",
        "return view['\\x1b[2J\\ud800' * 999]",
        ERROR,
    ),
    inside("asserted", "the text of an assertion", "assert False, '\\x1b[2J' * 9999", ERROR),
    inside("asserted with the view", "an error that holds data", "assert False, view", ERROR),
    inside(
        "asserted with a function", "an error that holds an object", "assert False, choose", ERROR
    ),
    inside("raised without a call", "the class itself", "raise ValueError", ERROR),
    inside("raised with the view", "an error that holds data", "raise ValueError(view)", ERROR),
    inside(
        "raised with a function", "an error that holds an object", "raise ValueError(choose)", ERROR
    ),
    inside("raised with two texts", "an error in another form", "raise ValueError('a', 'b')"),
    inside(
        "raised with an error inside",
        "an error within an error",
        "raise ValueError(ValueError('a'))",
    ),
    inside("raised with a huge number", "digits without end", "raise ValueError(9 ** 150)", ERROR),
    inside(
        "raised with a genexp",
        "a loop in the error's text",
        "raise ValueError(x for x in range(9))",
        ERROR,
    ),
    inside(
        "raised in a key function",
        "an error through C code",
        "def key(x):\n    raise ValueError('\\x1b[0m')\nreturn sorted([1, 2], key=key)",
        ERROR,
    ),
    inside(
        "raised in a lazy value",
        "an error when the answer is read",
        "def f(x):\n    raise ValueError('late')\nreturn map(f, [0])",
        ERROR,
    ),
    inside(
        "raised deep inside",
        "a traceback of hundreds of frames",
        "def f(n):\n    if n:\n        return f(n - 1)\n    raise ValueError('deep')\nreturn f(300)",
        ERROR,
    ),
    *expressions(
        "something that is no error is raised, through an expression",
        ("Exception", "[ValueError]", "ValueError('a')", "(KeyError or 0)", "str(Exception('a'))"),
    ),
    *(
        inside(
            f"raised: what is no error, {value}", "an error of the interpreter", f"raise {value}"
        )
        for value in ("view", "1", "'text'", "None", "choose", "[ValueError]", "len")
    ),
]
