"""Moldable and malleable jobs of a log, and their run times on other sizes, from a JSON file.

    {"jobs": {"17": {"sizes": [4, 8], "times": [400, 220], "malleable": true, "iterations": 100,
                     "every": 5, "reconfiguration_s": 11, "redistribution_s": 6}},
     "classes": [{"sizes": [1, 2, 4], "times": [100, 53, 30]}]}

Log and file speak of run times on sizes: a job's own time is that of the log, on the nodes that it has
there; `times` say how it is on the others, and only their ratios count. A job that is not named under
`jobs`, by its number, belongs to the first class that has its nodes among the `sizes`; it stays rigid if
there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.limits import TIME_S_MAX, UNITS_MAX
from kalends.simulation.job import SimulatedJob
from kalends.simulation.malleable import Course, MalleableJob

BYTES_MAX: Final = 64 * 1024 * 1024
SIZES_MAX: Final = 1024

_Count = Annotated[int, msgspec.Meta(ge=1, le=UNITS_MAX)]
_Time = Annotated[int, msgspec.Meta(ge=1, le=TIME_S_MAX)]
_Cost = Annotated[int, msgspec.Meta(ge=0, le=TIME_S_MAX)]


class SpeedUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Relative run times of jobs on some sizes, and whether they change on the way."""

    sizes: Annotated[tuple[_Count, ...], msgspec.Meta(min_length=1, max_length=SIZES_MAX)]
    times: tuple[_Time, ...]
    malleable: bool = False
    iterations: _Count = 1
    """Equal parts of a malleable job; it can change before every `every`-th of them."""
    every: _Count = 1
    reconfiguration_s: _Cost = 0
    redistribution_s: _Cost = 0

    def course(self, run_s: int, nodes: int) -> Course:
        """Return the course of a job that takes `run_s` on `nodes`, one of the sizes. Rounded up."""
        reference = self.times[self.sizes.index(nodes)]
        return Course(
            sizes=self.sizes,
            solution_s=tuple(-(-run_s * time // reference) for time in self.times),
            iterations=self.iterations,
            every=self.every,
            reconfiguration_s=self.reconfiguration_s,
            redistribution_s=self.redistribution_s,
        )

    def check(self) -> None:
        """Raises `InvalidInput` if it makes no sense for any job."""
        if len(self.times) != len(self.sizes):
            raise InvalidInput(
                f"{len(self.times)} times for {len(self.sizes)} sizes",
                where="times",
                remedy="give one time for each size",
            )
        self.course(1, self.sizes[0])


class SpeedUps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that one file says; `apply` it to the jobs of a log."""

    jobs: dict[int, SpeedUp] = {}
    classes: tuple[SpeedUp, ...] = ()

    def of(self, job: SimulatedJob) -> SpeedUp | None:
        """Return the speed-up of a job. Raises `InvalidInput` if the file names the job, but not its size."""
        named = self.jobs.get(job.id)
        if named is None:
            return next((each for each in self.classes if job.nodes in each.sizes), None)
        if job.nodes not in named.sizes:
            raise InvalidInput(
                f"the job has {job.nodes} nodes in the log, and no time for that size",
                where=f"speed-ups, job {job.id}",
                remedy=f"add {job.nodes} to its sizes",
            )
        return named

    def apply(self, jobs: Iterable[SimulatedJob]) -> Iterator[SimulatedJob]:
        """Yield the same jobs, in their order, those moldable or malleable that the file says are. Streams.

        A moldable job asks for its smallest size until a policy chooses another one. On every size its
        requested time exceeds its run time by the same ratio as in the log.
        """
        for job in jobs:
            speed_up = self.of(job)
            yield job if speed_up is None else _moldable(job, speed_up)


def _moldable(job: SimulatedJob, speed_up: SpeedUp) -> MalleableJob:
    course = speed_up.course(job.run_s, job.nodes)
    molds = course.molds(malleable=speed_up.malleable)
    molds = msgspec.structs.replace(
        molds,
        requested_s=tuple(
            -(-time_s * job.requested_s // job.run_s) for time_s in molds.requested_s
        ),
    )
    fields = {name: getattr(job, name) for name in SimulatedJob.__struct_fields__}
    fields.update(
        nodes=molds.sizes[0], requested_s=molds.requested_s[0], molds=molds, course=course
    )
    return MalleableJob(**fields)


def read_speed_ups(path: Path | str) -> SpeedUps:
    """Read a file of speed-ups. Raises `InvalidInput` with the place in it; it is all or nothing."""
    file = Path(path)
    remedy = "see docs/papers/drms.md for a file that is right"
    try:
        with file.open("rb") as stream:
            content = stream.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            getattr(error, "strerror", None) or str(error) or "cannot be read",
            where=str(file),
            remedy="give a file that can be read",
        ) from error
    if len(content) > BYTES_MAX:
        raise InvalidInput(
            "is too large", where=str(file), remedy=f"give at most {BYTES_MAX} bytes"
        )
    try:
        found = msgspec.json.decode(content, type=SpeedUps)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(error), where=str(file), remedy=remedy) from error
    named = [(f"job {number}", each) for number, each in found.jobs.items()]
    named += [(f"class {number}", each) for number, each in enumerate(found.classes, 1)]
    for name, each in named:
        try:
            each.check()
        except InvalidInput as error:
            raise InvalidInput(
                error.detail, where=f"{file}, {name}, {error.where}", remedy=error.remedy
            ) from error
    return found
