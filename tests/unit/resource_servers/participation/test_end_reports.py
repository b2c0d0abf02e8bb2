"""What a site tells brokers of jobs that have ended: again and again until it is noted, and to their own only."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.protocol_support import SITE_REGISTER as REGISTER_NAME
from tests.protocol_support import Site
