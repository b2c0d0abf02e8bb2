"""Builtins and names of modules that a script must not have."""

from __future__ import annotations

from .kinds import expressions

ATTACKS = [
    *expressions(
        "code from text",
        ("eval('1')", "exec('x = 1')", "compile('1', '', 'eval')", "(eval)('1')", "[eval][0]('1')"),
    ),
    *expressions(
        "files and terminals",
        ("open('/etc/passwd')", "open('canary.txt').read()", "input()", "breakpoint()", "help()"),
    ),
    *expressions(
        "attributes by name",
        (
            "getattr(view, '__class__')",
            "setattr(view, 'x', 1)",
            "delattr(view, 'x')",
            "hasattr(view, 'x')",
            "vars(choose)",
            "dir(view)",
            "object()",
            "super(int, 1)",
            "property(len)",
            "classmethod(len)",
            "staticmethod(len)",
        ),
    ),
    *expressions(
        "names around",
        (
            "globals()",
            "locals()",
            "__builtins__",
            "__name__",
            "__file__",
            "__build_class__",
            "__doc__",
        ),
    ),
    *expressions(
        "what depends on addresses or on the host",
        (
            "id(view)",
            "hash('a')",
            "repr(view)",
            "ascii(view)",
            "type(view)",
            "isinstance(1, int)",
            "callable(len)",
            "issubclass(int, int)",
        ),
    ),
    *expressions(
        "types that are not plain data",
        (
            "memoryview([])",
            "bytes(10 ** 9)",
            "bytearray(10 ** 9)",
            "set([1])",
            "frozenset([1])",
            "complex(1, 1)",
            "slice(1)",
            "type('Evil', (), {})",
            "iter([])",
            "next([])",
            "chr(65)",
            "ord('a')",
            "aiter([])",
            "anext([])",
        ),
    ),
    *expressions(
        "errors that carry more than a text",
        (
            "BaseException()",
            "AttributeError()",
            "StopIteration()",
            "ExceptionGroup('', [])",
            "OSError(1, 'a')",
            "UnicodeDecodeError('a', 'b', 0, 1, 'c')",
            "Warning()",
        ),
    ),
    *expressions(
        "what a site uses itself",
        (
            "quit()",
            "exit()",
            "credits",
            "copyright",
            "os.environ",
            "sys.modules",
            "self",
            "finish({})",
            "job",
            "perform({}, len)",
            "NotImplemented",
            "pow(2, 10 ** 9)",
            "bin(1)",
            "oct(1)",
            "hex(1)",
        ),
    ),
]
