"""Several bookings in flight over one session: one can never be right, the others are not disturbed.

Each booking's key is made before it is sent. When an answer is lost, the key tells what became of it.
Run it while `kalends demo --keep` runs, with the environment that it prints.
"""

from __future__ import annotations

import asyncio

import kalends
from kalends.contract.calls import RequestView

WANTED = {
    "morning": ("sdsc/sp2:32 + caltech/beamline", "next monday 09:00"),
    "noon": ("sdsc/sp2:32 + ncsa/cave", "next monday 12:00"),
    "evening": ("sdsc/sp2:32", "next monday 20:00"),
    "night": ("caltech/beamline", "next monday 23:00"),
}


async def book(broker: kalends.Client, text: str, at: str) -> RequestView:
    """One booking that survives a lost answer: done exactly once, or an error that says why not."""
    wanted = broker.request(text, duration="1h", at=at)
    key = broker.new_key()
    try:
        return await broker.book(wanted, key=key)
    except kalends.OutcomeUnknown:
        try:
            return await broker.resolve(key)  # It was done, or is still being decided.
        except kalends.NotFound:
            return await broker.book(wanted, key=key)  # It never arrived: safe to send again.


async def main() -> None:
    zone = "America/Los_Angeles"
    async with kalends.connect(zone=zone) as broker:
        outcomes = await asyncio.gather(
            *(book(broker, text, at) for text, at in WANTED.values()), return_exceptions=True
        )
        for name, outcome in zip(WANTED, outcomes, strict=True):
            if isinstance(outcome, kalends.NoCommonTime):
                print(f"{name}: no common time")
                for refusal in outcome.refusals:
                    print(f"  {refusal.where} says {refusal.code}: {refusal.detail}")
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                print(
                    f"{name}: {outcome.state} {kalends.as_datetime(outcome.start, zone):%a %H:%M}"
                )

        booked = [view for view in outcomes if not isinstance(view, BaseException)]
        await asyncio.gather(*(broker.cancel(view.id) for view in booked))
        print(f"reserved now: {len(await broker.list(state='reserved'))}")


if __name__ == "__main__":
    asyncio.run(main())
