"""One facility of each kind for all fuzz tests; after every test its logs are looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fuzz_servers import PRESS_NODES, Facility, check_logs, facility


@pytest.hookimpl(tryfirst=True)  # Before pytest-xdist looks at the groups.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker makes the facilities that all of them share."""
    for item in items:
        if "facilities" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("fuzzed-facilities"))


@pytest.fixture(scope="session")
def facilities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Facility]]:
    with (
        facility(tmp_path_factory.mktemp("tokens"), tokens=True) as closed,
        facility(tmp_path_factory.mktemp("open"), tokens=False) as opened,
    ):
        for each in (closed, opened):
            start = (int(time.time()) // 3600 + 24) * 3600
            each.book("anna", "alpha/cluster", start)
            each.book("anna", "beta/cluster", start, hold=True)
            # Nobody's job can begin beside this: what the tests submit waits, and never runs.
            whole = {"units": PRESS_NODES, "duration_s": 86_400}
            each.book("anna", "alpha/press", int(time.time()) + 2, **whole)
        yield {"tokens": closed, "open": opened}


@pytest.fixture(scope="module")
def untouched(facilities: dict[str, Facility]) -> Iterator[None]:
    """Around a module: what was refused in it has changed nothing anywhere."""
    before = {way: each.state() for way, each in facilities.items()}
    yield
    for way, each in facilities.items():
        after = each.state()
        assert {part: after[part] for part in before[way]} == {
            part: [one for one in claims if one["id"] not in each.accepted]
            for part, claims in before[way].items()
        }


@pytest.fixture(params=["tokens", "open"])
def place(facilities: dict[str, Facility], request: pytest.FixtureRequest) -> Iterator[Facility]:
    """A facility in which anna has a reservation and a hold; nothing may go wrong in its logs."""
    yield facilities[request.param]
    check_logs(facilities[request.param])


@pytest.fixture
def closed(facilities: dict[str, Facility]) -> Iterator[Facility]:
    """The facility with tokens."""
    yield facilities["tokens"]
    check_logs(facilities["tokens"])
