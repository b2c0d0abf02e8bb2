"""Nodes of a real site that are drained until a time are back then, though the site was killed meanwhile."""

from __future__ import annotations

import time

import pytest

from kalends.core.errors import InvalidInput

from .laboratory import MACHINE, Laboratory, laboratory

__all__ = ["laboratory"]


async def test_a_drain_ends_by_itself_though_its_site_is_killed(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        until_s = int(time.time()) + 8
        load = await client.serve_nodes(MACHINE, "drain", range(4), detail="fans", until=until_s)
        assert [(each.nodes, each.until) for each in load.out_reasons] == [
            ((0, 1, 2, 3), until_s),
        ]  # fmt: skip
        number = (await client.submit(laboratory.job("true", nodes=4))).job.job
        view = await client.job(MACHINE, number)
        assert view.phase == "queued"
        await laboratory.site.kill()
        await laboratory.site.start()
        over = await laboratory.over(client, number)
        assert (over.end, over.started >= until_s) == ("exit", True)
        (machine,) = (await client.jobs(MACHINE)).machines
        assert (machine.out, machine.out_reasons) == (0, ())
        with pytest.raises(InvalidInput, match="only a drain has an end"):
            await client.serve_nodes(MACHINE, "fail", [0], until=until_s + 600)
