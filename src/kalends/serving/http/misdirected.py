"""Errors of calls that a server does not have, which name the kind of server that has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kalends.contract.calls import OPERATIONS, Operation, Role
from kalends.contract.paths import OPENAPI_PATH
from kalends.core.errors import NotFound


class Misdirected(NamedTuple):
    """The errors of calls that the server `name` does not have."""

    role: Role
    name: str

    def path(self, method: str, path: str) -> NotFound:
        """Return the error of a call over HTTP."""
        operation = next((each for each in OPERATIONS if _is_of(each, method, path)), None)
        return self._elsewhere(operation) or NotFound(
            "no such path", remedy=f"the paths: {OPENAPI_PATH}"
        )

    def call(self, called: str, known: Iterable[str]) -> NotFound:
        """Return the error of a call on a session, where the calls with these names are `known`."""
        operation = next((each for each in OPERATIONS if each.name == called), None)
        return self._elsewhere(operation) or NotFound(
            f"there is no call {called!a} here",
            where="name",
            remedy=f"the calls are {', '.join(known)}",
        )

    def _elsewhere(self, operation: Operation | None) -> NotFound | None:
        if operation is None or self.role in operation.roles:
            return None
        if self.role == "virtual":
            return NotFound(
                f"{self.name} is a virtual site: it has no resources of its own, only members",
                remedy="ask a broker that lists it (KALENDS_BROKER, or --broker); or a member: append"
                " /v1/members/NAME to this address. `kalends admin bids` lists the members (scope audit)",
            )
        others = " or ".join(f"a {each}" for each in operation.roles)
        return NotFound(
            f"{self.name} is a {self.role}, and this is for {others}: {operation.summary.lower()}",
            remedy=f"ask {others} (KALENDS_BROKER, or --broker)",
        )


def _is_of(operation: Operation, method: str, path: str) -> bool:
    pattern = re.sub(r"\\{[a-z_]+\\}", "[^/]+", re.escape(operation.path))
    return operation.method == method and re.fullmatch(pattern, path) is not None
