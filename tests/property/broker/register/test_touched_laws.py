"""A decision looks at what its write names, and at nothing else; every kind of write has both."""

from __future__ import annotations

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.register_twin import TwinRegister, TwinRows
from tests.support.register_writes import batches

from kalends.broker.register import touched as naming
from kalends.broker.register.decisions.register_decisions import DECISIONS, decide
from kalends.broker.register.writes import Write


def test_every_kind_of_write_has_a_decision_and_names_what_it_is_about() -> None:
    kinds = set(get_args(Write))
    assert DECISIONS.keys() == kinds
    assert naming._NAMES.keys() == kinds


@settings(max_examples=300)
@given(st.lists(batches, min_size=1, max_size=12))
def test_no_decision_looks_at_a_row_that_its_batch_does_not_name(
    transactions: list[list[Write]],
) -> None:
    guarded, rows = TwinRegister(TwinRows()), TwinRows()
    for batch in transactions:
        assert guarded.carry_out(batch) == [decide(rows, write) for write in batch]
        assert guarded.rows.tables() == rows.tables()
