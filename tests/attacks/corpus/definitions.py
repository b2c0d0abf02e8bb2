"""Classes, decorators, annotations, and everything else that defines and runs code on the side."""

from __future__ import annotations

from .kinds import inside, whole

ATTACKS = [
    inside(
        "a class",
        "an object with methods of its own",
        "class Evil:\n    pass\nreturn [0]",
    ),
    inside(
        "a class with a metaclass",
        "a metaclass runs while the class is made",
        "class Evil(metaclass=len):\n    pass\nreturn [0]",
    ),
    inside(
        "a class of text",
        "a str that lies about its length",
        "class Evil(str):\n    def __len__(self):\n        return 0\nreturn [0]",
    ),
    inside(
        "a class of ints",
        "an id that is equal to every id",
        "class Evil(int):\n    def __eq__(self, other):\n        return True\nreturn [Evil()]",
    ),
    inside(
        "a class that is an exception",
        "an error with code in its text",
        "class Evil(Exception):\n    def __str__(self):\n        return view\nraise Evil()",
    ),
    inside(
        "a class with a finaliser",
        "code that runs after the run",
        "class Evil:\n    def __del__(self):\n        while True: pass\nEvil()\nreturn [0]",
    ),
    inside(
        "the class cell",
        "__class__ is a name inside of methods",
        "return __class__",
    ),
    inside("a bare super", "super() finds the class cell", "return super()"),
    whole(
        "a class for a function",
        "choose is something else that can be called",
        """
        class choose:
            def __new__(cls, view, request):
                return [0]
        """,
    ),
    whole(
        "a decorator",
        "a decorator calls what it is given",
        """
        @len
        def choose(view, request):
            return [0]
        """,
    ),
    whole(
        "a decorator that is a lambda",
        "a decorator replaces the function",
        """
        @(lambda function: function.__globals__)
        def choose(view, request):
            return [0]
        """,
    ),
    whole(
        "an annotation of an argument",
        "annotations are evaluated",
        """
        def choose(view: ().__class__, request):
            return [0]
        """,
    ),
    whole(
        "an annotation of the answer",
        "annotations are evaluated",
        """
        def choose(view, request) -> list:
            return [0]
        """,
    ),
    whole(
        "an annotated name",
        "an annotated assignment on the top level is evaluated, and kept",
        """
        secret: ().__class__ = 1
        def choose(view, request):
            return [0]
        """,
    ),
    whole(
        "an annotated attribute",
        "an annotated assignment whose target is an attribute",
        """
        def choose(view, request):
            view.x: int = 1
            return [0]
        """,
    ),
    whole(
        "a type of parameters",
        "type parameters run lazily in a scope of their own (3.12)",
        """
        def choose[T: ().__class__](view, request):
            return [0]
        """,
    ),
    whole(
        "a type alias",
        "a lazily evaluated right side (3.12)",
        """
        type Evil = ().__class__
        def choose(view, request):
            return [0]
        """,
    ),
    whole(
        "a type comment",
        "text after `# type:` is parsed by some",
        """
        def choose(view, request):
            # type: (().__class__, int) -> [
            class Evil: pass
            return [0]
        """,
    ),
    whole(
        "a class in a comment's line",
        "a carriage return ends a comment for Python, and not for everyone",
        "# a comment\rclass Evil: pass\r\ndef choose(view, request):\r\n    return [0]\r\n",
    ),
    inside("a global", "rebind a name of the module", "global choose\nchoose = 1\nreturn [0]"),
    inside(
        "a nonlocal",
        "rebind a name of the function around",
        "x = 0\ndef inner():\n    nonlocal x\n    x = 1\ninner()\nreturn [x]",
    ),
    inside("a deletion", "delete a name that guards need", "del view\nreturn [0]"),
    inside("a deletion of an item", "del skips a guard", "del view['slots'][0]\nreturn [0]"),
]
