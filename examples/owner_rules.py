"""An owner's rules as code: a script at the site decides on each booking, and says why not."""

from __future__ import annotations

from pathlib import Path

import kalends
from kalends.testing import LocalFacility

NOW, DAY, NIGHT = "2027-03-01T09:00Z", "2027-03-03T09:00Z", "2027-03-03T22:00Z"
SCRIPT = Path(__file__).parent / "agents" / "beginners.agent.py"
RULED = {"decide": {"script": str(SCRIPT), "on_failure": "ask"}}


def main() -> None:
    with (
        LocalFacility({"emlab": {"microscope": RULED}, "sdsc": {"sp2": 64}}, now=NOW) as servers,
        servers.sync_client("ann", groups=["beginners"]) as ann,
        servers.sync_client("bob") as bob,
        servers.sync_client("operator", at="emlab") as owner,
    ):
        microscope = next(e for e in ann.resources().resources if e.name == "emlab/microscope")
        print(*microscope.rules, sep="\n")
        wish = "emlab/microscope + sdsc/sp2:8"
        print(ann.book(wish, duration="2h", at=DAY).state)
        try:
            ann.book(wish, duration="2h", at=NIGHT)
        except kalends.NotAllowed as error:
            print("not allowed:", error.refusals[0].where, error.refusals[0].detail)

        bob.book(wish, duration="21h", at="2027-03-03T22:00Z")
        more = bob.book(wish, duration="1h", at="2027-03-05T22:00Z")
        assert more.waiting is not None
        print(more.state, "until the owner of", *more.waiting.awaited, "approves")
        owner.approve(more.id)
        print(bob.wait(more.id, wait_s=60).state)


if __name__ == "__main__":
    main()
