"""Colours of states: only where they are wanted, and never the only sign."""

from __future__ import annotations

import re

import pytest
from client_broker import Broker
from command_line import Run

import kalends
from kalends.cli.console.output import rows
from kalends.cli.console.screen import choice, stated

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GREEN, RED = "\x1b[32m", "\x1b[31m"


@pytest.fixture(autouse=True)
def booked(broker: Broker) -> None:
    with kalends.connect_sync(broker.url, user="ada") as client:
        client.book("caltech/onyx", duration="1h")


@pytest.mark.parametrize(
    "words",
    [
        ("list",), ("sites",), ("calendar", "sdsc/sp2"),
        ("calendar", "sdsc/sp2", "--from", "yesterday", "--for", "2d"),
    ],
)  # fmt: skip
def test_a_listing_says_the_same_with_colours_and_without(run: Run, words: tuple[str, ...]) -> None:
    plain, coloured = run(*words).stdout, run("--color", "always", *words).stdout
    assert ESCAPE.sub("", coloured) == plain != coloured
    assert not ESCAPE.search(plain)


def test_states_have_the_colours_of_what_they_mean(run: Run) -> None:
    assert f"{GREEN}reserved\x1b[0m" in run("list", "--color", "always").stdout
    assert f"{RED}down\x1b[0m" in run("sites", "--color", "always").stdout
    shown = run("show", "00000001", "--color", "always").stdout
    assert shown.startswith(f"{GREEN}reserved\x1b[0m 00000001\n")


def test_no_color_and_an_option_decide_where_a_terminal_would_have_colours() -> None:
    assert choice("auto", {}) is None
    assert choice("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}) is False
    assert choice("auto", {"NO_COLOR": ""}) is None
    assert choice("auto", {"FORCE_COLOR": "1"}) is True
    assert choice("auto", {"TERM": "dumb"}) is False
    assert choice("always", {"NO_COLOR": "1"}) is True
    assert choice("never", {"FORCE_COLOR": "1"}) is False


def test_the_environment_counts_where_no_option_does(run: Run) -> None:
    assert ESCAPE.search(run("list", FORCE_COLOR="1").stdout)
    assert not ESCAPE.search(run("list", "--color", "never", FORCE_COLOR="1").stdout)
    assert not ESCAPE.search(run("list", FORCE_COLOR="1", NO_COLOR="1").stdout)


def test_json_has_no_colours(run: Run) -> None:
    assert not ESCAPE.search(run("list", "--json", "--color", "always").stdout)


def test_what_a_server_says_steers_no_terminal_beside_a_state() -> None:
    from kalends.cli.console.output import plain_line
    from kalends.cli.console.screen import painted

    (_, line) = rows(("NAME", "STATE"), [("a\x1b[2J", "held")])
    shown = painted(line, plain_line(line))
    assert ESCAPE.sub("", shown) == "a [2J  held"
    unknown = stated("weird thing", "weird")
    assert painted(unknown, str(unknown)) == "weird thing"
