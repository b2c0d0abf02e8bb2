"""Two owners have the last word about their instruments: one approves, and the other declines."""

from __future__ import annotations

import kalends
from kalends.testing import LocalFacility

NOW, SLOT = "2027-03-01T09:00Z", "2027-03-03T09:00Z"
GUARDED = {
    "limits": [
        {"name": "staff", "who": "group:staff", "approval": False},
        {"name": "others", "who": "everyone", "approval": True},
    ]
}


def main() -> None:
    facilities = {"emlab": {"microscope": GUARDED}, "ncsa": {"cave": GUARDED}, "sdsc": {"sp2": 64}}
    with (
        LocalFacility(facilities, now=NOW) as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("operator", at="emlab") as emlab,
        servers.sync_client("operator", at="ncsa") as ncsa,
    ):
        wish = "emlab/microscope + sdsc/sp2:8"
        found = ann.find(wish, duration="2h", at=SLOT)
        print("needs the approval of the owner of", *found.approval)

        booked = ann.book(wish, duration="2h", at=SLOT, note="living cells")
        assert booked.waiting is not None
        print(booked.state, "until the owner of", *booked.waiting.awaited, "approves")
        for each in emlab.approvals():
            print("emlab is asked by", each.user, "for", each.slots[0].resource, f"({each.note})")
            emlab.approve(each.id, word="bring your own tip")
        print(ann.wait(booked.id, wait_s=60).state)

        both = ann.book("emlab/microscope + ncsa/cave", duration="1h", at="2027-03-04T09:00Z")
        emlab.approve(both.id)
        ncsa.decline(both.id, word="the projectors are being changed")
        try:
            ann.wait(both.id, wait_s=60)
        except kalends.NotAllowed as error:
            print("not allowed:", error.refusals[0].where, error.refusals[0].detail)


if __name__ == "__main__":
    main()
