"""A policy of the owner's own that holds its site for ever: the site ends, and begins again without it."""

from __future__ import annotations

from pathlib import Path

import erring_policies
import pytest

from kalends.core.errors import KalendsError
from tests.support.job_folders import folder_of_jobs

from .laboratory import MACHINE, Laboratory
from .servers import StartFailed, until


@pytest.mark.parametrize("policy", ["StuckInC", "Unstoppable"])
async def test_a_site_that_its_policy_holds_ends_and_begins_again_without_it(policy: str) -> None:
    own = f"{erring_policies.__name__}:{policy}"
    with folder_of_jobs("kalends-jobs-") as directory:
        laboratory = Laboratory(
            Path(directory),
            rules=f'policy = "{own}"\npolicy_ms_max = 200',
            path=str(Path(erring_policies.__file__).parent),
        )
        site = laboratory.site
        await site.start()
        async with laboratory.client() as client:
            with pytest.raises(KalendsError):
                await client.submit(laboratory.marking(0))

        async def has_ended() -> bool:
            return not site.running

        await until(has_ended, "the site has ended by itself")
        assert "Exception ignored" not in site.log()
        await site.start()
        try:
            async with laboratory.client() as client:
                (load,) = (await client.jobs(MACHINE)).machines
                assert load.policy == "easy-priority"
                assert f"policy {own}: it did not return" in load.policy_disabled
                assert f"({erring_policies.__file__}:" in load.policy_disabled
                problems = (await client.audit()).problems
                assert any(each.startswith(f"{MACHINE}: the policy") for each in problems)
                job = (await client.submit(laboratory.marking(0))).job.job
                assert (await laboratory.over(client, job)).end == "exit"
        finally:
            await site.stop()


async def test_a_policy_that_is_no_class_is_refused_by_its_setting() -> None:
    with folder_of_jobs("kalends-jobs-") as directory:
        for policy in ("os:system", ":"):
            folder = Path(directory) / policy.replace(":", "-")
            folder.mkdir()
            with pytest.raises(StartFailed, match=r"site\.machines\[0\]\.policy"):
                await Laboratory(folder, rules=f'policy = "{policy}"').site.start()
