"""The identity of a broker replica; proofs for sites, peers and the register that a message comes from it."""

from __future__ import annotations

from typing import Final, NamedTuple

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.trust import warrants
from kalends.contract import proofs

SITE_KEYS_MAX: Final = 16_384
"""Keys that are remembered: anybody may ask in the name of a site, one that there is or not."""


class Identity(NamedTuple):
    """`owner` is unique to this start of the replica, `coords` are the URLs of all replicas.

    `secret` is the register's: from it is derived what proves anything to sites (`kalends.contract.proofs`).
    """

    name: str
    owner: str
    coords: tuple[str, ...]
    secret: str = ""


class Credentials:
    """All secrets and proofs of one register, derived from its `secret`."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._site_keys: dict[str, str] = {}

    def site_key(self, site: str) -> str:
        key = self._site_keys.get(site)
        if key is None:
            if len(self._site_keys) >= SITE_KEYS_MAX:
                self._site_keys.clear()
            key = self._site_keys[site] = proofs.site_key(self._secret, site)
        return key

    def secret(self, record: Record, site: str) -> str:
        """Return the proof that a message about `record` is ours."""
        return proofs.of_request(self.site_key(site), record.rid)

    def proves(self, secret: str, site: str, rid: str) -> bool:
        """Whether `secret` proves that its sender is `site`, which takes part in `rid`."""
        return proofs.same(secret, proofs.of_request(self.site_key(site), rid))

    def peer_proof(self, site: str, rid: str, asker: str) -> str:
        """Return the proof for `site` that `asker` takes part in `rid`."""
        return proofs.of_peer(self.site_key(site), rid, asker)

    def visit_proof(self, site: str, record: Record, way: str, asked: str) -> str:
        """Return the proof for `site` that we sent an agent that comes by `way`."""
        return proofs.of_visit(
            self.site_key(site), record.rid, record.att, way, asked, str(record.stamp),
            record.user, *record.groups,
        )  # fmt: skip

    def commit_proofs(self, record: Record, told: str) -> dict[str, str]:
        """What proves the commit of `record` to each of its sites but `told`, which may be asked by them."""
        return {
            site: proofs.of_commit(self.site_key(site), record.rid, record.att, hold_ids)
            for site, hold_ids in record.chosen.items()
            if site != told
        }

    def commit_warrant(self, record: Record, site: str) -> str:
        """Return the proof for the register itself that `record` is committed, for `site` to keep."""
        return warrants.of_commit(self._secret, site, record)

    def cancel_warrant(self, record: Record, site: str) -> str:
        """The same for a cancel."""
        return warrants.of_cancel(self._secret, site, record)
