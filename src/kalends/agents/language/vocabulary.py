"""Every name that a script can use without defining it; the checker and the run agree on these."""

from __future__ import annotations

from typing import Final


def words(text: str) -> frozenset[str]:
    """Return the words of `text`, which blanks part."""
    return frozenset(text.split())


BUILTINS: Final = words(
    "abs all any bool dict divmod enumerate filter float int len list map max min range reversed "
    "round sorted str sum tuple zip"
)

EXCEPTIONS: Final = frozenset({"Exception", "KeyError", "ValueError"})
"""Exceptions for ``raise`` only."""

HELPERS: Final = words(
    "by clock days gaps hours ids local_date merge minutes overlaps receive send time_of_day "
    "together weekday"
)

NAMES: Final = BUILTINS | HELPERS

RESERVED: Final = EXCEPTIONS | {"breakpoint", "builtins", "eval", "exec", "print", "printed"}
"""Names that a script cannot give to anything: RestrictedPython treats them in its own way."""

STR_METHODS: Final = words(
    "count endswith find isalpha isdigit join lower lstrip partition removeprefix removesuffix "
    "replace rfind rsplit rstrip split splitlines startswith strip upper"
)
LIST_METHODS: Final = words("append clear copy count extend index insert pop remove reverse sort")
DICT_METHODS: Final = words("clear copy get items keys pop setdefault update values")
TUPLE_METHODS: Final = frozenset({"count", "index"})

METHODS: Final = STR_METHODS | LIST_METHODS | DICT_METHODS | TUPLE_METHODS

ENTRIES: Final[dict[str, tuple[str, ...]]] = {
    "choose": ("view", "request"),
    "recall": ("slot", "asker", "view"),
    "pick": ("bids",),
    "decide": ("request", "calendar", "usage"),
    "rank": ("schedules", "machine"),
}
"""The functions that a site calls, or (``pick``) a broker, and what it hands over.

``decide`` is an owner's; the others are users'.
"""
