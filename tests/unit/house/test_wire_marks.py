"""Whoever adds something to what servers say marks it: a peer of before must not be sent it.

`base_version.json` beside this file has every struct, field and word of the base version, which nobody who
adds something changes. It changes only when support for old peers ends: then what was marked joins it, with
``KALENDS_RECORD=1``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from tests.support.wire_shapes import kinds, shapes, words_of_answers

from kalends.contract import agreement
from kalends.contract.versions import FEATURES_MAX, own_version, version_in
from kalends.core.features import FEATURES, REQUIRED

BASE: Final = Path(__file__).parent / "base_version.json"
ANSWERS: Final = Path(__file__).parent / "base_words_of_answers.json"


def test_without_what_is_marked_the_contract_is_the_base_version_to_the_letter() -> None:
    found = shapes([each.name for each in REQUIRED])
    if os.environ.get("KALENDS_RECORD"):
        BASE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    recorded = json.loads(BASE.read_text())
    added = [
        f"{kind}.{name}"
        for kind in found
        for name in found[kind]
        if name not in recorded.get(kind, {})
    ]
    assert not added, "mark it with the feature that brings it: see kalends.core.features"
    assert found == recorded


def test_no_answer_has_a_new_word_that_older_clients_would_choke_on() -> None:
    """Clients ignore fields that they do not know, but not words: mark them, with another `instead`.

    What is new as a whole is met by new calls, or in new fields: there older clients do not look.
    """
    found = words_of_answers([each.name for each in REQUIRED])
    if os.environ.get("KALENDS_RECORD"):
        ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    recorded = json.loads(ANSWERS.read_text())
    assert {kind: found.get(kind) for kind in recorded} == recorded


def test_what_is_marked_can_be_left_out() -> None:
    """A field is left out where it has its default, and the type leaves out defaults."""
    for kind in kinds().values():
        for name, mark in agreement.marks(kind).items():
            assert kind.__struct_config__.omit_defaults, f"{kind.__name__} sends its defaults"
            assert repr(mark.default) != "NODEFAULT", f"{kind.__name__}.{name} has no default"


def test_every_mark_names_a_feature_that_this_kalends_says_it_knows() -> None:
    used = {each for kind in kinds().values() for each in agreement.features_in(kind)}
    assert used <= {*FEATURES}
    assert {*REQUIRED} <= {*FEATURES}


def test_features_have_names_of_their_own_that_a_header_can_carry() -> None:
    names = [each.name for each in FEATURES]
    assert len(set(names)) == len(names) <= FEATURES_MAX
    assert version_in(own_version("1.0").headers()) == own_version("1.0")
