"""Statements that catch, wait, match, import or unpack: none of them is in the language."""

from __future__ import annotations

from .kinds import expressions, inside, whole

_CATCHING = {
    "try with a bare except": "try:\n    while True: pass\nexcept:\n    return [0]",
    "try except BaseException": "try:\n    return view.x\nexcept BaseException:\n    return [0]",
    "try except that reads e.obj": "try:\n    view.x\nexcept Exception as e:\n    return e.obj",
    "try except that reads e.__traceback__": (
        "try:\n    1 / 0\nexcept Exception as e:\n    return e.__traceback__.tb_frame"
    ),
    "try except that reads e.__context__": (
        "try:\n    1 / 0\nexcept Exception as e:\n    return e.__context__"
    ),
    "try finally that goes on": "try:\n    return [0]\nfinally:\n    while True: pass",
    "try finally with return": "while True:\n    try:\n        1 / 0\n    finally:\n        return [0]",
    "try except* of a made-up group": "try:\n    pass\nexcept* Exception as e:\n    return e.exceptions",
    "try except* with an expression": "try:\n    1 / 0\nexcept* [Exception][0]:\n    return [0]",
    "with": "with view:\n    return [0]",
    "with several": "with view as a, request as b:\n    return [0]",
    "raise from": "raise Exception('a') from Exception('b')",
    "raise again": "raise",
}

_WAITING = {
    "async function inside": "async def inner():\n    return 0\nreturn [0]",
    "await": "await view",
    "async for": "async for x in view:\n    pass",
    "async with": "async with view:\n    pass",
    "async comprehension": "return [x async for x in view]",
    "async genexp": "return (x async for x in view)",
    "async genexp in a genexp": "return list(y for y in (x async for x in view))",
    "await in a comprehension": "return [await x for x in view['slots']]",
    "yield": "yield 0",
    "yield from": "yield from view['slots']",
    "yield in a lambda": "return (lambda: (yield))()",
    "yield as an expression": "x = yield 0\nreturn [x]",
}

_MATCHING = {
    "match by class": "match view:\n    case dict(get=x):\n        return x",
    "match by keyword attribute": "match view:\n    case object(__class__=c):\n        return c",
    "match by value with dots": "match 1:\n    case view.x:\n        return [0]",
    "match by sequence": "match [1, 2]:\n    case [a, *b]:\n        return [0]",
    "match by mapping": "match view:\n    case {'site': s}:\n        return [0]",
    "match with a guard": "match view:\n    case x if x.__class__:\n        return [0]",
    "match by alternatives": "match 1:\n    case 1 | 2:\n        return [0]",
}

_IMPORTING = {
    "import": "import os\nreturn os.environ",
    "import dotted": "import os.path\nreturn [0]",
    "import as": "import sys as clean\nreturn clean.modules",
    "from import": "from os import system\nreturn [system('id')]",
    "from import star": "from os import *\nreturn [0]",
    "from import a guard's name": "from _ctypes import _dlopen\nreturn [0]",
    "relative import": "from . import language\nreturn [0]",
    "relative import, higher": "from ...core import wire\nreturn [0]",
    "import of the guards": "import RestrictedPython\nreturn [0]",
    "import in an expression": "return __import__('os').environ",
    "import by importlib": "return importlib.import_module('os')",
    "import by the loader": "return __loader__.load_module('os')",
    "import by the spec": "return __spec__.loader",
    "the future": "from __future__ import annotations\nreturn [0]",
}

_UNPACKING = {
    "star in a call": "return max(*[1, 2])",
    "double star in a call": "return dict(**view)",
    "star in a list": "return [*view['slots']]",
    "star in a tuple": "return (*view['slots'],)",
    "star in a set": "return {*view['slots']}",
    "double star in a dict": "return {**view}",
    "starred target": "a, *b = view['slots']\nreturn [0]",
    "starred target in a loop": "for a, *b in [view['slots']]:\n    pass\nreturn [0]",
    "star in an index": "return view[*[1]]",
    "star in a return": "return 0, *view['slots']",
}

ATTACKS = [
    *(inside(name, "catch what ends the run", body) for name, body in _CATCHING.items()),
    *(inside(name, "let others run in between", body) for name, body in _WAITING.items()),
    *(inside(name, "patterns read attributes", body) for name, body in _MATCHING.items()),
    *(inside(name, "reach a module", body) for name, body in _IMPORTING.items()),
    *(inside(name, "iterate without a guard", body) for name, body in _UNPACKING.items()),
    *expressions(
        "a literal that is not plain data",
        ("{1, 2}", "{x for x in [1]}", "b'bytes'", "1j", "...", "1 @ 2", "view[...]"),
    ),
    whole(
        "an import on the top level",
        "before any function is called",
        """
        import os
        def choose(view, request):
            return [0]
        """,
    ),
    whole(
        "an import behind a semicolon",
        "a second statement on the line",
        """
        def choose(view, request):
            x = 1; import os
            return [0]
        """,
    ),
    whole(
        "a lazy import",
        "an import that is carried out when its name is read (3.15)",
        """
        lazy import os
        def choose(view, request):
            return [0]
        """,
    ),
    whole(
        "choose is async",
        "the answer is a coroutine",
        """
        async def choose(view, request):
            return [0]
        """,
    ),
    whole(
        "choose is a generator",
        "the answer never ends",
        """
        def choose(view, request):
            while True:
                yield 0
        """,
    ),
    whole(
        "an exit by raising",
        "leave the process",
        """
        def choose(view, request):
            raise SystemExit
        """,
    ),
    whole(
        "an interrupt by raising",
        "end the server as the operator would",
        """
        def choose(view, request):
            raise KeyboardInterrupt
        """,
    ),
    whole(
        "a GeneratorExit by raising",
        "an error that is no Exception",
        """
        def choose(view, request):
            raise GeneratorExit
        """,
    ),
    whole(
        "a MemoryError by raising",
        "pretend that a limit was reached",
        """
        def choose(view, request):
            raise MemoryError
        """,
    ),
]
