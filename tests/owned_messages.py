"""Messages to a site that only the register of their request may send."""

from __future__ import annotations

from typing import Final, get_args

from kalends.contract import messages as m

OPEN: Final = (
    m.Welcome,
    m.Query,
    m.PeerAsk,
    m.PeerSays,
    m.Compare,
    m.Relock,
    m.Recharge,
    m.Settled,
)
"""All others: what takes them says by itself whom it believes."""

ABOUT_A_REQUEST: Final = tuple(
    kind for kind in (*get_args(m.ToSite), *get_args(m.BetweenSites)) if kind not in OPEN
)
