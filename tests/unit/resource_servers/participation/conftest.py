"""A site for each test of a participant."""

from __future__ import annotations

import pytest
from tests.protocol_support import Site


@pytest.fixture
def site() -> Site:
    return Site()
