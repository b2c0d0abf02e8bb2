"""An owner's access rules hold for jobs as they do for bookings."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.unit.resource_servers.test_clocks_of_a_site import HELD, SITE, Host, running

import kalends
from kalends.core.errors import NotAllowed

FEW = 'access = [{ who = "everyone", may = "lock", units_max = 1 }]\n[[site.machines]]'


@pytest.mark.parametrize("more", [{"nodes": 2}, {"sizes": (1, 2)}])
async def test_a_job_of_more_nodes_than_its_user_may_book_is_refused(more: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="kl-") as name:
        text = SITE.replace("[[site.machines]]", FEW)
        async with (
            running(Path(name), Host(), text) as url,
            kalends.connect(url, user="ann") as ann,
        ):
            await ann.submit(HELD)
            with pytest.raises(NotAllowed, match="at most 1 of lab/box") as refused:
                await ann.submit(structs.replace(HELD, **more))
            assert refused.value.where == next(iter(more))


async def test_a_gap_has_no_more_nodes_than_its_user_may_have_and_is_told_as_of_now() -> None:
    with tempfile.TemporaryDirectory(prefix="kl-") as name:
        text = SITE.replace("[[site.machines]]", FEW)
        async with (
            running(Path(name), Host(), text) as url,
            kalends.connect(url, user="ann") as ann,
        ):
            submitted_s = (await ann.submit(HELD)).job.submitted
            await asyncio.sleep(1)
            found = await ann.machine_gaps("lab/box")
            assert [gap.nodes for gap in found.gaps] == [1]
            assert found.made_at >= submitted_s + 1
