"""Pictures of schedules: that they are drawn, the same each time, and what is said without matplotlib."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kalends.core.errors import InvalidInput, KalendsError
from kalends.extras import install_command
from kalends.simulation import plots
from kalends.simulation.experiment import simulate
from kalends.simulation.result import SimulationResult
from kalends.simulation.schedule import Schedule

EXCERPT = Path(__file__).parents[3] / "examples" / "data" / "sdsc-sp2-excerpt.swf"


def replayed(*policies: str) -> tuple[list[Schedule], list[SimulationResult]]:
    schedules = [Schedule(policy) for policy in policies]
    results = [simulate(EXCERPT, policy=each.name, watchers=[each.add]) for each in schedules]
    return schedules, results


@pytest.mark.parametrize(
    ("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_a_picture_is_of_the_kind_that_its_name_says_and_the_same_each_time(
    tmp_path: Path, suffix: str, begins: bytes
) -> None:
    schedules, results = replayed("easy", "fcfs")
    written = []
    for name in "ab":
        path = tmp_path / f"{name}{suffix}"
        plots.save(plots.comparison(schedules, results), path)
        written.append(path.read_bytes())
    assert written[0].startswith(begins)
    assert written[0] == written[1]


def test_an_overview_shows_every_job_on_its_nodes_and_the_metrics() -> None:
    (schedule,), (result,) = replayed("easy")
    figure = plots.overview(schedule, result)
    jobs, busy, waiting, waits, sizes, _ = figure.axes
    bars = jobs.collections[0].get_paths()
    assert len(bars) == sum(len(nodes) for *_, nodes in schedule.on_nodes(128))
    area = sum(bar.get_extents().width * bar.get_extents().height for bar in bars)
    assert area * 86_400 == pytest.approx(result.utilization * result.makespan_s * 128)
    assert [each.get_title(loc="left") for each in (busy, waiting, waits, sizes)] == [
        "Utilization", "Queue depth", "Waits", "Waits by size",
    ]  # fmt: skip
    assert "utilization 58.1%" in figure.get_suptitle()


def test_error_curves_say_how_many_predictions_were_off_by_at_most_so_much() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    plots.error_curves(axes, {"naive": [-100, 5, 3600, 0]})
    (curve,) = axes.lines
    assert list(curve.get_xdata()) == [1, 5, 100, 3600]
    assert list(curve.get_ydata()) == [25, 50, 75, 100]


def test_a_name_that_says_no_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"\.png, \.svg, \.pdf"):
        plots.check_suffix(tmp_path / "out.gif")


def test_without_matplotlib_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    schedules, results = replayed("easy")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(KalendsError, match=re.escape(install_command("plot"))):
        plots.overview(schedules[0], results[0])


def test_the_command_draws_one_policy_or_compares_several(tmp_path: Path) -> None:
    for policies in ("easy", "easy,fcfs"):
        path = tmp_path / f"{policies}.png"
        words = ["simulate", str(EXCERPT), "--policy", policies, "--plot", str(path)]
        run = subprocess.run(
            [sys.executable, "-m", "kalends", *words], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert path.read_bytes().startswith(b"\x89PNG")
