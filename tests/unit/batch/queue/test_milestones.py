"""Users are told what they want to know of their jobs, once, and of an array as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.job_delivery import job_delivery
from kalends.batch.place_keys import key_of_place
from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest, Notify
from kalends.core.principals import Principal
from kalends.notices.delivery import Delivery

NOW = 1_800_000_000
ANN = Principal("ann")
ALL = Notify(when=("begin", "end", "fail"))
DONE = f.JobEnding(kind="exit")
FAILED = f.JobEnding(kind="exit", status=2)


class Hall:
    """A queue of four nodes, and the deliveries about what happens there."""

    def __init__(self) -> None:
        self.queue = BatchQueue("lab/box", f.Terms(machine="pool:4"), NOW)
        self.now = NOW
        self.entries: list[f.JournalEntry] = []

    def submit(self, notify: Notify | None = ALL, **more: Any) -> int:
        fields = {"limit_s": 60, "command": ("true",), "notify": notify, **more}
        job = JobRequest(machine="lab/box", **fields)
        return self.queue.submit(ANN, job, f"key-{self.queue.next_number}", self.now)[0]

    def begin(self, number: int) -> None:
        self.queue.begun(number, self.queue.job(number).attempt, self.now)

    def end(self, number: int, ending: f.JobEnding = DONE) -> None:
        self.queue.ended(number, self.queue.job(number).attempt, ending, self.now)

    def deliveries(self) -> list[Delivery]:
        """The deliveries about what has happened since the last call."""
        effects = self.queue.take_effects()
        self.entries += effects.entries
        return [
            job_delivery("lab/box", each, "ann@example.org", self.now)
            for each in effects.milestones
        ]

    def subjects(self) -> list[str]:
        return [each.subject for each in self.deliveries()]

    def restart(self) -> None:
        self.deliveries()
        self.queue = BatchQueue("lab/box", None, self.now, self.entries)


@pytest.fixture
def hall() -> Hall:
    return Hall()


def test_a_job_that_begins_and_ends_is_told_of_twice(hall: Hall) -> None:
    number = hall.submit(name="solver")
    assert hall.subjects() == [], "waiting is no news"
    hall.begin(number)
    assert hall.subjects() == ["lab/box/1 (solver) has begun"]
    hall.end(number)
    assert hall.subjects() == ["lab/box/1 (solver) has ended: exit"]


@pytest.mark.parametrize(
    ("when", "ending", "told"),
    [
        (("end", "fail"), FAILED, ["lab/box/1 has failed: exit 2"]),
        (("end",), FAILED, ["lab/box/1 has ended: exit 2"]),
        (("fail",), DONE, []),
        (("fail",), f.JobEnding(kind="limit"), ["lab/box/1 has failed: limit"]),
        (("begin",), FAILED, []),
    ],
)
def test_only_what_was_asked_for_is_told(when: Any, ending: f.JobEnding, told: list[str]) -> None:
    hall = Hall()
    number = hall.submit(Notify(when=when))
    hall.begin(number)
    hall.deliveries()
    hall.end(number, ending)
    assert hall.subjects() == told


def test_who_has_not_asked_is_told_nothing(hall: Hall) -> None:
    number = hall.submit(None)
    hall.begin(number)
    hall.end(number, FAILED)
    assert hall.deliveries() == []


def test_a_job_that_is_withdrawn_has_failed_and_says_by_whom(hall: Hall) -> None:
    number = hall.submit(held=True)
    hall.queue.cancel(number, "by ann", hall.now)
    (delivery,) = hall.deliveries()
    assert delivery.subject == "lab/box/1 has failed: withdrawn: by ann"
    assert delivery.facts["end"] == "withdrawn"
    assert "started" not in delivery.text


def test_an_attempt_that_was_lost_is_told_of_when_it_begins_again(hall: Hall) -> None:
    number = hall.submit(rerun=True)
    hall.begin(number)
    first = hall.deliveries()
    hall.end(number, f.JobEnding(kind="lost"))
    assert hall.subjects() == [], "it is not over"
    hall.begin(number)
    (again,) = hall.deliveries()
    assert again.subject == "lab/box/1 has begun again"
    assert again.id != first[0].id


def test_an_array_is_told_of_once_and_names_those_that_failed(hall: Hall) -> None:
    first = hall.submit(indices=tuple(range(10, 14)), name="sweep")
    for number in range(first, first + 4):
        hall.begin(number)
    (begun,) = hall.deliveries()
    assert begun.subject == "array lab/box/1 (sweep) has begun"
    for number in range(first, first + 3):
        hall.end(number, FAILED if number % 2 else DONE)
    assert hall.deliveries() == [], "one job is left"
    hall.restart()
    hall.end(first + 3)
    (over,) = hall.deliveries()
    assert over.subject == "array lab/box/1 (sweep) has failed: 2 of 4 jobs failed"
    assert "failed     10, 12\n" in over.text
    assert over.facts["array"] == {"jobs": 4, "failed": [10, 12]}


def test_an_array_that_went_well_says_so(hall: Hall) -> None:
    first = hall.submit(Notify(when=("fail", "end")), indices=(1, 2))
    for number in (first, first + 1):
        hall.begin(number)
        hall.end(number)
    assert hall.subjects() == ["array lab/box/1 has ended: all 2 jobs succeeded"]


def test_each_job_of_an_array_is_told_of_if_its_user_wants_that(hall: Hall) -> None:
    first = hall.submit(Notify(when=("end",), each=True), indices=(1, 2))
    for number in (first, first + 1):
        hall.begin(number)
        hall.end(number)
    assert hall.subjects() == ["lab/box/1 has ended: exit", "lab/box/2 has ended: exit"]


def test_after_a_restart_nothing_is_told_again(hall: Hall) -> None:
    number = hall.submit()
    hall.begin(number)
    hall.restart()
    hall.queue.recover()
    hall.begin(number)
    assert hall.deliveries() == []


def test_a_delivery_says_where_things_are_and_nothing_of_the_environment(hall: Hall) -> None:
    number = hall.submit(
        name="a\nBcc: eve@example.org", environment={"TOKEN": "hidden"}, nodes=2,
        directory="/data/ann", output="out-%j", project="dna", script="#!/bin/sh\nsecret\n",
        command=(),
    )  # fmt: skip
    hall.begin(number)
    hall.now += 30
    hall.end(number, FAILED)
    begun, over = hall.deliveries()
    assert begun.text == (
        "job        lab/box/1\n"
        "name       a Bcc: eve@example.org\n"
        "user       ann\n"
        "project    dna\n"
        "submitted  Fri 2027-01-15 08:00 UTC\n"
        "started    Fri 2027-01-15 08:00 UTC\n"
        "nodes      0, 1\n"
        "until      Fri 2027-01-15 08:01 UTC at the latest\n"
        "output     /data/ann/out-1\n"
        "\n"
        "kalends job lab/box/1 shows more.\n"
    )
    assert "over       Fri 2027-01-15 08:00:30 UTC: exit 2\n" in over.text
    for delivery in (begun, over):
        assert "hidden" not in f"{delivery}"
        assert "secret" not in f"{delivery}"
    assert over.facts == {
        "about": "job", "event": "fail", "machine": "lab/box", "job": 1, "user": "ann",
        "name": "a\nBcc: eve@example.org", "project": "dna", "submitted": NOW, "phase": "ended",
        "attempt": 1, "nodes": [0, 1], "started": NOW, "over": NOW + 30, "end": "exit", "status": 2,
        "detail": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"when": ()}, "when"),
        ({"when": ("never",)}, "when"),
        ({"when": ("end",), "to": "ann@example.org\nBcc: eve@example.org"}, "to"),
        ({"when": ("end",), "to": "x" * 513}, "to"),
    ],
)
def test_what_can_never_be_told_is_refused(fields: Any, where: str) -> None:
    job = JobRequest(machine="lab/box", limit_s=60, command=("true",), notify=Notify(**fields))
    with pytest.raises(InvalidInput) as refused:
        job.check()
    assert refused.value.where.startswith(f"notify.{where}")


def test_a_job_of_a_broker_that_could_not_start_has_not_failed_yet(hall: Hall) -> None:
    job = JobRequest(machine="lab/box", limit_s=60, command=("true",), notify=ALL)
    number = hall.queue.submit(ANN, job, key_of_place(7, "a-request"), hall.now)[0]
    ending = f.JobEnding(kind="not-started", detail="no such command", of_site=True)
    hall.end(number, ending)
    (delivery,) = hall.deliveries()
    assert (
        delivery.subject == "lab/box/1 could not start there, and its broker looks for another site"
    )
    assert "not-started: no such command" in delivery.text
    assert "Its broker asks other sites for it." in delivery.text
    assert delivery.facts["other_sites"] is True
    own = hall.submit()
    hall.end(own, ending)
    (delivery,) = hall.deliveries()
    assert delivery.subject == "lab/box/2 has failed: not-started: no such command"
    assert "other_sites" not in delivery.facts
