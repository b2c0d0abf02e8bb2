"""All attacks, by kind. Each says what it tries and the codes that its run may end with."""

from __future__ import annotations

from typing import Final

from . import (
    answers,
    attributes,
    bombs_of_memory,
    bombs_of_time,
    definitions,
    errors,
    formats,
    guards,
    helpers,
    names,
    nesting,
    shapes,
    spelling,
    state,
    statements,
)
from .kinds import Attack

KINDS: Final[dict[str, list[Attack]]] = {
    "attributes": attributes.ATTACKS,
    "formats": formats.ATTACKS,
    "definitions": definitions.ATTACKS,
    "guards": guards.ATTACKS,
    "statements": statements.ATTACKS,
    "names": names.ATTACKS,
    "spelling": spelling.ATTACKS,
    "shapes": shapes.ATTACKS,
    "nesting": nesting.ATTACKS,
    "bombs of time": bombs_of_time.ATTACKS,
    "bombs of memory": bombs_of_memory.ATTACKS,
    "state": state.ATTACKS,
    "helpers": helpers.ATTACKS,
    "errors": errors.ATTACKS,
    "answers": answers.ATTACKS,
}

ATTACKS: Final = [attack for attacks in KINDS.values() for attack in attacks]
