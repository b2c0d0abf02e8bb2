"""Readers of the XML of Grid Engine's commands; they raise `SystemSilent` for unreadable output.

Truncated XML is invalid, and each listing has a root of its own. So neither half a listing nor that of
another command is mistaken for one in which something is missing. Times are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import SystemJob, SystemReservation, UnwellNode

T = TypeVar("T")

_NO_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Users choose names of jobs, and Grid Engine prints any characters."""

_START: Final = re.compile(r"^start time:.*\(([0-9]+)\)$", re.MULTILINE)
_RUN: Final = re.compile(r"^run time \[s\]:\s*([0-9]+)$", re.MULTILINE)
_VERSION: Final = re.compile(r"^((?:SGE|UGE|OGS|OCS|GE)[A-Za-z/]* [0-9][\w.]{0,31})$", re.MULTILINE)
_CLOCK_TIME: Final = re.compile(r"([0-9]+):([0-9]{2}):([0-9]{2})")

JUST_BEGUN_S: Final = 60
"""A master that started less than this ago may not have heard from all its hosts."""


class MasterClock(NamedTuple):
    """The time of the master's clock, and the master's start by that clock."""

    now_s: int
    boot_s: int

    @property
    def has_just_begun(self) -> bool:
        return self.now_s - self.boot_s < JUST_BEGUN_S


class Queue(NamedTuple):
    """An instance of the queue, on one host."""

    node: str
    slots: int
    state: str
    limit_s: int | None
    """The time limit of its jobs; None if there is none."""

    @property
    def is_left_over(self) -> bool:
        """Whether its host has left the queue: it stays listed for its remaining reservations and jobs."""
        return "o" in self.state


class AdvanceReservation(NamedTuple):
    """An advance reservation, identified by its number; several may have the same name."""

    number: int
    state: str
    name: str
    start: int
    end: int
    slots: dict[str, int]
    """By node."""
    users: tuple[str, ...]


def clock(text: str) -> MasterClock:
    """Return the clock of ``qping -info``."""
    start, run = _START.search(text), _RUN.search(text)
    if start is None or run is None:
        raise SystemSilent("qping -info shows no start time")
    return MasterClock(int(start.group(1)) + int(run.group(1)), int(start.group(1)))


def version(text: str) -> str:
    """Return the version, from ``qstat -help``; "" if it shows none."""
    found = _VERSION.search(text)
    return f"Grid Engine ({found.group(1)})" if found is not None else ""


def queues(text: str, queue: str) -> dict[str, Queue]:
    """Return the instances of `queue` from ``qstat -f -F h_rt -xml``, by node."""
    found = _each(text, "job_info", "queue_info/Queue-List", _queue)
    return {one.node: one for name, one in found if name == queue}


def _queue(element: Element) -> tuple[str, Queue]:
    name, _, node = _text(element, "name").partition("@")
    if not node:
        raise ValueError("no host")
    limits = [each.text or "" for each in element.findall("resource") if each.get("name") == "h_rt"]
    slots = int(_text(element, "slots_total"))
    return name, Queue(node, slots, element.findtext("state", ""), _limit_s(*limits))


def _limit_s(text: str) -> int | None:
    """Return a time limit as Grid Engine writes it: ``infinity``, ``600`` or ``1:00:00``."""
    if text.lower() in ("infinity", "none"):
        return None
    parts = _CLOCK_TIME.fullmatch(text)
    if parts is None:
        return int(float(text))
    hours, minutes, seconds = map(int, parts.groups())
    return (hours * 60 + minutes) * 60 + seconds


def reservation_numbers(text: str) -> dict[int, str]:
    """Return the names of all reservations from ``qrstat -xml``, by number."""
    return dict(
        _each(text, "qrstat", "ar_summary", lambda e: (int(_text(e, "id")), _text(e, "name")))
    )


def reservations(text: str) -> list[AdvanceReservation]:
    """Return the reservations of ``qrstat -ar NUMBERS -xml``, which also lists unknown numbers."""
    return _each(text, "qrstat", "ar_summary", _reservation, besides="ar_unknown")


def _reservation(element: Element) -> AdvanceReservation:
    slots: dict[str, int] = {}
    for each in element.findall("granted_slots_list/granted_slots"):
        node = each.attrib["queue_instance"].partition("@")[2]
        slots[node] = slots.get(node, 0) + int(each.attrib["slots"])
    return AdvanceReservation(
        number=int(_text(element, "id")),
        state=_text(element, "state"),
        name=_text(element, "name"),
        start=_time_s(_text(element, "start_time")),
        end=_time_s(_text(element, "end_time")),
        slots=slots,
        users=tuple(sorted(each.attrib["user"] for each in element.findall("acl_list/acl"))),
    )


def as_told(found: Collection[AdvanceReservation], known: Mapping[str, Queue]) -> SystemReservation:
    """Return all reservations of one name as one, with the faults that make it broken."""
    first = min(found)
    broken = f"there are {len(found)} of its name" if len(found) > 1 else ""
    for node, slots in first.slots.items():
        queue = known.get(node)
        if queue is None or queue.is_left_over:
            broken = f"{node} has left the queue"
        elif slots < queue.slots:
            broken = f"others may have {queue.slots - slots} of the {queue.slots} slots of {node}"
    return SystemReservation(
        name=first.name,
        start=min(each.start for each in found),
        end=max(each.end for each in found),
        nodes=tuple(sorted({node for each in found for node in each.slots})),
        users=first.users,
        broken=broken,
    )


def running_jobs(
    text: str, known: Mapping[str, Queue], in_reservation: Mapping[int, str]
) -> Iterator[SystemJob]:
    """Yield the jobs of ``qstat -s rs -g t -r -xml``: it has a line for each slot, thus several for a job."""
    tasks: dict[str, SystemJob] = {}
    for number, id_, node, owner, start, asked_s in _each(
        text, "job_info", "queue_info/job_list", _slot
    ):
        queue = known.get(node)
        limit_s = asked_s if asked_s is not None or queue is None else queue.limit_s
        one = tasks.get(id_)
        tasks[id_] = SystemJob(
            id=id_,
            user=owner,
            nodes=tuple(sorted({node, *(one.nodes if one is not None else ())})),
            start=start,
            end=None if limit_s is None else start + limit_s,
            reservation=in_reservation.get(number, ""),
        )
    yield from tasks.values()


def _slot(element: Element) -> tuple[int, str, str, str, int, int | None]:
    number = int(_text(element, "JB_job_number"))
    task = element.findtext("tasks", "")
    limits = [e.text or "" for e in element.findall("hard_request") if e.get("name") == "h_rt"]
    node = _text(element, "queue_name").partition("@")[2]
    return (
        number,
        f"{number}.{task}" if task else str(number),
        node,
        _text(element, "JB_owner"),
        _time_s(_text(element, "JAT_start_time")),
        _limit_s(*limits) if limits else None,
    )


def job_numbers(text: str) -> list[int]:
    """Return the numbers of all jobs in ``qstat -xml``, each once."""
    waiting = _each(text, "job_info", "job_info/job_list", lambda e: int(_text(e, "JB_job_number")))
    running = _each(
        text, "job_info", "queue_info/job_list", lambda e: int(_text(e, "JB_job_number"))
    )
    return sorted({*waiting, *running})


def reservations_of_jobs(text: str) -> dict[int, int]:
    """Return the reservations in which jobs are, by job, from ``qstat -j NUMBERS -xml``."""
    if "<unknown_jobs" in text and "<detailed_job_info" not in text:
        return {}  # All jobs have ended since the listing.
    found = _each(
        text,
        "detailed_job_info",
        "djob_info/element",
        lambda e: (int(_text(e, "JB_job_number")), int(e.findtext("JB_ar", "0"))),
    )
    return {job: reservation for job, reservation in found if reservation}


def unwell(known: Mapping[str, Queue], *, just_begun: bool) -> tuple[UnwellNode, ...]:
    """Return the nodes that are out of order; a high load is not a fault."""
    found = []
    for node in sorted(known):
        state = known[node].state
        if "u" in state:
            found.append(
                UnwellNode(node, "unknown" if just_begun else "down", "it has not reported")
            )
        elif set(state) & set("EcC"):
            found.append(UnwellNode(node, "down", f"its queue is in state {state}"))
        elif set(state) & set("dDsS"):
            found.append(UnwellNode(node, "drained", f"its queue is in state {state}"))
    return tuple(found)


def _time_s(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp())


def _text(element: Element, path: str) -> str:
    found = element.findtext(path)
    if not found:
        raise ValueError(f"no {path}")
    return found


def _each(
    text: str, root: str, path: str, read: Callable[[Element], T], *, besides: str = ""
) -> list[T]:
    """Return the results of `read` for all elements at `path` below a `root`.

    Their parent has no other elements, except those named in `besides`.
    """
    if "<!" in text:  # Declarations could expand to a huge text; Grid Engine prints none.
        raise SystemSilent(f"a listing that cannot be read: {text[:200]!r}")
    try:
        tree = ElementTree.fromstring(_NO_XML.sub("?", text))
        if tree.tag != root:
            raise ValueError(f"a {tree.tag[:40]}")
        above, _, wanted = path.rpartition("/")
        found = [element for place in tree.findall(above or ".") for element in place]
        if any(element.tag not in (wanted, besides) for element in found):
            raise ValueError(f"no list of {wanted}")
        return [read(element) for element in found if element.tag == wanted]
    except (ElementTree.ParseError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise SystemSilent(
            f"a listing of {root} that cannot be read ({error}): {text[-200:]!r}"
        ) from error
