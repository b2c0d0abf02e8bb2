"""A reservation of two owners that is shared, handed over to a colleague, and shown to a guest."""

from __future__ import annotations

import urllib.request

from kalends.contract.calls import RequestView
from kalends.core.errors import KalendsError
from kalends.testing import LocalFacility

NOW, SLOT, LATER = "2027-03-01T09:00Z", "2027-03-02T09:00Z", "2027-03-02T13:00Z"


def tell(who: str, view: RequestView) -> None:
    by = f", changed by {view.changed.by}" if view.changed is not None else ""
    given = f", given by {view.given_by}" if view.given_by else ""
    print(f"{who} sees: {view.state}, of {view.user}, {len(view.claims)} resources{by}{given}")


def main() -> None:
    with (
        LocalFacility({"sdsc": {"sp2": 64}, "ncsa": {"cave": 1}}, now=NOW) as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("bob") as bob,
    ):
        id = ann.book("sdsc/sp2:64 + ncsa/cave", duration="2h", at=SLOT).id
        ann.share(id, "bob", may_change=True)
        tell("bob", bob.show(id))
        bob.move(id, LATER)
        tell("ann", ann.show(id))

        ann.give(id, "carl")
        try:
            bob.accept_offer(id)
        except KalendsError as error:
            print(f"bob is refused: {error.detail}")
        ann.give(id, "bob")
        tell("bob", bob.accept_offer(id))
        for event in bob.why(id).events:
            print(f"  {event.kind} {event.detail}")

        link = bob.add_link(id)
        with urllib.request.urlopen(link.address) as answer:
            print("a guest sees:", answer.read().decode().rstrip(), sep="\n")


if __name__ == "__main__":
    main()
