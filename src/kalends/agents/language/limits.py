"""Limits of the language, each with its reason; docs/agent-language.md repeats them for authors."""

from __future__ import annotations

from typing import Final

from kalends.core.limits import AGENT_MESSAGE_CHARS_MAX as MESSAGE_CHARS_MAX
from kalends.core.limits import AGENT_MESSAGES_MAX as MESSAGES_MAX
from kalends.core.limits import SCRIPT_BYTES_MAX as SOURCE_BYTES_MAX
from kalends.core.limits import TIME_S_MAX

__all__ = ["MESSAGES_MAX", "MESSAGE_CHARS_MAX", "SOURCE_BYTES_MAX", "TIME_S_MAX"]

NODES_MAX: Final = 6_000
"""Nodes of the syntax tree: bounds the time to check and compile."""

SYNTAX_DEPTH_MAX: Final = 64
"""Nesting of the syntax tree: the transformer takes four Python frames a level."""

LOOPS_DEPTH_MAX: Final = 16
"""Loops and comprehensions inside one another: some 20 or more end the compiler of Python 3.12 and later."""

VIOLATIONS_MAX: Final = 100
"""Violations that are reported of one source: the first, by place."""

INTEGER_BITS_MAX: Final = 512
KEY_BITS_MAX: Final = 60
"""An integer as a key: up to here its hash is its value, beyond 61 bits many have the same."""

KEY_PART_BITS_MAX: Final = 40
"""An integer in a tuple that is a key: with longer ones, tuples can be made to have one hash."""

KEYS_ALIKE_MAX: Final = 64
"""Different tuples with one hash that a script may use as keys: -1 and -2 have one, and tuples of them."""

KEYS_PER_STEP_BITS: Final = 5
"""Finding a number or a tuple costs one step more for 2 to the power of this keys in a dict,"""

CACHED_KEYS_BITS: Final = 15
"""and as much again for 2 to the power of this, which the processor's caches do not hold."""

TEXT_CHARS_MAX: Final = 100_000
ITEMS_MAX: Final = 200_000
"""Items of one list, tuple, range or dict that an operation makes."""

CALLS_MAX: Final = 400
"""Calls of the script's functions inside one another."""

DATA_DEPTH_MAX: Final = 16
"""Lists in lists that can be compared or be keys: C code recurses there without a check of its own."""

FORMAT_WIDTH_MAX: Final = 200
ROUND_DIGITS_MAX: Final = 30

ANSWER_DEPTH_MAX: Final = 8
ANSWER_ITEMS_MAX: Final = 20_000
ANSWER_TEXT_BYTES_MAX: Final = 8 * 1024
ANSWER_BYTES_MAX: Final = 256 * 1024

DETAIL_CHARS_MAX: Final = 200
"""Characters of an error's text."""

NODES_PER_STEP: Final = 4
"""Nodes of code that cost one more step in a pass through it."""

DISPLAY_NODES: Final = 16
"""Price of making a list, dict or function, for its memory."""

GUARDED_NODES: Final = 8
"""Price of a call or a comparison, for its guard."""

KEY_STEPS: Final = 4
"""Price of a key that is put into a dict, for its memory."""

DIGIT_STEPS: Final = 4
"""Price of a decimal digit of a float beyond those that it means."""

CASE_STEPS: Final = 10
"""Passes over a text that a change of case costs if it is not ASCII."""

CHARS_PER_STEP_BITS: Final = 4
"""Work on text costs one step for 2 to the power of this characters."""
