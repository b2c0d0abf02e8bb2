"""Names that look alike are one name, or none."""

from __future__ import annotations

import pytest

from kalends.core.errors import NotAuthenticated
from kalends.serving.auth.callers import principal_of


@pytest.mark.parametrize(
    "name",
    ["\uff41nn", "\uff21NN", "ann\uff20uni", "\u2460", "o\ufb03ce", "e\u0301mile", "\u212aarl"],
)
def test_a_name_in_other_signs_than_usual_is_refused_with_the_usual_ones(name: str) -> None:
    for user, groups in ((name, []), ("ann", [name])):
        with pytest.raises(NotAuthenticated, match="can be mistaken for another name") as raised:
            principal_of(user, groups)
        assert raised.value.remedy.startswith("write it as ")


@pytest.mark.parametrize(
    "name", ["ann", "\u00e9mile", "\u738b\u7687", "ann@uni", "\u0430nn", "Ann B"]
)
def test_usual_names_of_all_scripts_are_names(name: str) -> None:
    assert principal_of(name, [name]).user == name
