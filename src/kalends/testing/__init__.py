"""Sites and a broker for users' own tests: the real servers, in this process, with a clock to move.

    with LocalFacility({"sdsc": {"sp2": 64}, "caltech": {"onyx": 1}}, now="2027-03-01T09:00Z") as servers:
        with servers.sync_client("ann") as broker:
            held = broker.hold("sdsc/sp2:8 + caltech/onyx", duration="2h", keep="10m")
            servers.clock.advance(minutes=11)
            assert broker.show(held.id).state == "failed"

Needs the extra ``server``. See `docs/testing.md`.
"""

from __future__ import annotations

from kalends.cli.console.server_parts import server_parts

with server_parts():
    from kalends.testing.clock import MovableClock as MovableClock
    from kalends.testing.facility import LocalFacility as LocalFacility

__all__ = ["LocalFacility", "MovableClock"]
