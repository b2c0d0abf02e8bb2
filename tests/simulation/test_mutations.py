"""The auditor catches the protocol gone wrong in every way that we know; if not, it judges nothing."""

from __future__ import annotations

import pytest

from tests import effort
from tests.simulation import (
    mutations,
    mutations_of_approval,
    mutations_of_belief,
    mutations_of_buffers,
    mutations_of_charges,
    mutations_of_forgetting,
    mutations_of_limits,
    mutations_of_meeting,
    mutations_of_postgres,
    mutations_of_provision,
    mutations_of_restores,
    mutations_of_rulings,
    mutations_of_series,
    mutations_of_sharing,
    mutations_of_waiting,
)
from tests.simulation.climates import CLIMATES, EVERY_FAULT, Climate
from tests.simulation.mutations import MUTATIONS, Mutation, seeds_to_catch
from tests.simulation.mutations_of_approval import MUTATIONS_OF_APPROVAL
from tests.simulation.mutations_of_belief import MUTATIONS_OF_BELIEF
from tests.simulation.mutations_of_buffers import MUTATIONS_OF_BUFFERS
from tests.simulation.mutations_of_charges import MUTATIONS_OF_CHARGES
from tests.simulation.mutations_of_forgetting import MUTATIONS_OF_FORGETTING
from tests.simulation.mutations_of_limits import MUTATIONS_OF_LIMITS
from tests.simulation.mutations_of_meeting import MUTATIONS_OF_MEETING
from tests.simulation.mutations_of_postgres import MUTATIONS_OF_POSTGRES
from tests.simulation.mutations_of_provision import MUTATIONS_OF_PROVISION
from tests.simulation.mutations_of_restores import MUTATIONS_OF_RESTORES
from tests.simulation.mutations_of_rulings import MUTATIONS_OF_RULINGS
from tests.simulation.mutations_of_series import MUTATIONS_OF_SERIES
from tests.simulation.mutations_of_sharing import MUTATIONS_OF_SHARING
from tests.simulation.mutations_of_waiting import MUTATIONS_OF_WAITING
from tests.simulation.overriding import idle, mutated
from tests.simulation.schedule import complaint

SEEDS = 2_000
SHIPPED_SEEDS = effort.examples(12)
"""In each of forty climates, for they share the minutes of CI; the soak plays hundreds of each."""

ALL = (
    *MUTATIONS,
    *MUTATIONS_OF_FORGETTING,
    *MUTATIONS_OF_WAITING,
    *MUTATIONS_OF_BELIEF,
    *MUTATIONS_OF_PROVISION,
    *MUTATIONS_OF_APPROVAL,
    *MUTATIONS_OF_LIMITS,
    *MUTATIONS_OF_BUFFERS,
    *MUTATIONS_OF_RULINGS,
    *MUTATIONS_OF_RESTORES,
    *MUTATIONS_OF_MEETING,
    *MUTATIONS_OF_CHARGES,
    *MUTATIONS_OF_POSTGRES,
    *MUTATIONS_OF_SERIES,
    *MUTATIONS_OF_SHARING,
)


BROKEN = [
    each
    for module in (
        mutations,
        mutations_of_approval,
        mutations_of_belief,
        mutations_of_buffers,
        mutations_of_charges,
        mutations_of_forgetting,
        mutations_of_limits,
        mutations_of_meeting,
        mutations_of_postgres,
        mutations_of_provision,
        mutations_of_restores,
        mutations_of_rulings,
        mutations_of_series,
        mutations_of_sharing,
        mutations_of_waiting,
    )
    for each in mutated(module)
    if each is not Mutation
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_what_a_mutation_breaks_is_still_there(broken: type) -> None:
    assert idle(broken) == []


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_the_auditor_catches(mutation: Mutation) -> None:
    assert seeds_to_catch(mutation, range(1, SEEDS + 1)) is not None


@pytest.mark.parametrize(
    "climate",
    [each for each in CLIMATES.values() if each is not EVERY_FAULT],
    ids=lambda each: each.name,
)
def test_the_shipped_code_keeps_its_promises_in_every_climate(climate: Climate) -> None:
    for seed in range(1, SHIPPED_SEEDS // climate.costs + 1):
        report = climate.run(seed)
        assert not report.violation, complaint(report, climate.name)
