"""Whatever becomes of jobs: each that asked for it is told of once, and arrays as a whole, over restarts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from kalends.batch.queue import facts as f
from kalends.batch.queue.checkpoint import decode_state, encode_state
from kalends.batch.queue.milestones import Milestone
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest, Notify, Occasion
from kalends.core.principals import Principal

NOW = 1_800_000_000
ENDINGS = (
    f.JobEnding(kind="exit"),
    f.JobEnding(kind="exit", status=3),
    f.JobEnding(kind="limit"),
    f.JobEnding(kind="lost"),
)
OCCASIONS: tuple[Occasion, ...] = ("begin", "end", "fail")

notices = st.builds(
    Notify, when=st.lists(st.sampled_from(OCCASIONS), min_size=1, unique=True).map(tuple),
    each=st.booleans(),
)  # fmt: skip
requests = st.builds(
    JobRequest, machine=st.just("lab/box"), limit_s=st.just(60), command=st.just(("true",)),
    nodes=st.integers(1, 3), rerun=st.booleans(), held=st.sampled_from((False, False, True)),
    indices=st.sampled_from(((), (), (5, 6, 7))), notify=st.none() | notices,
)  # fmt: skip
steps = st.tuples(
    st.sampled_from(("begin", "begin", "end", "end", "cancel", "restart", "checkpoint")),
    st.integers(0, 99),
    st.sampled_from(ENDINGS),
)


class Chronicle:
    """A queue, what it says that users are to be told, and what they should be told by its facts alone."""

    def __init__(self) -> None:
        self.queue = BatchQueue("lab/box", f.Terms(machine="pool:4"), NOW)
        self.store: list[f.JournalEntry] = []
        self.told: Counter[tuple[int, str]] = Counter()
        self.state = b""

    def gather(self) -> None:
        effects = self.queue.take_effects()
        self.store += effects.entries
        self.told.update(subject_of(each) for each in effects.milestones)

    def step(self, what: str, which: int, ending: f.JobEnding) -> None:
        jobs = list(self.queue.flow.table)
        job = jobs[which % len(jobs)] if jobs else None
        if what == "restart":
            known = decode_state(self.state) if self.state else None
            behind = self.store[known.number if known else 0 :]
            self.queue = BatchQueue("lab/box", None, NOW, behind, known=known)
        elif what == "checkpoint":
            self.state = encode_state(self.queue.state)
        elif job is not None and what == "begin" and job.on_nodes:
            self.queue.begun(job.number, job.attempt, NOW)
        elif job is not None and what == "end" and job.on_nodes:
            self.queue.begun(job.number, job.attempt, NOW)
            self.queue.ended(job.number, job.attempt, ending, NOW)
        elif job is not None and what == "cancel":
            self.queue.cancel(job.number, "by ann", NOW)
        self.gather()

    def expected(self) -> Counter[tuple[int, str]]:
        """The slow twin: reads all facts again from the first one, for each submission."""
        expected: Counter[tuple[int, str]] = Counter()
        facts = [entry.said for entry in self.store]
        for fact in facts:
            if isinstance(fact, f.JobSubmitted) and fact.request.notify is not None:
                indices = fact.request.indices or (0,)
                numbers = range(fact.first, fact.first + len(indices))
                whole = bool(fact.request.indices) and not fact.request.notify.each
                for group in [numbers] if whole else [[each] for each in numbers]:
                    expected += of_group(facts, list(group), fact.request.notify, whole)
        return expected


def of_group(
    facts: list[f.AnyFact], numbers: list[int], notify: Notify, whole: bool
) -> Counter[tuple[int, str]]:
    """What is to be told of jobs as one."""
    begins = sum(isinstance(each, f.JobBegun) and each.job in numbers for each in facts)
    ends: dict[int, bool] = {}
    for each in facts:
        if isinstance(each, f.JobWithdrawn) and each.job in numbers:
            ends[each.job] = False
        elif isinstance(each, f.JobEnded) and each.job in numbers:
            ends[each.job] = each.ending.succeeded
        elif isinstance(each, f.JobBegun) and each.job in ends:
            del ends[each.job]  # It has run again: that was not its end.
    expected: Counter[tuple[int, str]] = Counter()
    if "begin" in notify.when and begins:
        expected[numbers[0], "begin"] = 1 if whole else begins
    if len(ends) == len(numbers):
        if not all(ends.values()) and "fail" in notify.when:
            expected[numbers[0], "fail"] = 1
        elif "end" in notify.when:
            expected[numbers[0], "end"] = 1
    return expected


def subject_of(milestone: Milestone) -> tuple[int, str]:
    job = milestone.job
    return (job.array if milestone.array is not None else job.number), milestone.occasion


@settings(max_examples=examples(200), deadline=None)
@given(
    jobs=st.lists(requests, min_size=1, max_size=5), middle=st.lists(steps, max_size=40),
    endings=st.lists(st.sampled_from(ENDINGS[:3]), min_size=1, max_size=5),
)  # fmt: skip
def test_each_is_told_of_what_it_asked_for_and_once(
    jobs: list[JobRequest], middle: list[tuple[str, int, f.JobEnding]], endings: list[f.JobEnding]
) -> None:
    chronicle = Chronicle()
    for number, job in enumerate(jobs):
        chronicle.queue.submit(Principal("ann"), job, f"the-key-{number}", NOW)
        chronicle.gather()
    for each in middle:
        chronicle.step(*each)
    turn = 0
    while jobs_left := list(chronicle.queue.flow.table):
        runs = [number for number, job in enumerate(jobs_left) if job.on_nodes]
        what = "end" if runs else "cancel"
        chronicle.step(what, runs[0] if runs else 0, endings[turn % len(endings)])
        turn += 1
    assert chronicle.told == chronicle.expected()
    assert not len(chronicle.queue.flow.milestones), "what is over is kept"
