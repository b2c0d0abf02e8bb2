"""What Grid Engine prints is read whole, or refused: half a listing has nothing missing in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import SystemJob, SystemReservation, UnwellNode
from kalends_gridengine import printed

QUEUES = """<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
    <Queue-List>
      <name>all.q@n1</name>
      <qtype>BIP</qtype>
      <slots_used>0</slots_used>
      <slots_resv>0</slots_resv>
      <slots_total>2</slots_total>
      <arch>lx-amd64</arch>
      <state>d</state>
      <resource name="h_rt" type="qf">infinity</resource>
    </Queue-List>
    <Queue-List>
      <name>all.q@n2</name>
      <slots_total>2</slots_total>
      <state>u</state>
      <resource name="h_rt" type="qf">2:00:00</resource>
    </Queue-List>
    <Queue-List>
      <name>all.q@n3</name>
      <slots_total>2</slots_total>
      <load_avg>7.34</load_avg>
      <state>a</state>
      <resource name="h_rt" type="qf">infinity</resource>
    </Queue-List>
    <Queue-List>
      <name>all.q@n4</name>
      <slots_total>2</slots_total>
      <state>o</state>
      <resource name="h_rt" type="qf">infinity</resource>
    </Queue-List>
    <Queue-List>
      <name>other.q@n9</name>
      <slots_total>2</slots_total>
      <resource name="h_rt" type="qf">infinity</resource>
    </Queue-List>
  </queue_info>
  <job_info>
  </job_info>
</job_info>
"""

RESERVATIONS = """<?xml version='1.0'?>
<qrstat xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qrstat/qrstat.xsd">
   <ar_summary>
      <id>1</id>
      <name>kal.centre.00000000-1</name>
      <owner>root</owner>
      <state>w</state>
      <start_time>2026-11-26T17:43:00</start_time>
      <end_time>2026-11-26T18:43:00</end_time>
      <duration>01:00:00</duration>
      <granted_slots_list>
         <granted_slots  queue_instance="all.q@n3" slots="2"/>
      </granted_slots_list>
      <acl_list>
         <acl  user="daemon"/>
      </acl_list>
   </ar_summary>
</qrstat>
"""

JOBS = """<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
    <job_list state="running">
      <JB_job_number>6</JB_job_number>
      <JB_name>a%lt;b&gt;&amp;\x01</JB_name>
      <JB_owner>nobody</JB_owner>
      <state>r</state>
      <JAT_start_time>2026-11-26T16:44:47</JAT_start_time>
      <queue_name>all.q@n3</queue_name>
      <master>MASTER</master>
      <hard_request name="h_rt" resource_contribution="0.000000">600</hard_request>
    </job_list>
    <job_list state="running">
      <JB_job_number>6</JB_job_number>
      <JB_owner>nobody</JB_owner>
      <state>r</state>
      <JAT_start_time>2026-11-26T16:44:47</JAT_start_time>
      <queue_name>all.q@n2</queue_name>
      <master>SLAVE</master>
      <hard_request name="h_rt" resource_contribution="0.000000">600</hard_request>
    </job_list>
    <job_list state="running">
      <JB_job_number>7</JB_job_number>
      <JB_owner>daemon</JB_owner>
      <state>r</state>
      <JAT_start_time>2026-11-26T16:44:47</JAT_start_time>
      <queue_name>all.q@n2</queue_name>
      <tasks>3</tasks>
    </job_list>
    <job_list state="running">
      <JB_job_number>8</JB_job_number>
      <JB_owner>daemon</JB_owner>
      <state>r</state>
      <JAT_start_time>2026-11-26T16:44:47</JAT_start_time>
      <queue_name>all.q@n3</queue_name>
    </job_list>
  </queue_info>
  <job_info>
  </job_info>
</job_info>
"""

INSIDE = """<?xml version='1.0'?>
<detailed_job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/detailed_job_info.xsd">
  <djob_info>
    <element>
      <JB_job_number>7</JB_job_number>
      <JB_ar>1</JB_ar>
    </element>
    <element>
      <JB_job_number>8</JB_job_number>
      <JB_ar>0</JB_ar>
    </element>
  </djob_info>
</detailed_job_info>
"""

PING = """11/26/2026 16:43:01:
SIRM version:             0.1
start time:               11/26/2026 16:42:37 (1795711357)
run time [s]:             24
"""

START_S = 1_795_711_487
"""2026-11-26T16:44:47 UTC."""


def known() -> dict[str, printed.Queue]:
    return printed.queues(QUEUES, "all.q")


def test_hosts_of_the_queue_are_nodes_and_each_state_says_whether_they_count() -> None:
    assert {name: (each.slots, each.limit_s) for name, each in known().items()} == {
        "n1": (2, None), "n2": (2, 7_200), "n3": (2, None), "n4": (2, None),
    }  # fmt: skip
    assert [name for name, each in known().items() if each.is_left_over] == ["n4"]
    assert printed.unwell(known(), just_begun=False) == (
        UnwellNode("n1", "drained", "its queue is in state d"),
        UnwellNode("n2", "down", "it has not reported"),
    )
    assert printed.unwell(known(), just_begun=True)[1].state == "unknown"


def test_a_reservation_is_told_with_its_nodes_times_and_users() -> None:
    (found,) = printed.reservations(RESERVATIONS)
    start = START_S - 107 + 3_600
    assert printed.as_told([found], known()) == SystemReservation(
        "kal.centre.00000000-1", start, start + 3_600, ("n3",), ("daemon",)
    )


@pytest.mark.parametrize(
    ("slots", "broken"),
    [({"n3": 1}, "others may have 1 of the 2 slots of n3"), ({"n4": 2}, "n4 has left the queue")],
)
def test_a_reservation_that_lets_others_in_is_broken(slots: dict[str, int], broken: str) -> None:
    (found,) = printed.reservations(RESERVATIONS)
    assert printed.as_told([found._replace(slots=slots)], known()).broken == broken


def test_two_of_a_name_are_told_as_one_that_is_broken() -> None:
    (found,) = printed.reservations(RESERVATIONS)
    told = printed.as_told([found, found._replace(number=2, end=found.end + 60)], known())
    assert (told.broken, told.end) == ("there are 2 of its name", found.end + 60)


def test_jobs_are_told_with_all_their_nodes_their_end_and_their_reservation() -> None:
    assert list(printed.running_jobs(JOBS, known(), {7: "kal.centre.00000000-1"})) == [
        SystemJob("6", "nobody", ("n2", "n3"), START_S, START_S + 600),
        SystemJob("7.3", "daemon", ("n2",), START_S, START_S + 7_200, "kal.centre.00000000-1"),
        SystemJob("8", "daemon", ("n3",), START_S, None),
    ]
    assert printed.reservations_of_jobs(INSIDE) == {7: 1}
    ended = "<?xml version='1.0'?>\n<unknown_jobs >\n<ST_name>99</ST_name>\n</unknown_jobs>\n"
    assert printed.reservations_of_jobs(ended) == {}


def test_the_clock_is_when_the_master_began_and_how_long_it_has_run() -> None:
    assert printed.clock(PING) == (1_795_711_381, 1_795_711_357)
    for at in range(PING.index("24") + 1):
        with pytest.raises(SystemSilent):
            printed.clock(PING[:at])


READERS: list[tuple[str, Callable[[str], object]]] = [
    (QUEUES, lambda text: printed.queues(text, "all.q")),
    (RESERVATIONS, printed.reservations),
    (RESERVATIONS, printed.reservation_numbers),
    (JOBS, lambda text: list(printed.running_jobs(text, known(), {}))),
    (JOBS, printed.job_numbers),
    (INSIDE, printed.reservations_of_jobs),
]


@pytest.mark.parametrize(("text", "read"), READERS)
def test_a_listing_that_is_cut_off_anywhere_is_refused(
    text: str, read: Callable[[str], object]
) -> None:
    read(text)
    for at in range(len(text.rstrip())):
        with pytest.raises(SystemSilent):
            read(text[:at])


@pytest.mark.parametrize(("text", "read"), READERS)
def test_a_listing_of_something_else_is_refused(text: str, read: Callable[[str], object]) -> None:
    for other in {QUEUES, RESERVATIONS, JOBS, INSIDE} - {text}:
        with pytest.raises(SystemSilent):
            read(other)
    with pytest.raises(SystemSilent):
        read(text.replace("<?xml version='1.0'?>", '<!DOCTYPE a [<!ENTITY b "c">]>'))


@pytest.mark.parametrize(
    "missing",
    [
        "<id>1</id>",
        "<name>kal.centre.00000000-1</name>",
        "<start_time>2026-11-26T17:43:00</start_time>",
    ],
)
def test_an_entry_that_lacks_what_each_has_is_refused(missing: str) -> None:
    with pytest.raises(SystemSilent):
        printed.reservations(RESERVATIONS.replace(missing, ""))


def test_a_reservation_that_has_ended_meanwhile_is_not_told() -> None:
    ended = "<ar_unknown> <id>99</id> </ar_unknown>\n</qrstat>"
    mixed = RESERVATIONS.replace("</qrstat>", ended)
    assert [each.number for each in printed.reservations(mixed)] == [1]
