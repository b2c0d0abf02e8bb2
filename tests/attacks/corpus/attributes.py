"""Ways out by attributes: from any object to its class, to all classes, to a frame, to the builtins."""

from __future__ import annotations

from .kinds import ERROR, expressions, inside, whole

_TO_CLASSES = (
    "().__class__",
    "().__class__.__base__.__subclasses__()",
    "''.__class__.__mro__[1]",
    "[].__class__.__bases__[0]",
    "view.__class__.__mro__",
    "int.mro()",
    "(0).__class__.__init__",
    "{}.__class__.__dict__",
    "''.__doc__",
    "''.__dir__()",
    "[].__reduce_ex__(2)",
    "[].__sizeof__()",
    "(0).__getattribute__('real')",
    "''.__init_subclass__()",
    "choose.__class__",
    "choose.__type_params__",
)

_TO_GLOBALS = (
    "choose.__globals__",
    "choose.__builtins__",
    "choose.__code__",
    "choose.__closure__",
    "choose.__defaults__",
    "choose.__kwdefaults__",
    "choose.__module__",
    "choose.__dict__",
    "choose.__annotations__",
    "choose.func_code",
    "choose.func_globals",
    "overlaps.__globals__['__builtins__']",
    "by('id').__closure__[0].cell_contents",
    "sorted.__wrapped__",
    "len.__self__",
    "''.join.__self__",
    "[].append.im_self",
    "receive.__globals__",
    "(lambda: 0).__code__.co_consts",
    "choose.co_code",
    "choose.co_consts",
    "choose.co_names",
)

_TO_FRAMES = (
    "(x for x in []).gi_frame",
    "(x for x in []).gi_frame.f_back.f_builtins",
    "(x for x in []).gi_code",
    "(x for x in []).gi_yieldfrom",
    "(x for x in []).ag_frame",
    "(x for x in []).ag_await",
    "(x for x in []).cr_frame",
    "(x for x in []).cr_origin",
    "(x for x in []).tb_frame",
    "view.tb_next",
    "view.f_back",
    "view.f_globals",
    "view.f_locals",
    "view.f_builtins",
    "view.f_generator",
)

_TO_METHODS = (
    "int.from_bytes([65])",
    "str.maketrans('a', 'b')",
    "'a'.translate({97: 'b' * 1000})",
    "''.encode('utf-16')",
    "'a'.ljust(10 ** 9)",
    "'a'.zfill(10 ** 9)",
    "'a'.center(10 ** 9)",
    "'\\t'.expandtabs(10 ** 9)",
    "dict.fromkeys(range(9))",
    "(0).to_bytes(10 ** 9, 'big')",
    "(0).bit_length()",
    "(0.5).hex()",
    "(0.5).fromhex('0x1p3')",
    "(x for x in []).send(None)",
    "(x for x in []).throw(Exception)",
    "(x for x in []).close()",
    "Exception('a').args",
    "Exception('a').with_traceback(None)",
    "Exception('a').add_note('b')",
)

ATTACKS = [
    *expressions("from an object to the class of classes", _TO_CLASSES),
    *expressions("from a function to the names around it", _TO_GLOBALS),
    *expressions("from a generator or an error to a frame", _TO_FRAMES),
    *expressions("a method outside the list, that leaks, grows or is another door", _TO_METHODS),
    *expressions(
        "a method of the list, on something that must have no attributes",
        (
            "choose.get('id')",
            "len.keys()",
            "(0).count(0)",
            "by('id').index(0)",
            "range(9).index(3)",
        ),
        ERROR,
    ),
    *expressions(
        "a method that is handed around carries its object along",
        ("''.join", "[].append", "str(''.join)", "map(''.join, [])", "sorted([], key=[].index)"),
    ),
    inside(
        "an attribute is set",
        "write into a dict's namespace",
        "view.secret = 1\nreturn [0]",
    ),
    inside(
        "an attribute of a function is set",
        "keep state on a function",
        "choose.count = 1\nreturn [0]",
    ),
    inside("an attribute is deleted", "break a built-in type", "del view.get\nreturn [0]"),
    inside(
        "an attribute is a loop's target",
        "assign where no assignment is seen",
        "for view.x in [1]:\n    pass\nreturn [0]",
    ),
    inside(
        "an attribute is a comprehension's target",
        "assign where no assignment is seen",
        "return [0 for view.x in [1]]",
    ),
    inside(
        "an attribute is added to",
        "an augmented assignment skips the guard",
        "view.x += 1\nreturn [0]",
    ),
    whole(
        "an attribute in a default",
        "defaults are evaluated outside of any function",
        """
        def choose(view, request, door=().__class__):
            return [0]
        """,
    ),
    whole(
        "an attribute on the top level",
        "the body of the script, before any function",
        """
        door = (0).__class__.__base__
        def choose(view, request):
            return [0]
        """,
    ),
]
