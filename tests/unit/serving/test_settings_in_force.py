"""Which settings of a changed configuration hold at once, and which wait for a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.serving.configuration import Configuration, load_configuration
from kalends.serving.settings_in_force import check_same_server, in_force, left_alone

SITE = """
[site]
name = "sdsc"
store = "{store}"
listen = "127.0.0.1:{port}"
[site.limits]
hold_max = "{hold}h"
calls_burst = {burst}
[[site.keys]]
file = "{key}"
[[site.resources]]
name = "sp2"
capacity = {capacity}
grain = "{grain}m"
[[site.resources.access]]
who = "group:{group}"
may = "lock"
[[site.defaults.blackouts]]
name = "helium"
reason = "{reason}"
begins = "2027-01-01"
ends = "2027-01-02"
"""
USUAL = {
    "store": "a.sqlite", "port": 7101, "hold": 1, "burst": 9, "key": "a.pub", "capacity": 8,
    "grain": 15, "group": "staff", "reason": "a",
}  # fmt: skip
OTHER = {
    "store": "b.sqlite", "port": 7102, "hold": 2, "burst": 8, "key": "b.pub", "capacity": 9,
    "grain": 30, "group": "all", "reason": "b",
}  # fmt: skip
NEED_A_RESTART = {
    "store": "site.store", "port": "site.listen", "burst": "site.limits.calls_burst",
}  # fmt: skip


def site(**changed: object) -> Configuration:
    return load_configuration(SITE.format(**{**USUAL, **changed}), Path())


@given(st.sets(st.sampled_from(sorted(OTHER))))
def test_what_holds_is_the_file_but_for_what_is_named_as_needing_a_restart(names: set[str]) -> None:
    wanted = site(**{name: OTHER[name] for name in names})
    force = in_force(site(), wanted)
    kept = {name: OTHER[name] for name in names if name not in NEED_A_RESTART}
    assert force == site(**kept)
    named = {NEED_A_RESTART[name] for name in names if name in NEED_A_RESTART}
    assert set(left_alone(force, wanted)) == named


def test_a_resource_more_or_less_holds_at_once() -> None:
    more = load_configuration(SITE.format(**USUAL) + '[[site.resources]]\nname = "cave"\n', Path())
    assert in_force(site(), more) == more
    assert in_force(more, site()) == site()


MACHINE = """
[[site.machines]]
resource = "sp2"
policy = "easy"
"""


def test_a_machine_more_or_less_or_larger_needs_a_restart() -> None:
    text = SITE.format(**USUAL)
    machine = load_configuration(text + MACHINE, Path())
    larger = load_configuration(SITE.format(**{**USUAL, "capacity": 9}) + MACHINE, Path())
    assert in_force(machine, larger) == machine
    assert list(left_alone(machine, larger)) == ["site.resources.sp2.capacity"]
    other = text.replace('"sp2"', '"onyx"') + MACHINE.replace('"sp2"', '"onyx"')
    gone = load_configuration(other, Path())
    force = in_force(machine, gone)
    assert force.site is not None
    assert [each.name for each in force.site.resources] == ["sp2"]
    assert "site.resources.onyx" in list(left_alone(force, gone))


def test_another_server_does_not_take_the_place_of_one_that_runs() -> None:
    other = load_configuration(SITE.format(**USUAL).replace('"sdsc"', '"ctc"'), Path())
    with pytest.raises(InvalidInput, match="sdsc runs, and ctc is configured"):
        check_same_server(site(), other)


BROKER = """
[broker]
name = "npaci"
store = "npaci.sqlite"
"""
CTC = '[[broker.sites]]\nname = "ctc"\nurl = "http://ctc"\n'
SDSC = '[[broker.sites]]\nname = "sdsc"\nurl = "http://sdsc"\n'
VIRTUAL = '[[broker.sites]]\nname = "midwest"\nurl = "http://midwest"\nmembers = ["ncsa"]\n'


def test_a_site_more_or_less_of_a_broker_holds_at_once_but_no_virtual_one() -> None:
    def of(*sites: str) -> Configuration:
        return load_configuration(BROKER + "".join(sites), Path())

    moved = CTC.replace("http://ctc", "http://moved")
    assert in_force(of(CTC), of(moved, SDSC)) == of(moved, SDSC)
    assert in_force(of(CTC, SDSC), of(SDSC)) == of(SDSC)
    force, wanted = in_force(of(CTC), of(SDSC, VIRTUAL)), of(SDSC, VIRTUAL)
    assert force == of(SDSC)
    assert list(left_alone(force, wanted)) == ["broker.sites.midwest"]
    assert in_force(of(CTC, VIRTUAL), of(SDSC)) == of(SDSC, VIRTUAL)
