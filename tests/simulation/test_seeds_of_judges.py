"""Schedules in which a judge was wrong, and the product right: each seed, with what was misread."""

from __future__ import annotations

import pytest

from tests.simulation.climates import CLIMATES
from tests.simulation.schedule import complaint

SEEDS = [
    pytest.param("every-fault", 29879614066561, id="an-unheard-promise-whose-abort-was-lost"),
    pytest.param("every-fault", 29879614067677, id="a-late-visit-of-an-attempt-that-was-over"),
    pytest.param("every-fault", 29879614067680, id="a-request-that-the-register-never-took"),
    pytest.param("every-fault", 2000101, id="another-that-the-register-never-took"),
    pytest.param("every-fault", 29879614068073, id="an-agent's-hold-that-was-never-reported"),
    pytest.param("every-fault", 900070, id="an-agent's-next-visit-ends-a-hold-unreported"),
    pytest.param("every-fault", 800405, id="the-same-at-a-near-site"),
    pytest.param("site-cut-off", 5000025, id="the-same-where-slots-end-soon"),
    pytest.param("agents", 116490884835667, id="an-agent's-second-run-holds-again"),
    pytest.param("agents", 115832757969538, id="a-lower-attempt-after-a-hold-ran-out"),
    pytest.param("agents", 147262146430185, id="agents-are-asked-before-a-visit-is-in-line"),
    pytest.param("agents", 269087216898636, id="a-hold-whose-promise-a-crash-swallowed"),
    pytest.param("every-fault", 193386057118188, id="who-considers-what-it-holds-is-on-no-list"),
    pytest.param("every-fault", 17, id="a-site-was-gone-between-look-and-visit"),
    pytest.param(
        "every-fault", 276264930026107, id="an-unreported-hold-at-a-site-that-stood-still"
    ),
    pytest.param("slow-lines", 114312526408808, id="granted-again-before-an-abort-came"),
    pytest.param("slow-lines", 57007224350815, id="in-line-once-agents-have-been-asked-in-vain"),
    pytest.param("owners-think", 222870795988630, id="an-owner-is-asked-for-one-of-alternatives"),
    pytest.param("owners-think", 47417347977463, id="an-owner-declines-when-no-broker-can-be-told"),
    pytest.param(
        "hostile-near", 254829177172528, id="an-inquiry-that-proves-nothing-refuses-nothing"
    ),
    pytest.param("hostile-near", 76339196200517, id="decided-late-and-still-being-told"),
    pytest.param("site-cut-off", 248002465158677, id="granted-on-waking-from-pauses-in-a-row"),
    pytest.param("every-fault", 930319, id="a-promise-stored-by-a-sync-that-failed"),
    pytest.param("every-fault", 78292438823029, id="a-change-and-its-old-lock-take-the-larger"),
    pytest.param(
        "every-fault", 117965854704516, id="behind-a-promise-that-was-in-doubt-when-all-healed"
    ),
    pytest.param(
        "every-fault", 5929599386333, id="behind-such-a-promise-that-is-asked-for-a-minute-later"
    ),
    pytest.param("every-fault", 214300803024913, id="an-order-that-takes-long-to-find"),
    pytest.param(
        "every-fault", 138486327158311, id="given-back-before-the-site-says-that-it-was-held"
    ),
    pytest.param("stores-restored", 170403319794481, id="quiet-but-for-a-site-that-compares"),
    pytest.param(
        "every-fault", 46072845678824, id="granted-before-an-abort-and-asked-for-once-more-after"
    ),
    pytest.param("agents", 39205928815266, id="asked-anew-after-a-crash-left-an-older-question"),
    pytest.param(
        "weeks-restored",
        253408503996024,
        id="restored-to-an-attempt-that-is-over-and-so-in-no-doubt",
    ),
    pytest.param("slots-end", 2572508523563, id="a-promise-unheard-for-longer-than-its-hold"),
    pytest.param(
        "batch-promises-lost",
        193639907977364,
        id="a-yes-repeated-after-its-system-has-cut-a-change",
    ),
    pytest.param(
        "batch-promises-lost", 44814695276114, id="systems-that-answer-too-late-after-all-healed"
    ),
    pytest.param(
        "batch-promises-lost", 119735262319373, id="a-node-that-is-free-but-for-the-gap-after-it"
    ),
    pytest.param(
        "batch-slots-end", 182345770886350, id="a-torn-write-of-facts-that-change-nothing"
    ),
]


@pytest.mark.parametrize(("climate", "seed"), SEEDS)
def test_the_judges_read_rightly(climate: str, seed: int) -> None:
    report = CLIMATES[climate].run(seed)
    assert not report.violation, complaint(report, climate)
