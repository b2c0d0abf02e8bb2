"""The table of a request's phases at its broker is the only way from one to another."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.protocol_broker import Broker

from kalends.broker.coordination.phases import NEXT_PHASE, Phase, PhaseEvent
from kalends.core.errors import IllegalEvent


@pytest.mark.parametrize("phase", list(NEXT_PHASE))
def test_a_request_changes_its_phase_by_the_table_only(broker: Broker, phase: Phase) -> None:
    case = broker.case(broker.submit())
    for event in get_args(PhaseEvent):
        case._phase = phase
        if event in NEXT_PHASE[phase]:
            case.enter(event)
            assert case.phase == NEXT_PHASE[phase][event]
        else:
            with pytest.raises(IllegalEvent, match=f"{event} means nothing while {phase}"):
                case.enter(event)
            assert case.phase == phase
