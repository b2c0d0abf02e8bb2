"""A reservation that changes: moved, lengthened, made smaller, refused, cancelled. Its id stays.

The old time is kept until every site has agreed to the new one; a refused change changes nothing.
Run it while `kalends demo --keep` runs, with the environment that it prints.
"""

from __future__ import annotations

import kalends
from kalends.contract.calls import RequestView

ZONE = "America/Los_Angeles"


def tell(what: str, view: RequestView) -> None:
    start, end = (kalends.as_datetime(at, ZONE) for at in (view.start, view.end))
    units = ", ".join(f"{claim.resource}:{claim.units}" for claim in view.claims)
    print(f"{what}: {view.state}, {start:%a %H:%M} to {end:%H:%M}, {units}")


def main() -> None:
    with kalends.connect_sync(zone=ZONE) as broker:
        booked = broker.book(
            "sdsc/sp2:64 + caltech/beamline", duration="2h", at="next monday 10:00"
        )
        tell("booked", booked)
        tell("moved", broker.move(booked.id, "next monday 13:00"))
        tell("extended", broker.extend(booked.id, by="1h"))
        tell("shrunk", broker.shrink(booked.id, units={"sdsc/sp2": 32}))
        try:
            broker.move(booked.id, "next monday 17:00")
        except kalends.KalendsError as error:
            print(f"not moved: {type(error).__name__}")
            for refusal in error.refusals:
                print(f"  {refusal.where} says {refusal.code}: {refusal.detail}")
        tell("still", broker.show(booked.id))
        tell("cancelled", broker.cancel(booked.id))


if __name__ == "__main__":
    main()
