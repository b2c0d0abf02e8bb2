"""Rules of every policy: all jobs once, as in the log, and never more nodes than there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kalends.simulation.checking.findings import Blocked, Finding, LoggedJob, ResultRow, Run
from kalends.simulation.checking.ticks import SECONDS, Ticks
from kalends.simulation.checking.topologies import PartitionSets


def matched(
    requests: Sequence[LoggedJob],
    placements: Sequence[ResultRow],
    *,
    as_run: bool = False,
    as_decided: bool = False,
    ticks: Ticks = SECONDS,
) -> tuple[list[Run], list[Finding]]:
    """Return every job of the log with its start, and what does not match.

    `as_run` takes the nodes and the run times from the result, whatever the log says; `as_decided` the sizes
    and the limits, and run times of jobs on another size. A result whose
    times all begin later or earlier than the log's is shifted: many simulators begin at the first
    submission.
    """
    findings = []
    known = {request.id: request for request in requests}
    placed: dict[int, ResultRow] = {}
    for placement in placements:
        if placement.id not in known:
            findings.append(
                Finding("invented", placement.id, placement.start_s, 0,
                        f"line {placement.line}: no job of the log that can be simulated")
            )  # fmt: skip
        elif placement.id in placed:
            findings.append(
                Finding("twice", placement.id, placement.start_s, 0,
                        f"lines {placed[placement.id].line} and {placement.line}")
            )  # fmt: skip
        else:
            placed[placement.id] = placement
    shift_s = _shift_s(requests, placed)
    runs = []
    for order, request in enumerate(requests):
        found = placed.get(request.id)
        if found is None:
            findings.append(
                Finding("missing", request.id, request.submit_s, 0, "not in the result")
            )
            continue
        start_s = found.start_s + shift_s
        end_s = start_s + request.run_s if found.end_s is None else found.end_s + shift_s
        if as_run:
            request = _as_run(request, found, end_s - start_s)
        elif as_decided:
            request = _as_decided(request, found, end_s - start_s)
        else:
            findings += _changed_requests(request, found, start_s, ticks)
        findings += _mismatches(request, found, start_s, end_s, shift_s, ticks)
        # One that ends before it starts is told of above; what follows needs an end behind the start.
        end_s = max(end_s, start_s + 1)
        runs.append(Run(order, request, start_s, end_s, found.places, found.resized))
    return runs, findings


def _as_run(request: LoggedJob, found: ResultRow, run_s: int) -> LoggedJob:
    nodes = request.nodes if found.nodes is None else found.nodes
    return LoggedJob(request.id, request.submit_s, nodes, request.requested_s, run_s)


def _as_decided(request: LoggedJob, found: ResultRow, run_s: int) -> LoggedJob:
    """Return the job with the size and the limit that the result has for it.

    On another size it takes what the result says, on its own what the log says; neither beyond its limit.
    """
    nodes = found.nodes or found.asked_nodes or request.nodes
    limit_s = found.asked_s or request.requested_s
    whole_s = request.uncut_s if nodes == request.nodes else run_s
    return replace(request, nodes=nodes, requested_s=limit_s, run_s=min(whole_s, limit_s))


def _changed_requests(
    request: LoggedJob, found: ResultRow, start_s: int, ticks: Ticks
) -> Iterator[Finding]:
    """Yield what the result has jobs ask for that they do not ask for in the log."""
    job, nodes, asked_s = request.id, found.asked_nodes, found.asked_s
    # Where it also runs on so many, that is told.
    if nodes not in (None, request.logged_nodes, found.nodes):
        by, wanted = nodes - request.logged_nodes, request.logged_nodes
        yield Finding("request", job, start_s, by, f"asks for {nodes} nodes, not {wanted}")
    logged_s = request.logged_s or asked_s
    if asked_s not in (None, logged_s, request.requested_s):
        by = asked_s - request.requested_s
        said = f"asks for {ticks.seconds(asked_s)} s, not {ticks.seconds(request.requested_s)} s"
        yield Finding("request", job, start_s, by, said)


def _shift_s(requests: Sequence[LoggedJob], placed: dict[int, ResultRow]) -> int:
    for request in requests:
        found = placed.get(request.id)
        if found is not None and found.submit_s is not None:
            return request.submit_s - found.submit_s
    return 0


def _mismatches(
    request: LoggedJob, found: ResultRow, start_s: int, end_s: int, shift_s: int, ticks: Ticks
) -> Iterator[Finding]:
    job = request.id
    if found.submit_s is not None and found.submit_s + shift_s != request.submit_s:
        by = found.submit_s + shift_s - request.submit_s
        yield Finding("submit", job, request.submit_s, by, "another submit time than in the log")
    if found.nodes is not None and found.nodes != request.nodes:
        by = found.nodes - request.nodes
        yield Finding("nodes", job, start_s, by, f"{found.nodes} nodes for {request.nodes}")
    if start_s < request.submit_s:
        by = request.submit_s - start_s
        yield Finding("early", job, start_s, by, "starts before it is submitted")
    if end_s - start_s != request.run_s:
        by = end_s - start_s - request.run_s
        said = f"runs {ticks.seconds(end_s - start_s)} s, not {ticks.seconds(request.run_s)} s"
        yield Finding("run-time", job, start_s, by, said)


_END, _RESERVED, _START = 0, 1, 2


def capacity(runs: Sequence[Run], blocked: Sequence[Blocked], nodes: int) -> Iterator[Finding]:
    """Yield every start at which more nodes are taken than there are; what ends at a time is free for it.

    Where a reservation begins on nodes that jobs have, the job that started last is named.
    """
    changes: list[tuple[int, int, int, int | None]] = []
    for run in runs:
        changes.append((run.start_s, _START, run.request.nodes, run.order))
        changes.append((run.end_s, _END, -run.request.nodes, run.order))
    for each in blocked:
        changes.append((each.start_s, _RESERVED, each.nodes, None))
        changes.append((each.end_s, _END, -each.nodes, None))
    changes.sort(key=lambda change: change[:2])
    by_order = {run.order: run.request.id for run in runs}
    running: dict[int, None] = {}
    busy = kept = 0
    for time_s, kind, change, order in changes:
        if order is None:
            kept += change
        else:
            busy += change
            if kind == _END:
                running.pop(order, None)
            else:
                running[order] = None
        over = busy + kept - nodes
        if kind == _END or over <= 0 or not running:
            continue
        job = by_order[next(reversed(running))]
        if busy > nodes:
            if kind == _START:
                said = f"{busy} of {nodes} nodes are taken"
                yield Finding("capacity", job, time_s, busy - nodes, said)
        else:
            said = f"jobs have {busy} of {nodes} nodes, and {kept} are reserved"
            yield Finding("reservation", job, time_s, over, said)


def places(runs: Sequence[Run], nodes: int) -> Iterator[Finding]:
    """Yield every node that two jobs have at once, and every one that the machine does not have.

    Only where the result names nodes, and then every job whose nodes it does not name. They are numbered
    from 0, or from 1 if no job has node 0.
    """
    named = [run for run in runs if run.places]
    if not named:
        return
    for run in runs:
        if not run.places:
            said = f"its nodes have no numbers, as those of {len(named)} others have"
            yield Finding("unnamed", run.request.id, run.start_s, 0, said)
    first = min(1, min(each.start for run in named for each in run.places))
    changes = [(run.end_s, _END, run) for run in named]
    changes += [(run.start_s, _START, run) for run in named]
    changes.sort(key=lambda change: (change[0], change[1], change[2].order))
    holders: dict[int, int] = {}
    for time_s, kind, run in changes:
        job = run.request.id
        numbers = _within(run.places, nodes + first)
        if kind == _END:
            for number in numbers:
                if holders.get(number) == job:
                    del holders[number]
            continue
        beyond = [each for each in run.places if each.stop > nodes + first]
        if beyond:
            said = f"node {max(beyond[0].start, nodes + first)} of {nodes}, numbered from {first}"
            count = sum(each.stop - max(each.start, nodes + first) for each in beyond)
            yield Finding("outside", job, time_s, count, said)
        shared = [number for number in numbers if number in holders]
        if shared:
            said = f"node {shared[0]} belongs to job {holders[shared[0]]}"
            yield Finding("shared", job, time_s, len(shared), said)
        holders.update(dict.fromkeys(numbers, job))


def _within(places: Sequence[range], behind: int) -> list[int]:
    """Return the numbers below `behind`, each once: a result may name any, and a billion in one word."""
    return list(
        dict.fromkeys(n for each in places for n in range(each.start, min(each.stop, behind)))
    )


def configured(runs: Sequence[Run], topology: PartitionSets) -> Iterator[Finding]:
    """Yield every job whose nodes the machine cannot cut off for it. The machine numbers them from 0."""
    for run in runs:
        if run.mask not in topology.partitions(run.request.nodes):
            said = f"its nodes are no partition for {run.request.nodes}"
            yield Finding("partition", run.request.id, run.start_s, 0, said)


def in_order(runs: Sequence[Run]) -> Iterator[Finding]:
    """Yield every job that starts before one submitted earlier: first come, first served."""
    latest = runs[0]
    for run in runs[1:]:
        if run.start_s < latest.start_s:
            by = latest.start_s - run.start_s
            yield Finding(
                "order", run.request.id, run.start_s, by, f"before job {latest.request.id}"
            )
        else:
            latest = run
