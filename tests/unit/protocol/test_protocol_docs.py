"""The tables and diagrams of docs/protocol.md are those of the code.

After a change of the protocol, record them again:
KALENDS_RECORD=1 pytest tests/unit/protocol/test_protocol_docs.py
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from kalends.broker.coordination import phases
from kalends.broker.coordination.phases import NEXT_PHASE, Phase
from kalends.contract import messages as m
from kalends.core.features import FEATURES
from kalends.resource_servers.participation.claims.transitions import DURABLE, TRANSITIONS

DOCUMENT = Path(__file__).parents[3] / "docs" / "protocol.md"

SHOWN_AS = {"held": "held", "intended": "held", "prepared": "held", "locked": "locked"}


def rst_rows(text: str | None) -> list[list[str]]:
    """The body of the simple table in a docstring: cells by the columns of its rulers."""
    assert text is not None
    lines = text.splitlines()
    rulers = [number for number, line in enumerate(lines) if line.startswith("====")]
    starts = [match.start() for match in re.finditer("=+", lines[rulers[0]])]
    ends: list[int | None] = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in lines[rulers[1] + 1 : rulers[2]]:
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{a} {b}".strip() for a, b in zip(rows[-1], cells, strict=True)]
    return rows


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("``", "`") + "\n"


def messages_table() -> str:
    return table(["message", "direction", "meaning"], rst_rows(m.__doc__))


def claims_table() -> str:
    """One row a state: how it is shown, whether a crash keeps it, and every event that ends it."""
    leaving: dict[str, list[str]] = defaultdict(list)
    for (state, event), after in TRANSITIONS.items():
        if after != state:
            leaving[state].append(f"{event} → {after}")
    rows = [
        [
            state,
            SHOWN_AS.get(state, "available"),
            "yes" if state in DURABLE else "no",
            "; ".join(leaving[state]),
        ]
        for state in dict.fromkeys(state for state, _ in TRANSITIONS)
    ]
    return table(["state", "shown as", "survives a crash", "left by"], rows)


def claims_diagram() -> str:
    edges: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (state, event), after in TRANSITIONS.items():
        if after != state:
            edges[state, after].append(event)
    lines = [f"    {state} --> {after}: {', '.join(e)}" for (state, after), e in edges.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> absent", *lines, "```"]) + "\n"


def cases_table() -> str:
    going_on = {row[0]: row[1:] for row in rst_rows(phases.__doc__)}
    rows = [
        [
            phase,
            *going_on.get(phase, ["", ""]),
            "; ".join(f"{', '.join(events)}: {after}" for after, events in _events_by_next(phase)),
        ]
        for phase in NEXT_PHASE
    ]
    return table(["phase", "what is going on", "left by", "event: next phase"], rows)


def _events_by_next(phase: Phase) -> list[tuple[Phase, list[str]]]:
    """The phases that may follow on `phase`, each with the events that lead there."""
    events: dict[Phase, list[str]] = {}
    for event, after in NEXT_PHASE[phase].items():
        events.setdefault(after, []).append(event)
    return list(events.items())


def cases_diagram() -> str:
    lines = [
        f"    {phase} --> {after}: {', '.join(events)}"
        for phase in NEXT_PHASE
        for after, events in _events_by_next(phase)
    ]
    ends = ["    [*] --> new", *lines, "    over --> [*]"]
    return "\n".join(["```mermaid", "stateDiagram-v2", *ends, "```"]) + "\n"


def features_table() -> str:
    if not FEATURES:
        return "No feature has come since the base version.\n"
    return table(["feature", "since then servers know"], [[*each] for each in FEATURES])


PARTS: dict[str, Callable[[], str]] = {
    "messages": messages_table,
    "claims": claims_table,
    "claims-diagram": claims_diagram,
    "cases": cases_table,
    "cases-diagram": cases_diagram,
    "features": features_table,
}


def between(name: str) -> re.Pattern[str]:
    return re.compile(f"(<!-- {name}: [^\n]* -->\n)(.*?)(<!-- end of {name} -->\n)", re.DOTALL)


@pytest.mark.parametrize("name", PARTS)
def test_the_documentation_has_what_the_code_has(name: str) -> None:
    text = DOCUMENT.read_text()
    made = PARTS[name]()
    if os.environ.get("KALENDS_RECORD"):
        text = between(name).sub(lambda found: found[1] + made + found[3], text)
        DOCUMENT.write_text(text)
    found = between(name).search(text)
    assert found is not None, f"docs/protocol.md has no part {name}"
    assert found[2] == made


def test_every_message_and_phase_is_in_the_tables() -> None:
    kinds = {
        kind.__name__
        for kind in vars(m).values()
        if isinstance(kind, type) and issubclass(kind, m.Message) and kind is not m.Message
    }
    assert {row[0] for row in rst_rows(m.__doc__)} == kinds
    assert {row[0] for row in rst_rows(phases.__doc__)} == {*NEXT_PHASE} - {"new", "over"}


def test_the_table_in_the_docstring_of_transitions_is_the_same() -> None:
    from kalends.resource_servers.participation.claims import transitions

    for state, shown, durable in rst_rows(transitions.__doc__):
        assert shown == SHOWN_AS.get(state, "available")
        assert durable.startswith("yes") == (state in DURABLE)
