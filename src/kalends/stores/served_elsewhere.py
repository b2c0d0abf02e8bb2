"""The refusal of a store that another process serves, which lives."""

from __future__ import annotations

from kalends.core.errors import Unavailable


class ServedElsewhere(Unavailable):
    """Another process serves the store, on `host` ("" if that is not known): opening it later may help."""

    def __init__(self, host: str, where: str = "") -> None:
        super().__init__(
            f"another process serves this store{f', on {host}' if host else ''}: this one is its standby",
            where=where,
            remedy="give clients and brokers the addresses of both; this one takes over when the other ends",
            retry_after_s=1.0,
        )
        self.host = host
