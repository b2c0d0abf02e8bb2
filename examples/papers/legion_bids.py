"""Weissman and Grimshaw 1996: sites bid for jobs. How many, and which, should be asked?

    python examples/papers/legion_bids.py [--sites 10,100] [--jobs 10000] [--seeds 3] [--table locks]
        [--quick] [--json]

"A metric that relates the computation weight to k needs to be developed. A secondary issue is which subset
of k sites ought to be selected?" (Section 4.3.) The paper has no figures; here are ours, with what brokers of
kalends decide by, before real queues under conservative backfilling, in virtual time: Poisson arrivals at
80 % load, a third power of chance for homes (few bring most jobs), round trips around 80 ms, each broker
knows 64 other sites, and how fast they are; but in the last table, where it learns that. A row is the mean of
so many seeds.
"""

from __future__ import annotations

import argparse
import gc
import json
import tracemalloc
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, Final

from bid_brokers import Setting
from bid_locks import LOCKS
from bid_world import BidWorld

from kalends.core.intervals import Moment
from kalends.federation.answer_delays import ANSWERS_KEPT
from kalends.federation.experience import Experience
from kalends.federation.told_waits import DAY_HOURS, HOUR_S

SITES: Final = (10, 100, 1_000, 10_000)
JOBS: Final = 8_000
COMPARED_SITES: Final = 300
LEARNING_SITES: Final = 100
AWAY: Final = 0.1
"""The share of sites that are cut off at any time, where sites are."""

CHOICES: Final = ("random", "waits", "history", "shipped")
FEW: Final = 3.0
FEWER: Final = 12.0
"""Powers of chance by which homes are drawn: of 300, 20 bring 41 % of all jobs, or 80 %."""
BREADTHS: Final = ("2", "4", "8", "16", "weight", "time", "all")
BURSTS: Final = (1, 20, 100)
RUN_TIMES: Final = ("limits", "learned", "true")
TABLES: Final = ("scale", "choice", "breadth", "bursts", "locks", "learning")
WORDS: Final = {
    "waits": "waits, and one at random",
    "shipped": "history, and one at random",
    "weight": "by weight",
    "time": "by time",
    "all": "all that are known",
    "learned": "learned of a user's jobs at a site",
    "true": "known beforehand",
}
COLUMNS: Final = (
    ("asked", "asked_per_job", ".1f"),
    ("messages", "messages_per_job", ".1f"),
    ("p50 ms", "answer_p50_ms", ".0f"),
    ("p99 ms", "answer_p99_ms", ".0f"),
    ("told p50", "promise_p50_ms", ".0f"),
    ("told p99", "promise_p99_ms", ".0f"),
    ("wait s", "wait_s", ".0f"),
    ("light s", "light_wait_s", ".0f"),
    ("response", "response_s", ".0f"),
    ("heavy", "heavy_response", ".2f"),
    ("herd", "herd", ".2f"),
    ("late", "late_places", ".0f"),
    ("15 min", "very_late_places", ".0f"),
    ("of", "places", ".0f"),
)
LEGEND: Final = """
asked: sites asked per job; messages: of all kinds per job; p50 and p99: until it is known whose bid is
best, and until that site has promised (told); wait: mean wait of all jobs, and of light ones (at most 10
minutes); response: mean of wait and run time; heavy: response of jobs above an hour over their run time on
nodes of speed 1; herd: share of all questions that the busiest tenth of the sites gets; late: places that
began after the start that was told, and more than 15 minutes after it"""


def measured(settings: Sequence[Setting]) -> dict[str, Any]:
    """The mean figures of settings that differ in their seeds; counts are added up."""
    found = [BidWorld(setting).run().figures() for setting in settings]
    counts = {
        "late_places",
        "very_late_places",
        "decided_late",
        "rounds_in_vain",
        "votes_in_vain",
        "late_bids",
    }
    row: dict[str, Any] = dict(settings[0]._asdict())
    row["seeds"] = [setting.seed for setting in settings]
    del row["seed"]
    for name in found[0]:
        values = [each[name] for each in found]
        row[name] = sum(values) if name in counts else fmean(values)
    row["places"] = sum(setting.jobs for setting in settings)
    return row


def bytes_of_a_site(sites: int = 1_000) -> float:
    """What a broker keeps in memory of each site, once it has learned all that it can."""
    names = [f"site{number:05}" for number in range(sites)]
    tracemalloc.start()
    known = Experience()
    for turn in range(max(ANSWERS_KEPT, DAY_HOURS)):
        now = Moment(1_000 * HOUR_S * turn, 1_000 * HOUR_S * turn)
        for number, name in enumerate(names):
            known.bid(name, 80.0 + number + turn, 60.0 + number + turn, now)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / sites


def figures(
    tables: Sequence[str], sites: Sequence[int], compared: int, jobs: int, seeds: Sequence[int]
) -> dict[str, Any]:
    def row(**fields: Any) -> dict[str, Any]:
        return measured([Setting(jobs=jobs, seed=seed, **fields) for seed in seeds])

    rows: dict[str, Iterator[dict[str, Any]]] = {
        "scale": (row(sites=each, away=AWAY) for each in sites),
        "choice": (
            row(sites=compared, choice=choice, breadth=breadth, skew=skew)
            for breadth, skew in (("4", FEW), ("weight", FEW), ("4", FEWER))
            for choice in CHOICES
        ),
        "breadth": (row(sites=compared, breadth=breadth) for breadth in BREADTHS),
        "bursts": (row(sites=compared, burst=burst, away=AWAY) for burst in BURSTS),
        "locks": (
            row(sites=compared, lock=lock, breadth="4", burst=burst)
            for burst in BURSTS
            for lock in LOCKS
        ),
        "learning": (
            row(sites=min(compared, LEARNING_SITES), padded=True, run_times=each)
            for each in RUN_TIMES
        ),
    }
    found: dict[str, Any] = {name: list(rows[name]) for name in tables}
    return {**found, "bytes_of_a_site": bytes_of_a_site()}


def lines(found: dict[str, Any]) -> Iterator[str]:
    titles = (
        ("scale", f"Sites, {AWAY:.0%} of them cut off at any time", "sites"),
        ("choice", "Which sites are asked", "choice"),
        ("breadth", "How many are asked", "breadth"),
        ("bursts", f"Jobs that are submitted together, {AWAY:.0%} of the sites cut off", "burst"),
        ("locks", "What a bid holds, k = 4", "lock"),
        ("learning", "Run times that are compared, where users know no speeds", "run_times"),
    )
    for name, title, field in titles:
        if not (rows := found.get(name)):
            continue
        compared = "" if field == "sites" else f"; {rows[0]['sites']} sites"
        yield f"{title}{compared}; {rows[0]['jobs']} jobs, {len(rows[0]['seeds'])} seeds"
        yield f"{field:<44}" + "".join(f"{head:>9}" for head, _, _ in COLUMNS)
        for row in rows:
            label = WORDS.get(str(row[field]), str(row[field]))
            if field == "choice":
                label += f", {WORDS.get(row['breadth'], row['breadth'])}"
                label += ", fewer homes" if row["skew"] == FEWER else ""
            if field == "lock":
                label += f", {row['burst']} at once"
            yield f"{label:<44}" + "".join(f"{row[key]:>9{form}}" for _, key, form in COLUMNS)
        yield ""
    yield f"A broker keeps {found['bytes_of_a_site']:.0f} bytes of each site that it knows."
    yield from LEGEND.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", default=",".join(map(str, SITES)), help="of the first table")
    parser.add_argument(
        "--jobs", type=int, default=JOBS, help="of each run; the first 30 %% warm up"
    )
    parser.add_argument("--seed", type=int, default=1996, help="the first one")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each row")
    parser.add_argument("--table", choices=TABLES, help="only this one (default: all)")
    parser.add_argument("--quick", action="store_true", help="10 and 40 sites, 300 jobs, one seed")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    arguments = parser.parse_args()
    if arguments.jobs < 100:
        parser.error("--jobs must be 100 or more")
    # Ten thousand queues are a million objects, and stay to the end.
    gc.set_threshold(50_000, 20, 50)
    tables = (arguments.table,) if arguments.table else TABLES
    if arguments.quick:
        found = figures(tables, (10, 40), 40, 300, (arguments.seed,))
    else:
        sites = [int(each) for each in arguments.sites.split(",")]
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        found = figures(tables, sites, COMPARED_SITES, arguments.jobs, seeds)
    print(json.dumps(found, indent=1) if arguments.json else "\n".join(lines(found)))


if __name__ == "__main__":
    main()
