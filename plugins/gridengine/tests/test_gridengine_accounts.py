"""What Grid Engine's accounting prints of ended jobs is read whole, or refused: half a job used nothing."""

from __future__ import annotations

import pytest

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import FinishedJob
from kalends_gridengine import accounts

QACCT = """\
==============================================================
qname        all.q               
hostname     n1                  
owner        daemon              
project      NONE                
jobname      ===================
jobnumber    1                   
taskid       undefined
start_time   Thu Nov 26 21:15:03 2026
end_time     Thu Nov 26 21:15:06 2026
slots        4                   
arid         1                   
==============================================================
qname        all.q               
hostname     n2                  
owner        daemon              
project      dna                 
jobnumber    2                   
taskid       3                   
start_time   Thu Nov 26 21:15:07 2026
end_time     Thu Nov 26 21:15:09 2026
slots        1                   
arid         undefined
==============================================================
hostname     n2                  
owner        daemon              
project      NONE                
jobnumber    3                   
taskid       undefined
start_time   -/-
end_time     -/-
slots        1                   
arid         0
Total System Usage
    WALLCLOCK         UTIME         STIME
================================================================================
           11         0.018         0.025
"""  # noqa: W291  as it is printed
SLOTS = {"n1": 2, "n2": 2}


def test_grid_engine_tells_jobs_in_node_seconds_of_whole_hosts() -> None:
    start = 1795727703
    assert accounts.told_jobs(QACCT, SLOTS) == [
        FinishedJob("1", start, start + 3, 6, "daemon", "", "1"),
        FinishedJob("2.3", start + 4, start + 6, 1, "daemon", "dna", ""),
    ]
    nothing = "Total System Usage\n    WALLCLOCK         UTIME\n"
    assert accounts.told_jobs(nothing, SLOTS) == []


@pytest.mark.parametrize("length", range(0, QACCT.index("Total"), 31))
def test_a_listing_of_grid_engine_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(SystemSilent):
        accounts.told_jobs(QACCT[:length], SLOTS)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("slots        4", "slots        -4"),
        ("jobnumber    1", "jobnumber    x"),
        ("21:15:03", "never"),
    ],
)
def test_a_job_of_grid_engine_that_cannot_be_read_is_refused(was: str, becomes: str) -> None:
    with pytest.raises(SystemSilent):
        accounts.told_jobs(QACCT.replace(was, becomes), SLOTS)
