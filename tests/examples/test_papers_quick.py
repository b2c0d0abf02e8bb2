"""Each script of a paper that takes minutes has a quick form, which claims no more than it can know."""

from __future__ import annotations

import pytest
from transcripts import EXAMPLES, run_paper

AT_ONCE = {"ccs_packing.py"}


def test_every_script_has_a_quick_form() -> None:
    scripts = [
        path for path in (EXAMPLES / "papers").glob("*.py") if "__main__" in path.read_text()
    ]
    slow = {path.name for path in scripts if '"--quick"' not in path.read_text()}
    assert slow == AT_ONCE


@pytest.mark.parametrize(
    "script",
    ["ccs_readings.py", "ccs_steps.py", "ccs_waiting_times.py", "reservation_n_of_k.py"],
)
def test_a_quick_form_prints_its_figures(script: str) -> None:
    assert len(run_paper(script, "--quick").splitlines()) > 2


def test_two_loads_and_500_jobs_give_no_verdict_on_beosims_readings() -> None:
    printed = run_paper("beosim_readings.py", "--quick")
    assert "readings." not in printed.splitlines()[-1]
    assert "Too few loads and jobs for a verdict" in printed
