"""Jobs with several implementations, each for other machines, numbers of nodes and run times.

"A job may have multiple implementations and a family of cost functions may be specified." (Weissman and
Grimshaw 1996, section 3.) A cost function is a table here: the time limit on each number of nodes.
The broker alone chooses the implementation for a machine: it asks the site for a place for the one that
would end first there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, structs

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.attributes import Described, matches
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest, JobText
from kalends.core.requests import Attribute

Nodes = Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)]
LimitS = Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]


class Implementation(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One way to run a job: `command` or `script`, on machines that meet `needs`, on any of `sizes`.

    `sizes` are the numbers of nodes, ascending, and `limits_s` the limit in seconds on each. With `speed`,
    the limits hold for a machine whose attribute of this name is 1; a machine with 2 takes half as long, and
    one without the attribute does not fit.
    """

    name: Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))]
    needs: Annotated[tuple[Attribute, ...], Meta(max_length=limits.ATTRIBUTES_MAX)] = ()
    sizes: Annotated[tuple[Nodes, ...], Meta(min_length=1, max_length=limits.JOB_SIZES_MAX)]
    limits_s: Annotated[tuple[LimitS, ...], Meta(min_length=1, max_length=limits.JOB_SIZES_MAX)]
    speed: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.ATTRIBUTE_PATTERN)))] = ""
    command: Annotated[tuple[JobText, ...], Meta(max_length=limits.JOB_ARGUMENTS_MAX)] = ()
    script: Annotated[str, Meta(max_length=limits.JOB_SCRIPT_BYTES_MAX)] = ""

    def table(self) -> dict[int, int]:
        """Return the limit on each number of nodes, for a `speed` of 1."""
        return dict(zip(self.sizes, self.limits_s, strict=False))

    def limits_on(self, attributes: Described, capacity: int) -> dict[int, int]:
        """Return the limit on each number of nodes of such a machine; none if it does not fit."""
        speed = attributes.get(self.speed, 0) if self.speed else 1
        if isinstance(speed, str | bool | tuple) or not 0 < speed < math.inf:
            return {}
        if not matches(attributes, self.needs):
            return {}
        scaled = {nodes: limit_s / speed for nodes, limit_s in self.table().items()}
        return {
            nodes: max(math.ceil(limit_s), 1)
            for nodes, limit_s in scaled.items()
            if nodes <= capacity and limit_s <= limits.DURATION_S_MAX
        }

    def of(self, job: JobRequest, nodes: int, limit_s: int) -> JobRequest:
        """Return `job` as it runs in this implementation."""
        return structs.replace(
            job, implementation=self.name, nodes=nodes, limit_s=limit_s, command=self.command,
            script=self.script,
        )  # fmt: skip


class JobWay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way to run a job on a machine: in `implementation` (a number), on some nodes, with this limit."""

    implementation: Annotated[int, Meta(ge=0, lt=limits.IMPLEMENTATIONS_MAX)]
    nodes: Nodes
    limit_s: LimitS

    def of(self, job: JobRequest, implementations: Sequence[Implementation]) -> JobRequest:
        """Return `job` as it runs in this way. Raises `IndexError`."""
        return implementations[self.implementation].of(job, self.nodes, self.limit_s)


def ways_on(
    implementations: Sequence[Implementation],
    attributes: Described,
    capacity: int,
    share_of: Callable[[str], float] = lambda name: 1.0,
) -> list[JobWay]:
    """Return the ways to run a job on such a machine, the shortest run time first.

    Of equal ones that with the fewest nodes comes first, and then the first implementation. `share_of` gives
    the expected share of its limit that an implementation runs. The waits are not known before the machine's
    queue is asked.
    """
    found = [
        (limit_s * share_of(each.name), nodes, number, limit_s)
        for number, each in enumerate(implementations)
        for nodes, limit_s in each.limits_on(attributes, capacity).items()
    ]
    return [JobWay(number, nodes, limit_s) for _, nodes, number, limit_s in sorted(found)]


def first_to_end(
    job: JobRequest,
    implementations: Sequence[Implementation],
    attributes: Described,
    capacity: int,
    share_of: Callable[[str], float] = lambda name: 1.0,
) -> JobRequest | None:
    """Return `job` in the first of `ways_on` such a machine; None if no implementation fits."""
    ways = ways_on(implementations, attributes, capacity, share_of)
    return ways[0].of(job, implementations) if ways else None


def check_implementations(
    job: JobRequest, implementations: Sequence[Implementation], rank: str = ""
) -> None:
    """Raise `InvalidInput` for two implementations of one name, or for a `job` that contradicts them.

    A script that is to `rank` them needs some.
    """
    if rank and not implementations:
        raise InvalidInput(
            "there is nothing to rank: the job runs in one way only",
            where="rank",
            remedy="give implementations, with several numbers of nodes",
        )
    names = [each.name for each in implementations]
    if len(set(names)) < len(names):
        raise InvalidInput(
            "two implementations have the same name",
            where="implementations",
            remedy="give each another name",
        )
    if implementations and (job.sizes or job.shape):
        raise InvalidInput(
            "a job with implementations cannot have its own sizes or shape",
            where="implementations",
            remedy="give the nodes in each implementation",
        )
    for number, each in enumerate(implementations):
        if len(each.limits_s) != len(each.sizes) or list(each.sizes) != sorted(set(each.sizes)):
            raise InvalidInput(
                "the sizes are not ascending, or lack a limit",
                where=f"implementations[{number}].sizes",
                remedy="write e.g. sizes 1, 2, 4 with three limits",
            )
        for nodes, limit_s in each.table().items():
            try:
                each.of(job, nodes, limit_s).check(from_wire=True)
            except InvalidInput as error:
                error.where = f"implementations[{number}].{error.where}"
                raise
