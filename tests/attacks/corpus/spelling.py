# ruff: noqa: RUF001  letters that look like others are what this is about
"""Unicode, control characters, line ends and cookies: what one reader sees and another does not."""

from __future__ import annotations

from .kinds import ERROR, OK, choosing, expressions, harmless, inside, whole

_CHOOSE = "def choose(view, request):\n    return [0]\n"

ATTACKS = [
    *expressions(
        "identifiers that Python folds into plain ones (NFKC)",
        (
            "().__ｃlass__",
            "()._＿class__",
            "().__𝒸𝓁𝒶𝓈𝓈__",
            "(x for x in []).gi_ｆrame",
            "choose.__ｇlobals__",
            "ｅval('1')",
            "𝓮𝔁𝓮𝓬('x')",
            "ｏpen('/etc/passwd')",
            "＿tick_",
            "_ｇetattr_",
            "'{0.__class__}'.ｆormat(view)",
            "ﬁlter.__class__",
        ),
    ),
    *expressions(
        "letters that look like others, and are not",
        ("lеn(view)", "ореn('/etc/passwd')", "vіew"),
    ),
    whole(
        "an argument that Python folds into a guard",
        "a name that hides a guard once it is read",
        "def choose(view, request, ＿tick_=0):\n    return [0]\n",
    ),
    whole(
        "a function that Python folds into choose",
        "two functions of one name after folding: the later counts, for everyone",
        "def choose(view, request):\n    return [1]\ndef ｃhoose(view, request):\n    return [0]\n",
        OK,
    )._replace(answer=[0]),
    whole(
        "a lone surrogate in the source",
        "text that has no bytes",
        "# \ud800\n" + _CHOOSE,
    ),
    whole(
        "a lone surrogate in a name",
        "text that has no bytes",
        "x\udfff = 1\n" + _CHOOSE,
    ),
    whole("a null byte at the end", "C ends texts there", _CHOOSE + "\0import os\n"),
    whole("a null byte in a comment", "C ends texts there", "# \0\nimport os\n" + _CHOOSE),
    whole("a null byte in a text", "C ends texts there", choosing("return '\0'")),
    whole("a byte order mark inside", "an invisible character", "x\ufeff = 1\n" + _CHOOSE),
    whole("a zero width space", "an invisible character", "x\u200b = 1\n" + _CHOOSE),
    whole("a no-break space for a space", "an invisible character", "x\u00a0= 1\n" + _CHOOSE),
    whole(
        "a line separator for a line's end", "some readers end lines there", "x = 1\u2028" + _CHOOSE
    ),
    whole(
        "a carriage return ends a comment",
        "some readers see one line of comment",
        "# nothing to see\rimport os\r" + _CHOOSE,
    ),
    whole(
        "a carriage return ends a comment inside",
        "some readers see one line of comment",
        "def choose(view, request):\n    # nothing\r    import os\n    return [0]\n",
    ),
    whole("a form feed before an import", "white space to Python", "\x0cimport os\n" + _CHOOSE),
    whole("a backslash at the end", "a line that goes on into nothing", _CHOOSE + "\\"),
    whole(
        "a control character in the source",
        "a terminal escape outside of text",
        "\x1b[2J\n" + _CHOOSE,
    ),
    whole("an end-of-file character", "some readers stop there", _CHOOSE + "\x1aimport os\n"),
    whole(
        "tabs and spaces mixed",
        "two readings of the same depth",
        "def choose(view, request):\n        if view:\n\treturn [1]\n        return [0]\n",
    ),
    whole(
        "a coding cookie with an import behind it",
        "a codec that turns a comment into code",
        "# -*- coding: utf-7 -*-\n# +AAo-import os\nimport os\n" + _CHOOSE,
    ),
    whole(
        "an unknown escape in a text's name",
        "a name of a character that is none",
        choosing("return '\\N{NO SUCH CHARACTER AT ALL}'"),
    ),
    whole("a bad escape in a text", "an escape cut short", choosing("return '\\x1'")),
    harmless(
        "escapes that spell a name in a text",
        "a text is no name, however it is written",
        "names = {'\\x5f\\x5fclass\\x5f\\x5f': 1, '\\N{FULLWIDTH LOW LINE}': 2}\nreturn [len(names) - 2]",
    ),
    harmless(
        "a paragraph separator in a comment",
        "some readers end lines there",
        "x = 0  # \u2029import os\nreturn [x]",
    ),
    harmless(
        "bidirectional marks in a comment",
        "code that is shown in another order than it runs",
        "x = 0  # \u202e ]1[ nruter \u2066\nreturn [x]",
    ),
    inside(
        "a character that is a digit elsewhere",
        "int() reads digits of every script, a clock does not",
        "return [clock('٠٩:٣٠')]",
        ERROR,
    ),
    inside(
        "a superscript digit",
        "isdigit is true of what int refuses",
        "return [int('²')]",
        ERROR,
    ),
]
