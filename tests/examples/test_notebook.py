"""The example notebook, and the first session of `help(kalends)`, run: in a real kernel, on real servers."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from transcripts import EXAMPLES, ROOT, environment

import kalends
from kalends.demo.facility import Facility
from kalends.testing import LocalFacility

ADDRESS = "http://127.0.0.1:7100"


def cells() -> list[str]:
    """The cells of the example, without what introduces them."""
    return re.split(r"(?m)^# %%.*\n", (EXAMPLES / "notebook.py").read_text())[1:]


def of_the_page() -> list[str]:
    """The cells of docs/notebooks.md."""
    page = (ROOT / "docs" / "notebooks.md").read_text()
    marked = r"<!-- a cell: tests/examples/test_notebook\.py runs it -->\n```python\n(.*?)```\n"
    found = re.findall(marked, page, re.DOTALL)
    assert len(found) == page.count("```python")
    return found


def run_in_a_kernel(sources: list[str], variables: dict[str, str]) -> list[Any]:
    """What each cell of a notebook has shown; an error in one is an error here."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in sources])
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}})
    client.execute(env=environment(variables))
    return [cell.outputs for cell in notebook.cells]


def html(outputs: list[Any]) -> str:
    return "".join(each.get("data", {}).get("text/html", "") for each in outputs)


def text(outputs: list[Any]) -> str:
    told = [each.get("data", {}).get("text/plain", "") + each.get("text", "") for each in outputs]
    return "".join(told)


@pytest.mark.xdist_group("everyones-facility")
def test_the_notebook_runs_in_a_kernel_and_draws_what_it_finds(
    empty_facility: Facility, tmp_path: Path
) -> None:
    known = empty_facility.environment()
    profile = tmp_path / "config.toml"
    profile.write_text(
        f'[profiles.default]\nbroker = "{known["KALENDS_BROKER"]}"\n'
        f'token_file = "{known["KALENDS_TOKEN_FILE"]}"\n'
    )
    # As after `kalends login`, which sets no variables.
    shown = run_in_a_kernel([*cells(), *of_the_page()], {"KALENDS_CONFIG": str(profile)})
    (resources, calendar, found, booked, shorter, notes, listed, refused, cancelled, result,
     _, room, *_) = shown  # fmt: skip
    assert "<svg" in html(room)
    assert "sdsc/sp2" in html(resources)
    assert "<svg" in html(calendar)
    assert "caltech/beamline:1" in html(found)
    assert "run 7" in html(booked)
    assert "1h" in html(shorter)
    assert text(notes) == "['run 7']"
    assert "run 7" in html(listed)
    assert text(refused).count("|") == 2
    assert text(cancelled) == "'cancelled'"
    assert "easy" in html(result)
    assert text(result).startswith("<SimulationResult easy: 200 jobs on 32 nodes")
    streams = [each for outputs in shown for each in outputs if each.get("name") == "stderr"]
    assert not streams


@pytest.fixture
def servers() -> Iterator[LocalFacility]:
    with LocalFacility({"sdsc": {"sp2": 64}, "caltech": {"onyx": 1}}) as servers:
        yield servers


def test_the_first_session_that_help_shows_runs(servers: LocalFacility) -> None:
    assert ADDRESS in str(kalends.__doc__)
    session = doctest.DocTestParser().get_doctest(
        str(kalends.__doc__).replace(ADDRESS, servers.url("broker")), {}, "kalends", None, 0
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(session)
    assert len(session.examples) > 8
    assert runner.failures == 0
