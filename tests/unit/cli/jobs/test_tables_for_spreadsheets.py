"""Tables as CSV, which are opened in spreadsheets."""

from __future__ import annotations

import csv
import io

import pytest

from kalends.cli.admin.credits import COLUMNS, table
from kalends.cli.jobs.tables import write_table
from kalends.contract.credit_calls import CreditEntryView


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd", "@sum(1)", "\t=1", "-1+2", "-1.2.3"])
def test_what_a_spreadsheet_would_run_as_a_formula_is_text_there(text: str) -> None:
    stream = io.StringIO()
    assert write_table(stream, ("user",), [(text,)]) == 1
    assert stream.getvalue() == f"user\n'{text}\n"


@pytest.mark.parametrize("cell", ["-10.00", "+1", "-", "", "ann", "a=b", -36_000_000, 1.5])
def test_amounts_and_other_words_are_as_they_were(cell: object) -> None:
    stream = io.StringIO()
    write_table(stream, ("user", "cell"), [("ann", cell)])
    assert stream.getvalue() == f"user,cell\nann,{cell}\n"


def test_a_statement_has_no_formula_of_a_user_or_of_a_note() -> None:
    entry = CreditEntryView(
        number=1, at=0, account="project:dna", kind="charge", amount=-36_000_000, balance=-36_000_000,
        user="=1+1", note="@sum(1)",
    )  # fmt: skip
    (row,) = csv.DictReader(table([entry]))
    assert set(row) == set(COLUMNS)
    assert (row["user"], row["note"], row["credits"]) == ("'=1+1", "'@sum(1)", "-10.00")
