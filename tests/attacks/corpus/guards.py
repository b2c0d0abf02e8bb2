"""Scopes and names: putting a script's own thing in the place of a guard or of the step counter."""

from __future__ import annotations

from .kinds import ERROR, RECURSION, STEPS, harmless, inside, whole

_GUARDS = ("_tick_", "_getattr_", "_getiter_", "_getitem_", "_write_", "_inplacevar_", "_apply_")

ATTACKS = [
    *(
        inside(
            f"{guard} is assigned",
            "a local name hides the guard",
            f"{guard} = lambda *args: args\nreturn [0]",
        )
        for guard in _GUARDS
    ),
    *(inside(f"{guard} is read", "hand the guard around", f"return {guard}") for guard in _GUARDS),
    whole(
        "a guard as positional-only argument",
        "RestrictedPython once forgot to look at these (CVE-2026-55830)",
        """
        def inner(_getattr_, /):
            return view.slots
        def choose(view, request):
            return inner(lambda thing, name: thing)
        """,
    ),
    whole(
        "a guard as keyword-only argument",
        "an argument hides the guard",
        """
        def inner(*, _getiter_):
            return [x for x in [0]]
        def choose(view, request):
            return inner(_getiter_=lambda thing: thing)
        """,
    ),
    whole(
        "a guard as **names",
        "all names at once",
        """
        def inner(**_getattr_):
            return [0]
        def choose(view, request):
            return inner()
        """,
    ),
    whole(
        "a guard as *names",
        "an argument hides the guard",
        """
        def inner(*_tick_):
            return [0]
        def choose(view, request):
            return inner()
        """,
    ),
    whole(
        "a function named as a guard",
        "a definition on the top level replaces the step counter",
        """
        def _tick_():
            return None
        def choose(view, request):
            while True:
                pass
        """,
    ),
    inside(
        "a lambda's argument named as a guard",
        "an argument hides the guard",
        "return (lambda _tick_: [0])(0)",
    ),
    inside(
        "a lambda's positional-only argument named as a guard",
        "an argument hides the guard",
        "return (lambda _getitem_, /: [0])(0)",
    ),
    inside(
        "a lambda's default reads a guard",
        "a default is evaluated in the scope around",
        "return (lambda x=_getattr_: x)()",
    ),
    inside(
        "a guard as loop variable",
        "a loop binds the name",
        "for _tick_ in [0]:\n    pass\nreturn [0]",
    ),
    inside(
        "a guard in a comprehension",
        "a comprehension binds the name",
        "return [_getiter_ for _getiter_ in [0]]",
    ),
    inside(
        "a guard by walrus",
        "an assignment inside of an expression",
        "return [(_tick_ := 0)]",
    ),
    inside(
        "a guard by walrus out of a comprehension",
        "the name is bound in the function around",
        "return [(_getattr_ := x) for x in [0]]",
    ),
    inside(
        "a guard by unpacking",
        "a name within a tuple",
        "(a, _write_) = (1, 2)\nreturn [0]",
    ),
    inside(
        "a guard by starred unpacking",
        "a name behind a star",
        "a, *_tick_ = [1, 2]\nreturn [0]",
    ),
    inside("a guard by keyword", "a call's keyword with an underscore", "return dict(_tick_=0)"),
    inside(
        "a guard by import",
        "an import binds the name",
        "import math as _getattr_\nreturn [0]",
    ),
    inside(
        "a guard by with",
        "a context binds the name",
        "with view as _getattr_:\n    return [0]",
    ),
    inside(
        "a guard by except",
        "an error binds the name",
        "try:\n    pass\nexcept Exception as _tick_:\n    pass\nreturn [0]",
    ),
    inside(
        "a guard by match",
        "a pattern binds the name",
        "match view:\n    case _tick_:\n        return [0]",
    ),
    inside(
        "a guard by match of a mapping's rest",
        "a pattern binds the name behind **",
        "match view:\n    case {**_tick_}:\n        return [0]",
    ),
    inside(
        "a guard by match of a star",
        "a pattern binds the name behind *",
        "match [1]:\n    case [*_tick_]:\n        return [0]",
    ),
    inside("a name ending in __roles__", "RestrictedPython keeps it to itself", "x__roles__ = 1"),
    inside("the name printed", "RestrictedPython's own name for print", "return printed"),
    inside(
        "the name print", "RestrictedPython collects prints by itself", "print(view)\nreturn [0]"
    ),
    harmless("the name _", "a lone underscore means something to some", "_ = 0\nreturn [_]"),
    inside(
        "the debug name",
        "__debug__ is a constant of the compiler",
        "return [__debug__]",
    ),
    harmless(
        "a builtin is hidden by a local name",
        "put one's own len in the place of len",
        "len = lambda thing: 0\nreturn [len(view)]",
    ),
    whole(
        "the step counter in a comprehension's scope",
        "a comprehension that counts no steps",
        """
        def choose(view, request):
            return [0 for a in range(9999) for b in range(9999) for c in range(9999)]
        """,
        STEPS,
    ),
    whole(
        "the step counter in a condition",
        "a condition that counts no steps",
        """
        def choose(view, request):
            return [a for a in range(99999) if all(b >= 0 for b in range(99999))]
        """,
        STEPS,
    ),
    whole(
        "a closure over a loop that ends the stack",
        "each function calls the one made before it",
        """
        def choose(view, request):
            call = lambda: 0
            for number in range(5000):
                call = (lambda before: lambda: before())(call)
            return [call()]
        """,
        RECURSION,
    ),
    inside(
        "a name that is read before it is bound",
        "an error of the interpreter's own making",
        "def inner():\n    x = y\n    y = 1\n    return x\nreturn inner()",
        ERROR,
    ),
]
