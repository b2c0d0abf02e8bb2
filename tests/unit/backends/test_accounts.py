"""What accounting prints of jobs that are over is read whole, or refused: half a job used nothing."""

from __future__ import annotations

import pytest

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import FinishedJob
from kalends.backends.slurm import accounts as slurm
from kalends.backends.slurm.accounts import PastReservation

OURS = "kal.centre.00000000-1"

SACCT = f"""\
JobIDRaw|User|Account|Reservation|ReservationId|AllocNodes|ElapsedRaw|Start|End
1|daemon|climate||1|2|3|1795727785|1795727788
2|daemon||{OURS}|1|1|1|1795727789|1795727790
3|daemon||||1|6|1795727789|Unknown
4|daemon|||0|0|0|Unknown|1795727799
5|nobody|||0|1|3|1795727796|1795727799
"""
RESERVATIONS = f"""\
ID|Name|TimeStart|TimeEnd
1|another|1795000000|1795000600
1|{OURS}|1795727785|1795728277
"""


def test_slurm_tells_jobs_that_are_over_with_their_reservations() -> None:
    told = slurm.told_jobs(SACCT)
    known = slurm.told_reservations(RESERVATIONS)
    assert [slurm.named(each, known) for each in told] == [
        FinishedJob("1", 1795727785, 1795727788, 6, "daemon", "climate", OURS),
        FinishedJob("2", 1795727789, 1795727790, 1, "daemon", "", OURS),
        FinishedJob("5", 1795727796, 1795727799, 3, "nobody", "", ""),
    ]


def test_a_number_that_slurm_has_given_twice_names_the_reservation_of_its_time() -> None:
    told = slurm.told_jobs(SACCT)[0]
    known = [PastReservation("1", "old", 1_000, 2_000), PastReservation("1", "new", 3_000, 0)]
    assert slurm.named(told, known).reservation == "new"
    assert slurm.named(told, known[:1]).reservation == ""


@pytest.mark.parametrize("length", range(0, len(SACCT) - 1, 7))
def test_a_listing_of_slurm_that_is_cut_off_in_a_line_is_refused(length: int) -> None:
    if SACCT[length - 1] == "\n":
        return
    with pytest.raises(SystemSilent):
        slurm.told_jobs(SACCT[:length])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no jobs\n",
        RESERVATIONS,
        SACCT.replace("|3|17", "|-3|17"),
        SACCT.replace("|2|3", "|x|3"),
    ],
)
def test_what_is_no_listing_of_slurm_is_refused(text: str) -> None:
    with pytest.raises(SystemSilent):
        slurm.told_jobs(text)
