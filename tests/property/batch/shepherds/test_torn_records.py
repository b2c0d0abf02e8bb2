"""However a record is torn or spoilt, what is read of it is what was written, and it never begins again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kalends.batch.shepherds import conclusion, record
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.facts import (
    Begun,
    ChangeAnswered,
    ChangeAsked,
    Ended,
    Fact,
    Main,
    Void,
    encode,
)

WHOLE = st.integers(0, 2**53)
SECONDS = st.floats(0, 1e12)
FACTS: st.SearchStrategy[Fact] = st.one_of(
    st.builds(Begun, SECONDS, WHOLE, WHOLE, st.text()),
    st.builds(Main, WHOLE, WHOLE, WHOLE, st.lists(st.tuples(WHOLE, WHOLE)).map(tuple)),
    st.builds(ChangeAsked, WHOLE, WHOLE, st.lists(WHOLE).map(tuple), SECONDS),
    st.builds(ChangeAnswered, WHOLE, WHOLE, SECONDS, st.text(), SECONDS),
    st.builds(Ended, st.text(), WHOLE, st.text(), SECONDS, SECONDS, SECONDS, WHOLE, WHOLE),
    st.builds(Void, SECONDS),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records") / "17.1"


@given(st.lists(FACTS, max_size=6), st.integers(0, 2000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_torn_record_reads_as_a_beginning_of_itself(
    path: Path, facts: list[Fact], cut: int
) -> None:
    whole = b"".join(encode(fact) for fact in facts)
    path.write_bytes(whole[:cut])
    content = record.read(str(path))
    assert list(content.facts) == facts[: len(content.facts)]
    assert len(content.facts) == whole[:cut].count(b"\n")


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_what_has_no_whole_line_may_begin_or_become_void(path: Path, spoilt: bytes) -> None:
    path.write_bytes(spoilt)
    state = conclusion.look(str(path)).state
    assert (state is State.UNDECIDED) == (b"\n" not in spoilt)
    assert (conclusion.make_void(str(path), 1.0).state is State.VOID) == (b"\n" not in spoilt)
