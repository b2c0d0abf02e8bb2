"""Stop a site's process at random instants, let its standby take over, and count what the first one adds.

    python -m tests.postgres.take_over_soak --rounds 100 --seed 7

Customers book, change and cancel all the time, at two sites through a broker; one of the sites has a standby.
In each round its process is stopped (SIGSTOP), the standby takes over, and the first one goes on (SIGCONT)
until it is the standby in turn. The database itself notes which session writes, in order. In the end: no
session has written after its successor's first write, and an auditor finds what customers were told. Prints a
line for each round, and the result as JSON. The exit code is 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.processes.load import faults, load
from tests.processes.site_twins import Twins, is_standby, serving, twins_at
from tests.support import postgres_clusters
from tests.support.postgres_clusters import Cluster, url_of

INSTANT_S_MAX: Final = 1.0
"""A process is stopped within this time after the load has gone on: two beats may lie in it."""

TABLES: Final = ("life", "journal", "stake", "register", "setting", "letter", "booked")

_NOTE: Final = """
create table written (number bigint generated always as identity, session text not null);
create function note_writer() returns trigger language plpgsql as $$
begin
    insert into written (session) select pid || ' ' || backend_start
    from pg_stat_activity where pid = pg_backend_pid();
    return null;
end $$;
"""

_LATE: Final = """
with owners as (
    select session, min(number) as first, max(number) as last from written group by session
), successors as (
    select last, lead(first) over (order by first) as next from owners
) select count(*) filter (where last > next), count(*) from successors
"""


class SoakResult(NamedTuple):
    """`late` owners have written after their successors' first write; `owners` have written at all."""

    rounds: int
    owners: int
    late: int
    bookings: int
    faults: list[str]
    take_over_s_max: float


def note_writers(cluster: Cluster, *, schema: str = "") -> None:
    """Have the database note from now on which session writes."""
    with cluster.connect(schema=schema) as session:
        session.execute(_NOTE.encode())
        for table in TABLES:
            session.execute(
                f"create trigger note_writer after insert or update or delete on {table}"
                " for each statement execute function note_writer()".encode()
            )


def late_owners(cluster: Cluster, *, schema: str = "") -> tuple[int, int]:
    """How many sessions have written after their successors' first write, and how many at all."""
    with cluster.connect(schema=schema) as session:
        row = session.execute(_LATE.encode()).fetchone()
    assert row is not None
    return row[0], row[1]


async def soak(
    directory: Path, cluster: Cluster, rounds: int, seed: int, tell: Callable[[str], None]
) -> SoakResult:
    """Stop and take over `rounds` times."""
    chance = random.Random(seed)
    twins = twins_at(directory, url_of(cluster))
    longest_s = 0.0
    async with serving(twins):
        await asyncio.to_thread(note_writers, cluster)
        async with load(twins.served_by(twins.second)) as at_work:
            for number in range(1, rounds + 1):
                await at_work.more(1)
                # Any instant of a message may be the one.
                await asyncio.sleep(chance.uniform(0, INSTANT_S_MAX))
                taken_s = await _one_round(twins)
                longest_s = max(longest_s, taken_s)
                tell(f"round {number}: taken over in {taken_s:.1f} s")
                twins = twins._replace(first=twins.second, second=twins.first)
            await at_work.more(1)
        found = await faults(twins.served_by(twins.first), at_work)
        bookings = sum(each.counts["booked"] for each in at_work.customers)
    late, owners = late_owners(cluster)
    return SoakResult(rounds, owners, late, bookings, found, round(longest_s, 2))


async def _one_round(twins: Twins) -> float:
    os.kill(twins.first.pid, signal.SIGSTOP)
    try:
        began_s = time.monotonic()
        await twins.second.healthy()
        taken_s = time.monotonic() - began_s
    finally:
        os.kill(twins.first.pid, signal.SIGCONT)
    await is_standby(twins.first)
    return taken_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    print(f"seed {given.seed}", file=sys.stderr)
    with (
        tempfile.TemporaryDirectory(prefix="kalends-soak-") as folder,
        postgres_clusters.cluster(postgres_clusters.shared_template()) as cluster,
    ):
        result = asyncio.run(soak(Path(folder), cluster, given.rounds, given.seed, _tell))
    print(json.dumps(result._asdict()))
    return 1 if result.late or result.faults else 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
