"""Logs: one JSON object a line, and never a secret in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.serving.auth.keys import generate_key
from kalends.serving.auth.tokens import mint
from kalends.serving.logs import HIDDEN, configure_logging, get_logger, hide_secrets

TOKEN = mint(
    generate_key(), user="anna", groups=[], audience=["sdsc"], scopes=["use"], issuer="",
    lifetime_s=60, now_s=0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_line_is_one_json_object_with_role_and_name() -> None:
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    get_logger(role="site", name="sdsc").info("booked", reservation="r1", note="a\nb")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"]) == ("booked", "info")
    assert (line["role"], line["name"], line["reservation"]) == ("site", "sdsc", "r1")
    assert line["timestamp"].endswith("Z")
    assert stream.getvalue().count("\n") == 1


def test_lines_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    configure_logging("warning", "json", stream)
    logger = get_logger(role="site", name="sdsc")
    logger.info("quiet")
    logger.warning("heard")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["heard"]


@pytest.mark.parametrize("form", ["json", "human"])
def test_secrets_are_blanked_by_name_and_tokens_by_look(form: str) -> None:
    stream = io.StringIO()
    configure_logging("debug", form, stream)  # type: ignore[arg-type]  # a parameter, checked here
    logger = get_logger(role="site", name="sdsc")
    logger.info("seen", token="s3cret", headers={"Authorization": "s3cret"}, text=f"is {TOKEN}!")
    secret = "s3cret"
    try:
        raise RuntimeError(f"refused {TOKEN}")
    except RuntimeError:
        logger.exception("failed", more=[f"Bearer {TOKEN}"])
    logging.getLogger("library").warning("got %s", TOKEN)
    text = stream.getvalue()
    assert secret not in text
    assert not any(part in text for part in TOKEN.split("."))
    assert text.count(HIDDEN) == 6
    assert "RuntimeError" in text


def test_libraries_are_heard_in_the_same_form_from_warning_on() -> None:
    stream = io.StringIO()
    configure_logging("debug", "json", stream)
    logging.getLogger("library").info("quiet")
    logging.getLogger("library").warning("heard %d", 5)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["heard 5"]


def test_configuring_again_replaces_what_was_configured() -> None:
    first, second = io.StringIO(), io.StringIO()
    logger = get_logger(role="site", name="sdsc")
    configure_logging("info", "json", first)
    configure_logging("info", "json", second)
    logger.info("once")
    logging.getLogger("library").warning("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 2


def test_a_stream_that_is_no_terminal_gets_json_by_itself() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    get_logger(role="site", name="sdsc").info("event")
    assert json.loads(stream.getvalue())["event"] == "event"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(InvalidInput, match="log level"):
        configure_logging("loud")


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text(), st.just(f"x {TOKEN} y")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_nesting_hides_a_token_from_the_filter(value: object) -> None:
    assert TOKEN not in repr(hide_secrets(None, "info", {"event": "e", "value": value}))
