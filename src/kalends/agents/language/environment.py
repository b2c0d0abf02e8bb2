"""All that a script's code can reach: the guards, the builtins and the helpers of one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kalends.agents.language.builtins import builtin_functions
from kalends.agents.language.clocks import ZoneTables
from kalends.agents.language.helpers import helper_functions
from kalends.agents.language.meter import Meter
from kalends.agents.language.methods import method_guard
from kalends.agents.language.operators import (
    augmented_guard,
    binary_guards,
    chain_guard,
    comparison_guards,
)
from kalends.agents.language.policy import GUARDS
from kalends.agents.language.subscripts import subscript_guards
from kalends.agents.language.texts import text_guards

_EXCEPTIONS = {"Exception": Exception, "KeyError": KeyError, "ValueError": ValueError}


def environment(
    meter: Meter, zones: ZoneTables, inbox: Sequence[Any], sent: list[Any]
) -> dict[str, Any]:
    """Return the globals of a run. Python's own builtins are not among them."""
    binary = binary_guards(meter)
    comparisons = comparison_guards(meter)
    texts = text_guards(meter)
    named = {
        **builtin_functions(meter, binary["+"], texts["_text_"]),
        **helper_functions(meter, zones, inbox, sent),
    }
    for name, function in named.items():
        function.__qualname__ = name  # What Python's own errors about a call begin with.
    return {
        "__builtins__": {},
        **named,
        **_EXCEPTIONS,
        **texts,
        **subscript_guards(meter),
        **{GUARDS[symbol]: guard for symbol, guard in (binary | comparisons).items()},
        "_inplacevar_": augmented_guard(meter, binary),
        "_chain_": chain_guard(comparisons),
        "_method_": method_guard(meter),
        "_tick_": meter.charge,
        "_enter_": meter.enter,
        "_leave_": meter.leave,
        "_lambda_": _lambda(meter),
    }


def _lambda(meter: Meter) -> Callable[[None, object], object]:
    def leave(_entered: None, value: object, /) -> object:
        return meter.leave(value)

    return leave
