"""Random scripts: every one comes to a defined end, the same twice, and to the one Python comes to.

The twin is Python itself: a script that ends "ok" gives, run as it stands by the interpreter with lists
for what is lazy, the same answer. Only texts that break no rule are run.
"""

from __future__ import annotations

import copy
import marshal
import warnings
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests import effort
from tests.agent_language_world import Author, performed

from kalends.agents.language.checker import parsed
from kalends.agents.language.policy import Rejected, compile_script

DATA: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.sampled_from(["x", "y", "abc"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=6,
)

SCRIPTS = st.integers(0, 1 << 64).map(lambda seed: Author(seed).script())

ENDS = {"ok", "agent-error", "bad-result", "limit-steps", "limit-recursion", "limit-output"}

PYTHON = {
    "enumerate": lambda values, start=0: list(enumerate(values, start)),
    "filter": lambda function, values: list(filter(function, values)),
    "map": lambda function, *several: list(map(function, *several)),
    "reversed": lambda values: list(reversed(values)),
    "zip": lambda *several: list(zip(*several, strict=False)),
}
"""What is lazy in Python and a list in the language."""


def plain(value: Any) -> Any:
    """With lists for tuples, as an answer has them."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


@given(SCRIPTS, st.lists(DATA, max_size=3), st.dictionaries(st.sampled_from("xyz"), DATA))
@settings(max_examples=effort.examples(200))
def test_a_script_comes_to_a_defined_end_the_same_twice_and_the_one_of_python(
    source: str, values: list[Any], counts: dict[str, Any]
) -> None:
    assert parsed(source)[1] == ()
    first = performed(source, copy.deepcopy([values, counts]))
    code = marshal.dumps(compile_script(source))
    second = performed(source, copy.deepcopy([values, counts]), code=code)
    assert repr(first) == repr(second)
    assert first["code"] in ENDS
    assert len(first["detail"]) <= 200
    assert first["detail"].isprintable()
    event(first["code"])
    if first["code"] == "ok":
        namespace: dict[str, Any] = dict(PYTHON)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(source, namespace)
        expected = namespace["choose"](*copy.deepcopy([values, counts]))
        assert repr(first["answer"]) == repr(plain(expected))
        effort.steps["agents' scripts that Python runs, too"] += 1


@given(st.text(max_size=200) | st.text("()[]{}:=,.'\"\\ \n\tabf0x1#@*-", max_size=300))
@settings(max_examples=effort.examples(400))
def test_any_text_is_checked_without_an_exception(source: str) -> None:
    found = parsed(source)[1]
    assert found == parsed(source)[1]
    assert all(violation.line >= 1 and violation.column >= 1 for violation in found)
    assert all(violation.detail.isprintable() for violation in found)


@given(SCRIPTS, st.data())
@settings(max_examples=effort.examples(200))
def test_a_damaged_script_is_refused_or_compiled_and_no_more(
    source: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 10)))
    text = source[:start] + data.draw(st.text("()[]{}:=,.'\\ \n_*@!\0é", max_size=4)) + source[end:]
    found = parsed(text)[1]
    if found:
        with pytest.raises(Rejected) as rejected:
            compile_script(text)
        assert rejected.value.violations == found
    else:
        assert performed(text, [[1], {"x": 2}])["code"] in ENDS
