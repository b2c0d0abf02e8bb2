"""When n nodes are free for so long: asked of a site by `find`, and of its Slurm by `sbatch --test-only`.

    python -m tests.backends.agreement [--probes 1000] [--seed 1]

A Slurm on loopback gets random jobs, reservations of others and bookings of ours, again and again, and both
are asked for the first time that suits. Where the site's answer is the earlier one it is put to the test:
whether Slurm reserves so many nodes for that time. Prints each difference, with what was found; fails if
there are too many, or if the site has offered what Slurm does not give.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from kalends.client.client import Client
from kalends.core.errors import KalendsError
from kalends.demo.clusters.loopback_slurm import why_not
from tests.backends.conformance.owners import CLUSTER, Owners, owners
from tests.backends.conformance.system_at_hand import cleared, until
from tests.backends.operated_slurm import OperatedSlurm
from tests.backends.slurm_at_hand import SlurmAtHand
from tests.support.job_folders import folder_of_jobs

PROBES_A_ROUND: Final = 50
TOLERANCE_S: Final = 60
"""Slurm counts time limits by the minute."""

HOURS: Final = 6
SHARE_MIN: Final = 0.99


class Answers(NamedTuple):
    """For `nodes` for `minutes` from `since` on: the first start that each says (seconds UTC); 0 for none."""

    nodes: int
    minutes: int
    since: int
    site: int
    slurm: int

    @property
    def agree(self) -> bool:
        """Later starts than the first that is asked for Slurm does not look for with care."""
        same = abs(self.site - self.slurm) <= TOLERANCE_S
        return same or self.since not in (self.site, self.slurm)

    def __str__(self) -> str:
        said = ["never" if not at else f"{at - self.since:+d} s" for at in (self.site, self.slurm)]
        return f"{self.nodes} nodes for {self.minutes} min: site {said[0]}, Slurm {said[1]}"


@dataclass
class Agreement:
    """How often both said the same, and what was found out where they did not."""

    probes: int = 0
    agreed: int = 0
    slurm_errs: list[Answers] = field(default_factory=list)
    """Slurm reserves it when the site says so, and not when it says so itself, or later."""
    site_errs: list[Answers] = field(default_factory=list)
    """Slurm does not reserve it when the site says so, or does at the earlier time that it says itself."""

    @property
    def share(self) -> float:
        return self.agreed / self.probes


async def asked(facility: Owners, slurm: SlurmAtHand, probes: int, seed: int) -> Agreement:
    """Ask both `probes` times, over a Slurm that is filled anew for every fifty of them."""
    chance, found = random.Random(seed), Agreement()
    async with facility.client() as ann:
        while found.probes < probes:
            booked = await _fill(ann, slurm, chance)
            await _looked_at(ann)
            count = min(PROBES_A_ROUND, probes - found.probes)
            answers = [await _probe(ann, slurm, chance) for _ in range(count)]
            found.probes += count
            found.agreed += sum(each.agree for each in answers)
            for each in answers:  # Not before all are asked: the site would see what is tried here.
                if not each.agree:
                    right = await _is_right(slurm, each)
                    (found.slurm_errs if right else found.site_errs).append(each)
            await _empty(ann, slurm, booked)
    return found


async def _looked_at(ann: Client) -> None:
    """Return when the site has seen all that is at its Slurm by now."""
    now_s = int(time.time())

    async def looked() -> bool:
        return (await ann.calendar(CLUSTER, end="now+1h")).as_of > now_s

    await until(looked, "the site does not look at its Slurm")


async def _probe(ann: Client, slurm: SlurmAtHand, chance: random.Random) -> Answers:
    nodes, minutes = chance.randrange(1, 5), chance.randrange(5, 180)
    since = ann.time_s("now") + 60 * chance.randrange(1, 60 * HOURS)
    slots = await ann.find(
        f"{CLUSTER}:{nodes}", window=(since, since + 24 * 3_600), duration=f"{minutes}m"
    )
    site = min((each.start for each in slots.candidates), default=0)
    return Answers(nodes, minutes, since, site, await slurm.would_start(nodes, minutes, since))


async def _is_right(slurm: SlurmAtHand, answers: Answers) -> bool:
    """Whether the site's answer holds where Slurm's differs: Slurm itself says, by what it reserves."""
    site, said = answers.site, answers.slurm
    if not site or not await slurm.reserves(answers.nodes, site, answers.minutes):
        return False
    return not said or said > site or not await slurm.reserves(answers.nodes, said, answers.minutes)


async def _fill(ann: Client, slurm: SlurmAtHand, chance: random.Random) -> list[str]:
    """Run jobs, reserve nodes for others, and book some; return the bookings."""
    now_s = ann.time_s("now")
    free = list(slurm.nodes)
    chance.shuffle(free)
    for _ in range(chance.randrange(4)):
        nodes = [free.pop() for _ in range(min(chance.randrange(1, 3), len(free)))]
        if nodes:
            await slurm.run(nodes, 60 * chance.randrange(5, 240))
    for number in range(chance.randrange(5)):
        start = now_s + 60 * chance.randrange(10, 60 * HOURS)
        nodes = chance.sample(slurm.nodes, chance.randrange(1, 4))
        with contextlib.suppress(subprocess.CalledProcessError):  # Where something is already.
            await slurm.reserve(
                f"theirs-{number}", nodes, start, start + 60 * chance.randrange(10, 120)
            )
    booked = []
    for _ in range(chance.randrange(3)):
        start = now_s + 60 * chance.randrange(10, 60 * HOURS)
        terms = f"{CLUSTER}:{chance.randrange(1, 4)}"
        with contextlib.suppress(KalendsError):
            made = await ann.book(terms, at=start, duration=f"{chance.randrange(10, 120)}m")
            booked.append(made.id)
    return booked


async def _empty(ann: Client, slurm: SlurmAtHand, booked: list[str]) -> None:
    for each in booked:
        await ann.cancel(each)
    await slurm.cancel_all()
    for reservation in (await slurm.adapter.state()).reservations:
        with contextlib.suppress(subprocess.CalledProcessError):
            await slurm.delete(reservation.name)


async def _measured(top: Path, probes: int, seed: int) -> Agreement:
    (top / "slurm").mkdir(mode=0o755)
    with OperatedSlurm(top / "slurm", 4) as cluster:
        slurm = SlurmAtHand(cluster, top / "slurm")
        async with cleared(slurm), owners(top, slurm) as facility:
            return await asked(facility, slurm, probes, seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--probes", type=int, default=1_000, help="how often both are asked")
    parser.add_argument("--seed", type=int, default=1, help="what the Slurm is filled with")
    options = parser.parse_args()
    if why := why_not():
        print(why, file=sys.stderr)
        return 2
    with folder_of_jobs("kalends-agree-") as name:
        top = Path(name)
        top.chmod(0o755)  # Slurm's daemons are let in whoever they run as.
        found = asyncio.run(_measured(top, options.probes, options.seed))
    for what, told in (("Slurm errs", found.slurm_errs), ("the site errs", found.site_errs)):
        for each in told:
            print(f"{what}: {each}")
    print(f"{found.agreed} of {found.probes} agree: {found.share:.1%}")
    return 0 if found.share >= SHARE_MIN and not found.site_errs else 1


if __name__ == "__main__":
    sys.exit(main())
