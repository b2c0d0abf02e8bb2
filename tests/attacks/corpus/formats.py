"""Ways out by text: formats look attributes up by themselves, and grow whatever they are told to."""

from __future__ import annotations

from .kinds import ERROR, REJECTED, expressions, harmless, inside

ATTACKS = [
    *expressions(
        "str.format reads attributes that no guard sees",
        (
            "'{0.__class__}'.format(view)",
            "'{a.__globals__}'.format(a=choose)",
            "'{0[slots].__class__}'.format(view)",
            "'{a.b}'.format_map({'a': view})",
            "str.format('{0.__class__}', view)",
            "[each for each in map('{0.__class__}'.format, [view])]",
            "sorted([view], key='{0.__class__}'.format)",
            "('{0' + '.__class__}').format(view)",
            "''.formatter_field_name_split()",
            "''._formatter_parser()",
            "format(view, '')",
        ),
    ),
    *expressions(
        "an f-string with an attribute inside",
        (
            "f'{view.__class__}'",
            "f'{view.__class__!r}'",
            "f'{choose.__globals__}'",
            "f'{().__class__.__base__.__subclasses__()}'",
            "f'{1:{view.__class__}}'",
            "f'{f\"{view.__class__}\"}'",
            "f'{(lambda: view.__class__)()}'",
        ),
    ),
    *expressions(
        "a conversion calls repr or ascii, which tell addresses",
        ("f'{choose!r}'", "f'{view!a}'", "f'{len!r:>10}'"),
    ),
    *expressions(
        "text of something that is no plain data would tell an address of this process",
        (
            "str(choose)",
            "str(len)",
            "str(lambda: 0)",
            "str(x for x in [])",
            "str([choose])",
            "str({'a': (1, [choose])})",
            "str(by('id'))",
            "f'{choose}'",
            "f'{len}'",
            "f'{[choose]}'",
            "'%s' % choose",
            "'%r' % len",
            "'%a' % (choose,)",
            "'%(a)s' % {'a': choose}",
            "'%s' % [choose]",
        ),
        ERROR,
    ),
    *expressions(
        "a width or a precision of a billion",
        (
            "f'{1:1000000000}'",
            "f'{1:201}'",
            "f'{1:9999}'",
            "f'{1.5:.9999f}'",
            "f'{1.5:.201e}'",
            "f'{1:>{10 ** 9}}'",
            "f'{1.5:.1000000000f}'",
            "f'{\"a\":x<1000000000}'",
            "f'{1:0{10 ** 8}d}'",
            "'%1000000000d' % 1",
            "'%.1000000000f' % 1.5",
            "'%*d' % (10 ** 9, 1)",
            "'%.*f' % (10 ** 9, 1.5)",
            "'%(a)1000000000s' % {'a': 1}",
            "('%' + '9' * 9 + 'd') % 1",
        ),
        ERROR,
    ),
    *expressions(
        "a format that makes no sense",
        ("f'{1:{\"%\" * 200}}'", "'%z' % 1", "'%' % 1", "'%d' % 'a'", "f'{1:_d_}'", "'%s %s' % 1"),
        ERROR,
    ),
    inside(
        "a format is added up",
        "an augmented % skips the guard",
        "text = '%999999999d'\ntext %= 1\nreturn text",
        ERROR,
    ),
    inside(
        "a debugging f-string",
        "f'{x=}' calls repr by itself",
        "return f'{choose=}'",
        REJECTED,
    ),
    harmless(
        "a brace that is no field",
        "a format string that nobody formats",
        "text = '{0.__class__.__globals__}'\nreturn [len(text) - len(text)]",
    ),
]
