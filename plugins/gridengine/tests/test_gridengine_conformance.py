"""Grid Engine passes the conformance suite of kalends, alone and behind a site."""

from __future__ import annotations

import pytest
from tests.backends.accounting.test_used_time import *  # noqa: F403  # the suite
from tests.backends.conformance.test_adapters import *  # noqa: F403  # the suite
from tests.backends.conformance.test_check_ups import *  # noqa: F403  # the suite
from tests.backends.conformance.test_promises_in_danger import *  # noqa: F403  # the suite
from tests.backends.conformance.test_sites import *  # noqa: F403  # the suite

pytestmark = [pytest.mark.needs_gridengine, pytest.mark.xdist_group("gridengine")]
