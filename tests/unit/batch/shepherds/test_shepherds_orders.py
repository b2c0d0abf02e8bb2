"""What an order may say, and the frames in which a shepherd is spoken to."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.shepherds import frames
from kalends.batch.shepherds.folders import Folders, is_name
from kalends.batch.shepherds.order import JobOrder, decode_order, encode_order
from kalends.batch.shepherds.order_check import check_order
from kalends.core.errors import InvalidInput

GOOD = JobOrder("17.1", ("prog", "x"), environment={"A": "1"}, cores=(0, 1), resources={"NPROC": 9})


def test_a_shepherd_reads_the_order_that_was_given() -> None:
    check_order(GOOD)
    assert decode_order(encode_order(GOOD)) == GOOD


@pytest.mark.parametrize("name", ["17.1", "1.1", "9999999999999999.999999"])
def test_an_attempt_is_named_by_two_numbers(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "17", "17.", ".1", "..", "../17.1", "17.1/x", "17.1\n", "17.1\0", "1" * 17 + ".1", "a.1"],
)
def test_nothing_else_becomes_part_of_a_path(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidInput):
        check_order(GOOD._replace(name=name))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"argv": ()}, "argv"),
        ({"argv": ("",)}, "argv"),
        ({"argv": ("a\0b",)}, "argv"),
        ({"script": "echo"}, "script"),
        ({"script": "#!/bin/sh\n" + "x" * (3 << 20)}, "script"),
        ({"environment": {"A=B": "1"}}, "environment"),
        ({"environment": {"": "1"}}, "environment"),
        ({"environment": {"A": "\0"}}, "environment"),
        ({"directory": "\0"}, "directory"),
        ({"resources": {"WHAT": 1}}, "resources"),
        ({"resources": {"NPROC": -1}}, "resources"),
        ({"warning": "KILL"}, "warning"),
        ({"cores": (-1,)}, "cores"),
        ({"terminal": (0, 80)}, "terminal"),
        ({"piped": True}, "piped"),
        ({"attach_s": -1}, "attach_s"),
        ({"limit_s": 0}, "limit_s"),
        ({"limit_s": float("nan")}, "limit_s"),
        ({"grace_s": float("inf")}, "grace_s"),
        ({"warn_s": -1}, "warn_s"),
    ],
)
def test_an_order_that_could_not_be_carried_out_is_refused_where_it_is_wrong(
    changes: dict[str, Any], where: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        check_order(GOOD._replace(**changes))
    assert raised.value.where == where


def test_a_folder_with_too_long_a_path_is_known_before_a_socket_fails() -> None:
    assert not Folders("/var/lib/kalends/jobs").too_long
    assert Folders("/" + "x" * 80).too_long


def test_frames_come_whole_out_of_any_pieces() -> None:
    sent = (
        frames.frame(b"k", b"abc")
        + frames.json_frame(b"c", {"do": "kill"})
        + frames.frame(b"o", b"")
    )
    reader = frames.FrameReader()
    found = [each for at in range(len(sent)) for each in reader.feed(sent[at : at + 1])]
    assert found == [(b"k", b"abc"), (b"c", b'{"do": "kill"}'), (b"o", b"")]


def test_a_frame_beyond_its_bound_is_refused_by_its_head() -> None:
    with pytest.raises(ValueError, match=f"a frame of {frames.BODY_BYTES_MAX + 1} bytes"):
        frames.FrameReader().feed(b"k" + (frames.BODY_BYTES_MAX + 1).to_bytes(4, "big"))
