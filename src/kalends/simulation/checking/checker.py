"""A log, a result, a policy: every broken rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from kalends.core.errors import InvalidInput
from kalends.simulation.checking.any_policy import (
    capacity,
    configured,
    in_order,
    matched,
    places,
)
from kalends.simulation.checking.conservative import late
from kalends.simulation.checking.findings import Finding, Progress, Run, untold
from kalends.simulation.checking.heads import Heads
from kalends.simulation.checking.input import (
    read_blocked,
    read_nodes,
    read_placements,
    read_requests,
)
from kalends.simulation.checking.ordered import RANKED, RankedQueue
from kalends.simulation.checking.topologies import is_grid, topology_from

POLICIES: Final = {
    "any": "All jobs once and as in the log, never more nodes than there are.",
    "fcfs": "Also: starts in order of submission, and the first one never idles.",
    "easy": "Also: the head of the queue never idles, and starts as promised; jobs that can go before do.",
    "easy-sjbf": "As easy.",
    "conservative": "Also: every job starts when promised at its submission, or earlier where it can.",
    **{
        name: "Also: every job that fits starts, in the order of rank."
        if name.endswith("-scan")
        else "Also: the first by rank never idles, and no other starts before it."
        for name in RANKED
    },
}
"""The policies whose rules are known, and what is checked."""

ESTIMATES: Final = ("user", "exact", "filled")


class CheckReport(msgspec.Struct, frozen=True):
    """The subject and the findings of a check; no `findings` means that nothing is wrong."""

    policy: str
    nodes: int
    jobs: int
    waited: int
    """Heads that had to wait, or jobs that were promised a later start than their submission."""
    broken_promises: int
    worst_s: float
    """The largest delay after a promise."""
    kinds: dict[str, int]
    """Number of findings of each kind."""
    findings: list[Finding]
    resized: int = 0
    """Jobs that changed their nodes while they ran: it is not known which they had when, nor looked at."""


def check(
    log: Path | str,
    result: Path | str,
    policy: str,
    nodes: int | None = None,
    *,
    machine: str = "",
    reservations: Path | str | None = None,
    estimates: str = "user",
    as_run: bool = False,
    as_decided: bool = False,
    progress: Progress = untold,
) -> CheckReport:
    """Check the schedule in `result` (SWF or CSV) against the jobs of `log` (SWF) on `nodes` nodes.

    None takes the number of nodes from the log's header. `policy` is a key of `POLICIES`. Without them, a
    `machine` such as ``mesh2d:32x32:4x4`` has a topology: the result must then name the nodes of every
    job. What conservative backfilling promises there hangs on which nodes the mapper would have given, and
    which are kept for reservations is in no result: neither is checked, but refused. On a grid such as
    ``grid:64+32`` only the rules of ``any`` are checked.
    `reservations` is a CSV file with columns start, end and nodes, in seconds of the log or as dates.
    `estimates` says what policies took for requested times: ``user`` those of the log, ``exact`` the
    run times, ``filled`` the run times where the log has none.

    `as_run` takes the nodes and run times of the result instead of the log's: for jobs that run on several
    sizes, and nodes of several speeds. Then only the rules of ``any`` can be checked. `as_decided` takes the
    sizes and limits of the result, for policies that choose them when a job is submitted or capped it: all
    rules are checked with these. Otherwise a job that asks for anything else than in the log is a finding.

    `progress` is told how far the check of a policy's rules is.

    Raises `InvalidInput` for files that cannot be read and for an unknown policy.
    """
    if policy not in POLICIES:
        raise InvalidInput(
            f"unknown policy {policy[:40]!r}",
            where="policy",
            remedy=f"write {', '.join(POLICIES)}",
        )
    if estimates not in ESTIMATES:
        raise InvalidInput(
            f"{estimates!r}", where="estimates", remedy=f"write {' or '.join(ESTIMATES)}"
        )
    if as_run and policy != "any":
        raise InvalidInput(
            f"the rules of {policy} hold for jobs as they are in the log",
            where="policy",
            remedy="give the policy any, or leave out --as-run",
        )
    if as_run and as_decided:
        raise InvalidInput(
            "jobs as they ran, and as decided", where="as_decided", remedy="leave out one of them"
        )
    topology = None
    if machine:
        if nodes is not None:
            raise InvalidInput(
                f"both {nodes} nodes and a machine", where="nodes", remedy="leave out one of them"
            )
        nodes, topology = topology_from(machine)
        if is_grid(machine) and (policy != "any" or reservations is not None):
            raise InvalidInput(
                "on a grid, starts hang on which clusters a job may cross, and reservations on theirs",
                where="policy" if policy != "any" else "reservations",
                remedy="check any, without reservations",
            )
    if topology is not None:
        _refuse_what_a_result_does_not_say(policy, reservations)
    nodes = read_nodes(Path(log)) if nodes is None else nodes
    if nodes < 1:
        raise InvalidInput(f"{nodes} nodes", where="nodes", remedy="give 1 or more")
    placements, ticks = read_placements(Path(result), Path(log))
    requests = read_requests(Path(log), nodes, estimates, ticks)
    if topology is not None:
        requests = [replace(each, nodes=topology.granted(each.nodes)) for each in requests]
    runs, findings = matched(
        requests,
        placements,
        as_run=as_run,
        as_decided=as_decided,
        ticks=ticks,
    )
    blocked = read_blocked(Path(reservations), Path(log), ticks) if reservations is not None else []
    constant = [run for run in runs if not ((as_run or as_decided) and run.resized)]
    if as_decided and policy != "any" and len(constant) < len(runs):
        raise InvalidInput(
            "jobs changed size while they ran, and no line says when",
            where=str(result),
            remedy="check any, or leave out --as-decided",
        )
    findings += capacity(constant, blocked, nodes)
    findings += places(constant, nodes)
    if topology is not None:
        _refuse_unnamed(runs, Path(result))
        findings += configured(constant, topology)
    waited = 0
    if runs and policy in ("fcfs", "easy", "easy-sjbf"):
        heads = Heads(
            runs, blocked, nodes,
            promises=policy != "fcfs", topology=topology, progress=progress, ticks=ticks,
        )  # fmt: skip
        findings += heads.findings()
        waited = heads.waited
    if runs and policy in RANKED:
        findings += RankedQueue(runs, blocked, nodes, policy, progress).findings()
    if runs and policy == "fcfs":
        findings += in_order(runs)
    if runs and policy == "conservative":
        waited, delays = late(runs, blocked, nodes, progress, ticks)
        findings += delays
    findings = [finding.in_seconds(ticks) for finding in findings]
    broken = [finding.by for finding in findings if finding.kind == "promise"]
    return CheckReport(
        policy=policy,
        nodes=nodes,
        jobs=len(requests),
        waited=waited,
        broken_promises=len(broken),
        worst_s=max(broken, default=0),
        kinds=dict(Counter(finding.kind for finding in findings)),
        findings=findings,
        resized=len(runs) - len(constant),
    )


def _refuse_what_a_result_does_not_say(policy: str, reservations: Path | str | None) -> None:
    if policy == "conservative" or policy in RANKED:
        raise InvalidInput(
            "on a machine, starts depend on which nodes the mapper would have given",
            where="policy",
            remedy="check any, or count nodes",
        )
    if reservations is not None:
        raise InvalidInput(
            "on a machine, a result does not say which nodes they have",
            where="reservations",
            remedy="leave them out, or count nodes",
        )


def _refuse_unnamed(runs: Sequence[Run], result: Path) -> None:
    unnamed = next((run for run in runs if not run.places), None)
    if unnamed is not None:
        raise InvalidInput(
            f"job {unnamed.request.id} has no nodes by name",
            where=str(result),
            remedy="give a CSV with a column allocated_resources",
        )
