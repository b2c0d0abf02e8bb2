"""Pictures of schedules. Needs matplotlib, the extra ``plot``, and loads it when one is drawn.

Panels are drawn on axes of the caller's, so that they can be put together at will; `overview` and
`comparison` put the usual ones together. Times are days from the first submission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kalends.core.errors import InvalidInput, KalendsError
from kalends.extras import install_command
from kalends.simulation.curves import busy_nodes, greatest, means, queue_depth
from kalends.simulation.result import SimulationResult
from kalends.simulation.schedule import Schedule
from kalends.version import VERSION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kalends.simulation.sweeps import Cell

SUFFIXES: Final = (".png", ".svg", ".pdf")
"""Suffixes of pictures, which set their kind."""

COLOURS: Final = (
    "#2b6cb0", "#dd6b20", "#2f855a", "#b83280", "#6b46c1", "#b7791f", "#2c7a7b", "#c53030",
)  # fmt: skip

BARS: Final = {
    "mean_wait_s": "mean wait, h",
    "p95_wait_s": "95th percentile of waits, h",
    "mean_bounded_slowdown": "mean bounded slowdown",
    "utilization": "utilization, %",
}

_BINS: Final = 400
_BINS_COMPARED: Final = 80
"""Number of bins, fewer because several curves cross."""

_DAY_S: Final = 86_400
_OUTLINED_MAX: Final = 600
"""Maximum bars of a Gantt chart with outlines; more outlines would hide the bars."""

_STYLE: Final[dict[str, Any]] = {
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": "#e2e8f0", "grid.linewidth": 0.8, "axes.edgecolor": "#a0aec0",
    "axes.labelcolor": "#2d3748", "xtick.color": "#4a5568", "ytick.color": "#4a5568",
    "text.color": "#1a202c", "axes.titlesize": 10, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "legend.frameon": False, "svg.hashsalt": "kalends",
}  # fmt: skip


def overview(
    schedule: Schedule,
    result: SimulationResult,
    errors_s: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Return one schedule: who ran where and when, busy nodes, waiting jobs, and how long jobs waited.

    `errors_s` of predicted starts by method, if there are any, are drawn below.

    Raises `KalendsError` where matplotlib is missing; so does everything here.
    """
    with _style():
        rows, heights = "aa\nbb\ncc\nde", (3.4, 1.3, 1.3, 1.7)
        if errors_s and any(errors_s.values()):
            figure, axes = _figure(f"{rows}\nff", (11, 13.5), (*heights, 1.7))
            error_curves(axes["f"], errors_s)
        else:
            figure, axes = _figure(rows, (11, 11), heights)
        gantt(axes["a"], schedule, result.nodes)
        utilization(axes["b"], [schedule], result.nodes)
        depth(axes["c"], [schedule])
        for panel in "bc":
            axes[panel].set_xlim(axes["a"].get_xlim())
        waits(axes["d"], [schedule])
        waits_by_size(axes["e"], schedule)
        figure.suptitle(
            f"{result.policy}: {result.jobs:,} jobs on {result.nodes:,} nodes, "
            f"utilization {result.utilization:.1%}, mean wait {result.mean_wait_s:,.0f} s, "
            f"mean bounded slowdown {result.mean_bounded_slowdown:,.2f}",
            x=0.01, ha="left", fontsize=11,
        )  # fmt: skip
        _foot(figure, [result])
    return figure


def comparison(schedules: Sequence[Schedule], results: Sequence[SimulationResult]) -> Figure:
    """Draw several schedules of one workload: metrics as bars; waits, busy nodes, queues as curves."""
    with _style():
        rows = max(1.2, 0.32 * len(results))
        figure, axes = _figure("abcd\neeff\ngggg", (12, 7 + rows), (rows, 2, 1.7))
        for panel, field in zip("abcd", BARS, strict=True):
            bars(axes[panel], results, field, named=panel == "a")
        waits(axes["e"], schedules)
        utilization(axes["f"], schedules, results[0].nodes)
        depth(axes["g"], schedules)
        said = f"{results[0].jobs:,} jobs on {results[0].nodes:,} nodes"
        figure.suptitle(said, x=0.01, ha="left", fontsize=11)
        _foot(figure, results)
    return figure


def sweep(cells: Sequence[Cell]) -> Figure:
    """Draw the means of a sweep with their confidence intervals, over the loads or by policy."""
    policies = list(dict.fromkeys(cell.policy for cell in cells))
    loads = sorted({cell.load for cell in cells})
    with _style():
        figure, axes = _figure("ab\ncd", (11, 8), (1, 1))
        for panel, field in zip("abcd", BARS, strict=True):
            factor = _factor(field)
            for number, policy in enumerate(policies):
                mine = [cell for cell in cells if cell.policy == policy]
                found = [cell.estimate(field) for cell in mine]
                axes[panel].errorbar(
                    [cell.load for cell in mine] if len(loads) > 1 else [number],
                    [each.mean * factor for each in found],
                    yerr=[(each.half_width or 0) * factor for each in found],
                    color=COLOURS[number % len(COLOURS)], marker="o", capsize=3, label=policy,
                )  # fmt: skip
            axes[panel].set(title=BARS[field], xlabel="load" if len(loads) > 1 else "")
            if len(loads) == 1:
                axes[panel].set_xticks(range(len(policies)), policies)
        if len(loads) > 1:
            axes["a"].legend()
        results = [
            next(cell for cell in cells if cell.policy == policy).results[0] for policy in policies
        ]
        figure.suptitle(
            f"{results[0].jobs:,} jobs on {results[0].nodes:,} nodes, {len(cells[0].results)} replays "
            "of each policy and load; bars are 95 % confidence intervals",
            x=0.01, ha="left", fontsize=11,
        )  # fmt: skip
        _foot(figure, [result for cell in cells for result in cell.results])
    return figure


def save(figure: Figure, path: Path | str, made_by: str = "") -> None:
    """Write a picture; the suffix of `path` says which kind. The same picture gives the same bytes.

    `made_by` is kept in the file for programs: the provenance of what is drawn.

    Raises `InvalidInput` for another suffix, or where no file can be written.
    """
    path = Path(path)
    check_suffix(path)
    creator = f"kalends {VERSION}"
    metadata = {
        ".png": {"Software": creator, "Description": made_by},
        ".svg": {"Creator": creator, "Description": made_by, "Date": None},
        ".pdf": {"Creator": creator, "Subject": made_by, "CreationDate": None},
    }
    with _style():
        try:
            figure.savefig(path, dpi=150, metadata=metadata[path.suffix])
        except OSError as error:
            raise InvalidInput(
                f"cannot be written: {error.strerror}", where=str(path), remedy="name another file"
            ) from error


def _foot(figure: Figure, results: Sequence[SimulationResult]) -> None:
    """Write what made all the results at the foot of a picture."""
    made = [result.provenance for result in results if result.provenance is not None]
    if not made:
        return
    policies = ", ".join(dict.fromkeys(each.policy for each in made))
    common = {
        name: value
        for name, value in made[0].options.items()
        if all(each.options.get(name) == value for each in made)
    }
    line = msgspec.structs.replace(made[0], policy=policies, options=common).in_a_line()
    figure.supxlabel(line, x=0.01, ha="left", fontsize=6, color="#4a5568")


def check_suffix(path: Path) -> None:
    """Raise `InvalidInput` unless the name of a picture says what kind it is."""
    if path.suffix not in SUFFIXES:
        raise InvalidInput(
            f"unknown picture format {path.suffix or 'without a suffix'}",
            where=str(path),
            remedy=f"give a file that ends in {', '.join(SUFFIXES)}",
        )


def gantt(axes: Axes, schedule: Schedule, nodes: int) -> None:
    """Draw each job as a bar over its nodes and its run; the darker, the longer it waited."""
    from matplotlib import colormaps
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import ListedColormap, LogNorm

    first_s = min(schedule.submits, default=0)
    bars: list[list[tuple[float, float]]] = []
    waited_s: list[int] = []
    for index, start_s, end_s, ran_on in schedule.on_nodes(nodes):
        left, right = (start_s - first_s) / _DAY_S, (end_s - first_s) / _DAY_S
        for low, high in ran_on:
            bars.append([(left, low), (left, high + 1), (right, high + 1), (right, low)])
            waited_s.append(max(schedule.starts[index] - schedule.submits[index], 1))
    outlined = len(bars) <= _OUTLINED_MAX
    # Without its palest part, which is hardly seen on white.
    shades = ListedColormap(colormaps["YlGnBu"]([0.18 + 0.82 * at / 255 for at in range(256)]))
    drawn = PolyCollection(
        bars, array=waited_s, cmap=shades, norm=LogNorm(60, max(7 * _DAY_S, 61)),
        edgecolors="white" if outlined else "face", linewidths=0.5 if outlined else 0.1,
        rasterized=not outlined,
    )  # fmt: skip
    axes.add_collection(drawn)
    axes.set(xlim=(0, _days(schedule)), ylim=(0, nodes), ylabel="node", title="Jobs on nodes")
    axes.grid(visible=False)
    scale = axes.figure.colorbar(drawn, ax=axes, pad=0.01, aspect=30, extend="both")
    scale.set_ticks([60, 600, 3600, 6 * 3600, _DAY_S, 7 * _DAY_S])
    scale.set_ticklabels(["1 min", "10 min", "1 h", "6 h", "1 d", "7 d"])
    scale.ax.minorticks_off()
    scale.outline.set_visible(False)
    scale.set_label("waited")


def utilization(axes: Axes, schedules: Sequence[Schedule], nodes: int) -> None:
    """Draw busy nodes over time, each value the mean of a short while."""
    for number, schedule in enumerate(schedules):
        edges = _edges(schedule, _BINS if len(schedules) == 1 else _BINS_COMPARED)
        shares = [100 * value / nodes for value in means(busy_nodes(schedule), edges)]
        _steps(axes, edges, shares, number, schedule.name, filled=len(schedules) == 1)
    axes.set(xlim=(0, max(map(_days, schedules))), ylim=(0, 101))
    axes.set(ylabel="busy nodes, %", xlabel="days", title="Utilization")
    if len(schedules) > 1:
        axes.legend(loc="lower right")


def depth(axes: Axes, schedules: Sequence[Schedule]) -> None:
    """Draw waiting jobs over time, as means of short whiles; for one schedule its maximum too."""
    for number, schedule in enumerate(schedules):
        curve, edges = queue_depth(schedule), _edges(schedule)
        if len(schedules) == 1:
            axes.stairs(greatest(curve, edges), _in_days(edges), color="#cbd5e0", label="most")
        filled = len(schedules) == 1
        name = "mean" if filled else schedule.name
        _steps(axes, edges, means(curve, edges), number, name, filled=filled)
    axes.set(xlim=(0, max(map(_days, schedules))), ylim=(0, None))
    axes.set(ylabel="waiting jobs", xlabel="days", title="Queue depth")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=8, borderpad=0)


def waits(axes: Axes, schedules: Sequence[Schedule]) -> None:
    """Draw the shares of jobs by maximum wait."""
    for number, schedule in enumerate(schedules):
        waited_s = sorted(
            max(start_s - submit_s, 1)
            for start_s, submit_s in zip(schedule.starts, schedule.submits, strict=True)
        )
        _shares(axes, waited_s, number, schedule.name)
    _time_scale(axes)
    axes.set(xlabel="wait", title="Waits")
    if len(schedules) > 1:
        axes.legend(loc="lower right")


def waits_by_size(axes: Axes, schedule: Schedule) -> None:
    """Draw mean waits of jobs by size: 1, 2, 3-4, 5-8, ..."""
    classes: dict[int, list[int]] = {}
    for submit_s, start_s, width in zip(
        schedule.submits, schedule.starts, schedule.widths, strict=True
    ):
        classes.setdefault((width - 1).bit_length(), []).append(start_s - submit_s)
    sizes = sorted(classes)
    names = [str(1 << n) if n < 2 else f"{(1 << n - 1) + 1}-{1 << n}" for n in sizes]
    hours = [sum(classes[n]) / len(classes[n]) / 3600 for n in sizes]
    axes.bar(names, hours, color=COLOURS[0], width=0.7)
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="nodes of the job", ylabel="mean wait, h", title="Waits by size")


def bars(
    axes: Axes, results: Sequence[SimulationResult], field: str, *, named: bool = True
) -> None:
    """Draw one metric of several results as bars; waits in hours, utilization in percent."""
    factor = _factor(field)
    values = [getattr(result, field) * factor for result in results]
    places = list(range(len(results)))
    colours = [COLOURS[place % len(COLOURS)] for place in places]
    drawn = axes.barh(places, values, color=colours, height=0.7)
    labels = [f" {value:,.0f}" if value >= 1000 else f" {value:.3g}" for value in values]
    axes.bar_label(drawn, labels, fontsize=8)
    axes.margins(x=0.25)
    axes.set_yticks(places, [result.policy if named else "" for result in results])
    axes.tick_params(left=False)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_title(BARS.get(field, field))


def _factor(field: str) -> float:
    """Return by what a metric is multiplied to be drawn: times in hours, utilization in percent."""
    return 100 if field == "utilization" else 1 / 3600 if field.endswith("_s") else 1


def error_curves(axes: Axes, errors_s: Mapping[str, Sequence[float]]) -> None:
    """Draw the shares of predictions by maximum error, earlier or later, one curve for each method."""
    for number, (name, errors) in enumerate(errors_s.items()):
        _shares(axes, sorted(max(abs(error), 1) for error in errors), number, name)
    _time_scale(axes)
    axes.set(xlabel="off by at most", ylabel="predictions, %", title="Errors of predicted starts")
    axes.legend(loc="upper left")


def _steps(
    axes: Axes,
    edges: Sequence[float],
    values: Sequence[float],
    number: int,
    name: str,
    *,
    filled: bool,
) -> None:
    colour = COLOURS[number % len(COLOURS)]
    days = _in_days(edges)
    if filled:
        axes.stairs(values, days, color=colour, fill=True, alpha=0.25)
    axes.stairs(values, days, color=colour, label=name, linewidth=1.1)


def _shares(axes: Axes, ascending: Sequence[float], number: int, name: str) -> None:
    """Draw the percentage of `ascending`, all above 0, that are at most each value."""
    # A thousand points are all that can be told apart.
    step = max(len(ascending) // 1000, 1)
    ranks = [*range(step - 1, len(ascending) - 1, step), len(ascending) - 1]
    axes.step(
        [ascending[rank] for rank in ranks],
        [100 * (rank + 1) / len(ascending) for rank in ranks],
        where="post", color=COLOURS[number % len(COLOURS)], label=name, linewidth=1.4,
    )  # fmt: skip
    axes.set(ylim=(0, 101), ylabel="jobs, %")


def _time_scale(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_xlim(left=1)
    ticks = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h",
             _DAY_S * 7: "7 d", _DAY_S * 100: "100 d"}  # fmt: skip
    shown = {at: text for at, text in ticks.items() if at <= axes.get_xlim()[1]}
    axes.set_xticks(list(shown), list(shown.values()))
    axes.minorticks_off()


def _edges(schedule: Schedule, bins: int = _BINS) -> list[float]:
    first_s = min(schedule.submits, default=0)
    length_s = max(max(schedule.ends, default=1) - first_s, 1)
    return [first_s + length_s * at / bins for at in range(bins + 1)]


def _in_days(edges: Sequence[float]) -> list[float]:
    return [(edge - edges[0]) / _DAY_S for edge in edges]


def _days(schedule: Schedule) -> float:
    edges = _edges(schedule)
    return (edges[-1] - edges[0]) / _DAY_S


def need_matplotlib() -> None:
    """Raise `KalendsError` where matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise KalendsError(
            f"pictures need matplotlib: no module {error.name}",
            remedy=f"install it: {install_command('plot')}",
        ) from error
    assert mpl


def _style() -> AbstractContextManager[None]:
    need_matplotlib()
    import matplotlib as mpl

    context: AbstractContextManager[None] = mpl.rc_context(_STYLE)  # type: ignore[arg-type]  # names are literals there
    return context


def _figure(
    mosaic: str, size: tuple[float, float], heights: Sequence[float]
) -> tuple[Figure, dict[str, Axes]]:
    # No pyplot: that would choose a window system, and keep every figure.
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplot_mosaic(mosaic, height_ratios=list(heights))
