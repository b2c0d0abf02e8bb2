"""Scripts of the wrong shape: nothing, too much, binary, without an entry, with odd entries."""

from __future__ import annotations

from .kinds import ERROR, OK, STEPS, choosing, harmless, whole

_HONEST = choosing("return [0]")

ATTACKS = [
    whole("an empty source", "nothing at all", ""),
    whole("blanks", "nothing to run", " \n\t\n  \n"),
    whole("only a comment", "nothing to run", "# nothing\n"),
    whole("only a text", "nothing to run", '"""Nothing."""\n'),
    whole(
        "no entry", "nothing that a site can call", "def other(view, request):\n    return [0]\n"
    ),
    whole(
        "an entry inside of a function",
        "nothing that a site can call",
        "def other():\n    def choose(view, request):\n        return [0]\n    return choose\n",
    ),
    whole(
        "an entry behind a condition",
        "defined only while it runs",
        "if 1:\n    def choose(view, request):\n        return [0]\n",
    ),
    whole("an entry that is a number", "nothing that a site can call", "choose = 5\n"),
    whole(
        "an entry that is a lambda",
        "an entry without a name",
        "choose = lambda view, request: [0]\n",
    ),
    whole("an entry that is a builtin", "call something else", "choose = len\n"),
    whole(
        "an entry replaced by a number",
        "the function is gone when it is called",
        _HONEST + "choose = 5\n",
    ),
    whole(
        "an entry replaced by unpacking",
        "the function is gone when it is called",
        _HONEST + "(choose, x) = (5, 6)\n",
    ),
    whole(
        "an entry replaced by walrus",
        "the function is gone when it is called",
        _HONEST + "x = (choose := 5)\n",
        ERROR,
    ),
    whole(
        "an entry replaced by a loop",
        "the function is gone when it is called",
        _HONEST + "x = [0 for choose in [5]]\ny = [(choose := z) for z in [5]]\n",
        ERROR,
    ),
    whole(
        "two entries of one name",
        "which of them is checked, and which is called",
        "def choose(view, request):\n    return [1]\n" + _HONEST,
        OK,
    )._replace(answer=[0]),
    whole("an entry without arguments", "a wrong call", "def choose():\n    return [0]\n"),
    whole("an entry with one argument", "a wrong call", "def choose(view):\n    return [0]\n"),
    whole(
        "an entry with three arguments",
        "a wrong call",
        "def choose(view, request, more):\n    return [0]\n",
    ),
    whole(
        "an entry with a required keyword",
        "a wrong call",
        "def choose(view, request, *, more):\n    return [0]\n",
    ),
    whole(
        "an entry with all arguments",
        "whatever it is called with",
        "def choose(*all, **more):\n    return [0]\n",
    ),
    whole(
        "an entry that takes its arguments twice",
        "one name for two arguments",
        "def choose(view, view):\n    return [0]\n",
    ),
    whole(
        "recall alone",
        "the site asks it to choose",
        "def recall(slot, asker, view):\n    return True\n",
        ERROR,
    ),
    whole("a source too large", "more bytes than allowed", _HONEST + "#" * 40_000),
    whole(
        "a source too large in bytes alone",
        "few characters of many bytes",
        _HONEST + "# " + "\U0001f600" * 9_000,
    ),
    whole("a source of a megabyte", "more bytes than allowed", "x = 1\n" * 170_000 + _HONEST),
    whole("a binary", "an executable's first bytes", "\x7fELF\x02\x01\x01\x00" + "\x90" * 99),
    whole(
        "compiled code",
        "a marshalled code object in place of source",
        "\xe3\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    ),
    whole("a shell script", "another interpreter's language", "#!/bin/sh\nexec cat /etc/passwd\n"),
    whole("JSON", "another language", '{"choose": [0]}\n'),
    whole("a syntax error", "an honest mistake", "def choose(view, request)\n    return [0]\n"),
    whole("a return outside", "what only the compiler finds", "return [0]\n" + _HONEST),
    whole(
        "a break outside", "what only the compiler finds", "def choose(view, request):\n    break\n"
    ),
    whole(
        "statements outside of functions",
        "work before any call",
        "for x in range(10):\n    x\n" + _HONEST,
    ),
    whole("a call outside of functions", "work before any call", "send('early')\n" + _HONEST),
    whole(
        "a message from the top level",
        "a message before the entry is called",
        "x = send('early')\n" + _HONEST,
        OK,
    )._replace(answer=[0]),
    whole(
        "a loop outside of functions",
        "work before any call",
        "x = [0 for a in range(9999) for b in range(9999)]\n" + _HONEST,
        STEPS,
    ),
    whole(
        "an error outside of functions", "an error before any call", "x = 1 // 0\n" + _HONEST, ERROR
    ),
    harmless("an answer of no slots", "hold nothing", "return []", ()),
    harmless(
        "all slots",
        "hold everything: the owner's limit decides",
        "return [slot['id'] for slot in view['slots']]",
        tuple(range(24)),
    ),
]
