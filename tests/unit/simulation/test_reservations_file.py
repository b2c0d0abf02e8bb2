"""Advance reservations from files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.scheduling.reservations import Reservation
from kalends.simulation.workloads.reservations_file import read_reservations

UNIX_START_S = 893_980_800  # 1998-05-01T00:00Z


def written(folder: Path, *lines: str) -> Path:
    path = folder / "reservations.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_seconds_and_dates_are_read_with_and_without_names(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "start,end,nodes,name",
        "# maintenance",
        "",
        "3600,7200,64,upgrade",
        "1998-05-01T08:00, 1998-05-01T12:00+02:00 ,128,",
        '5,6,1,"a, b"',
    )
    assert read_reservations(path, unix_start_s=UNIX_START_S) == [
        Reservation(3600, 7200, 64, "upgrade"),
        Reservation(8 * 3600, 10 * 3600, 128, ""),
        Reservation(5, 6, 1, "a, b"),
    ]


def test_columns_may_stand_in_any_order_and_names_may_be_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, "Nodes,End,Start", "4,9,7")
    assert read_reservations(path) == [Reservation(7, 9, 4)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["3600,7200,64"], "does not name the columns"),
        ([""], "does not name the columns"),
        (["start,end,nodes,start", "1,2,3,4"], "does not name the columns"),
        (["start,end,nodes", "1,2"], "line 2: 2 values for 3 columns"),
        (["start,end,nodes", "1,2,x"], "line 2, nodes: 'x' is not a number"),
        (["start,end,nodes", "1,2,99999999"], "not a number of nodes"),
        (["start,end,nodes", "1,2,0"], "line 2: 0 nodes from 1 to 2"),
        (["start,end,nodes", "2,2,1"], "line 2: 1 nodes from 2 to 2"),
        (["start,end,nodes", "soon,2,1"], "line 2, start: 'soon' is not a time"),
        (["start,end,nodes", "1,99999999999999,1"], "line 2, end: '99999999999999' is not a time"),
        (["start,end,nodes", "1,-2,1"], "line 2, end: '-2' is not a time"),
        (["start,end,nodes", "1990-01-01,2,1"], "before the log began"),
        (["start,end,nodes,name", '1,2,3,"x'], "line 2"),
    ],
)
def test_what_is_no_reservation_is_refused_with_its_line(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_reservations(written(tmp_path, *lines), unix_start_s=UNIX_START_S)
    assert said in str(caught.value)
    assert caught.value.remedy


def test_dates_need_a_log_that_says_when_it_began(tmp_path: Path) -> None:
    path = written(tmp_path, "start,end,nodes", "1998-05-01,1998-05-02,1")
    with pytest.raises(InvalidInput, match="UnixStartTime"):
        read_reservations(path)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="is not text"):
        read_reservations(path)
    with pytest.raises(InvalidInput, match="No such file"):
        read_reservations(tmp_path / "none")


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, a: str, b: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(f"start,end,nodes\n{a},{b},1\n", encoding="utf-8", errors="replace")
    with suppress(InvalidInput):
        found = read_reservations(path, unix_start_s=UNIX_START_S)
        assert len(found) == 1 or a.startswith("#")
        assert all(0 <= each.start_s < each.end_s for each in found)
