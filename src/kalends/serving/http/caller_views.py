"""The call `whoami`: the identity of the caller at a server. All servers answer it in the same way."""

from __future__ import annotations

from kalends.contract.calls import CallerView, Nothing, Role
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import Clock
from kalends.serving.http.dispatch import Handler


def whoami(role: Role, name: str, clock: Clock) -> Handler:
    """Return the handler of the server `name`."""

    def view(caller: Caller, body: Nothing) -> CallerView:
        return CallerView(
            server=name,
            role=role,
            user=caller.principal.user,
            realm=caller.vouching.realm,
            groups=caller.principal.groups,
            scopes=tuple(sorted(caller.scopes)),
            key=caller.key,
            audiences=caller.audiences,
            expires_at=caller.expires_at,
            now=clock.wall_s(),
        )

    return view
