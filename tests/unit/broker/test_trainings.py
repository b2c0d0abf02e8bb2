"""A training that runs out bars new bookings after its last day, and takes nothing away."""

from __future__ import annotations

import pytest

from kalends.core.errors import NotAllowed
from kalends.testing import LocalFacility

TRAINED = {"who": "everyone", "may": "lock", "members": {"ann": "2027-03-02"}}
LASER = {"access": [{"name": "laser", **TRAINED}, {"who": "everyone", "may": "see"}]}


def test_what_was_booked_in_time_can_be_given_back_and_later_is_refused_by_name() -> None:
    with (
        LocalFacility({"lab": {"laser": LASER}}, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("bob") as bob,
    ):
        mine = ann.book("lab/laser", at="2027-03-02T22:00Z", duration="2h", patience="none")
        with pytest.raises(NotAllowed) as refused:
            ann.book("lab/laser", at="2027-03-02T23:00Z", duration="2h", patience="none")
        (refusal,) = refused.value.refusals
        assert (refusal.rule, "until the end of 2027-03-02" in refusal.detail) == ("laser", True)
        assert not ann.find("lab/laser", at="2027-03-03T10:00Z", duration="1h").candidates
        with pytest.raises(NotAllowed) as hidden:
            bob.book("lab/laser", at="2027-03-02T10:00Z", duration="1h", patience="none")
        assert "2027-03-02" not in str(hidden.value)
        with pytest.raises(NotAllowed):
            ann.extend(mine.id, by="1h")
        servers.clock.advance(hours=38)
        assert ann.shrink(mine.id, by="30m").state == "reserved"
        assert ann.cancel(mine.id).state == "cancelled"
