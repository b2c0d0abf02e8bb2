"""Rows that writes are about: a store reads them, and keeps them from others, before it decides.

What is named here is named whole, with what is not there yet: nobody else may add a request to a reservation,
or an address to a user, between the reading and the commit. A store that one writer has to itself need not
ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register import writes as w
from kalends.broker.register.decisions.notices import tries_of
from kalends.notices.delivery import DeliveriesDone


class Made(NamedTuple):
    """A row that a write may make."""

    rid: str
    user: str
    key: str
    reservation: str


@dataclass
class Touched:
    """The rows of some writes, by what they have in common."""

    everything: bool = False
    """All rows of requests, starts, scripts and lives, and whether the register was put back."""
    made: list[Made] = field(default_factory=list)
    """Their rids, keys and reservations are named below, too."""
    rids: set[str] = field(default_factory=set)
    """Rids of requests: their rows, starts and endings."""
    keys: set[tuple[str, str]] = field(default_factory=set)
    """Users and keys: the request, if there is one."""
    reservations: set[str] = field(default_factory=set)
    """All requests of a reservation."""
    whole: set[str] = field(default_factory=set)
    """Rids of requests: all requests of the reservations that they are of, or are made for."""
    tries: set[tuple[str, str]] = field(default_factory=set)
    """Users, and what keys of theirs have in common before their last word: these requests."""
    users_of_scripts: set[str] = field(default_factory=set)
    """Rids of requests: what scripts they use, and all that is about these."""
    scripts: set[str] = field(default_factory=set)
    """Hashes: the source, the uses and the names of a script."""
    clients: set[str] = field(default_factory=set)
    """All names of a user's scripts, and all that is about these scripts."""
    told: set[str] = field(default_factory=set)
    """Users: all their addresses."""
    users_of: set[str] = field(default_factory=set)
    """Rids of requests: all addresses of their users."""
    followed: set[str] = field(default_factory=set)
    """Users: all their calendar feeds."""
    shared: set[str] = field(default_factory=set)
    """Reservations: all their shares."""
    notices: set[int] = field(default_factory=set)
    deliveries: set[str] = field(default_factory=set)
    owners: set[str] = field(default_factory=set)
    """The beats of these."""
    replicas: set[str] = field(default_factory=set)
    """Names: the beats of all their starts."""
    lives: set[str] = field(default_factory=set)
    sites: set[str] = field(default_factory=set)
    clock: bool = False
    listed_sites: bool = False
    """All of them: they are few."""
    put_back: bool = False


def touched(writes: Sequence[w.Write]) -> Touched:
    """Return what `decide` looks at and changes for these writes, in whatever order."""
    about = Touched()
    for write in writes:
        _NAMES[type(write)](about, write)
        if isinstance(write, r.Telling):
            _told(about, write)
    return about


def _told(about: Touched, op: r.Telling) -> None:
    about.told.update(notice.user for notice in op.notices)
    if any(notice.occasion == "not-placed" for notice in op.notices):
        about.tries.add(tries_of(op.body))


def _made(about: Touched, record: r.Record) -> None:
    about.made.append(Made(record.rid, record.user, record.key, record.reservation))
    about.rids.add(record.rid)
    about.keys.add((record.user, record.key))
    if record.reservation != record.rid:
        about.reservations.add(record.reservation)


def _begin(about: Touched, op: r.Begin) -> None:
    _made(about, op.record)
    if op.source:
        about.scripts.add(op.record.spec.script)


def _note(about: Touched, op: r.Note) -> None:
    about.rids.add(op.rid)
    if op.source:
        about.scripts.add(op.script)


def _raise(about: Touched, op: r.Raise) -> None:
    about.rids.add(op.rid)
    if op.script:
        about.scripts.add(op.script)


def _commit(about: Touched, op: r.Commit) -> None:
    _decided(about, op)
    if op.replaces:
        about.rids.add(op.replaces)
        about.whole.update((op.rid, op.replaces))
    if op.heir is not None:
        about.shared.add(op.heir.reservation)


def _commit_series(about: Touched, op: r.CommitSeries) -> None:
    for each in op.commits:
        _commit(about, each)
        _told(about, each)
    about.rids.update(each.rid for each in op.moved)


def _decided(about: Touched, op: r.Commit | r.Close) -> None:
    about.rids.add(op.rid)
    about.users_of_scripts.add(op.rid)


def _whole(
    about: Touched,
    op: r.Examine | r.Permit | r.NoteEnd | r.Assemble | r.GiveUp | r.NoteBegan,
) -> None:
    about.rids.add(op.rid)
    about.whole.add(op.rid)


def _ask(about: Touched, op: r.Ask) -> None:
    about.rids.add(op.rid)
    if op.proved and op.certain:
        about.made.append(Made(op.rid, op.rid, "", op.rid))


def _note_nodes(about: Touched, op: r.NoteNodes) -> None:
    about.rids.add(op.rid)
    about.users_of.add(op.rid)


def _recover(about: Touched, op: r.Recover) -> None:
    _made(about, op.record)
    about.keys.add((op.record.user, op.record.rid))
    about.reservations.add(op.record.reservation)
    about.shared.add(op.record.reservation)
    about.users_of_scripts.add(op.record.rid)


def _lease(about: Touched, op: w.LeaseRenewal) -> None:
    about.owners.add(op.owner)
    about.clock = True


def _keep_script(about: Touched, op: w.KeepScript) -> None:
    about.clients.add(op.client)
    about.scripts.add(op.named.script)


def _listed_sites(about: Touched, op: w.SiteWrite) -> None:
    about.listed_sites = True


def _remind(about: Touched, op: w.Remind) -> None:
    about.told.add(op.address.user)
    about.rids.update(rid for rid, _ in op.notices)


def _make_deliveries(about: Touched, op: w.MakeDeliveries) -> None:
    about.notices.update(op.numbers)
    about.deliveries.update(each.id for each in op.deliveries)


_NAMES: Final[dict[type, Callable[[Touched, Any], object]]] = {
    r.Begin: _begin,
    r.Note: _note,
    r.Raise: _raise,
    r.Commit: _commit,
    r.CommitSeries: _commit_series,
    r.Close: _decided,
    r.Cancel: lambda about, op: about.rids.add(op.rid),
    r.Finish: lambda about, op: about.rids.add(op.rid),
    r.Adopt: lambda about, op: about.rids.add(op.rid),
    r.Read: lambda about, op: about.rids.add(op.rid),
    r.Examine: _whole,
    r.Ask: _ask,
    r.Permit: _whole,
    r.NoteEnd: _whole,
    r.Assemble: _whole,
    r.GiveUp: _whole,
    r.NoteBegan: _whole,
    r.NoteNodes: _note_nodes,
    r.Recover: _recover,
    r.Remember: lambda about, op: about.sites.add(op.site),
    Live: lambda about, op: about.lives.add(op.life),
    w.LeaseRenewal: _lease,
    w.Retire: lambda about, op: about.replicas.add(op.name),
    w.Resign: lambda about, op: about.owners.add(op.owner),
    w.PutBack: lambda about, op: setattr(about, "put_back", True),
    w.MadeGood: lambda about, op: setattr(about, "everything", True),
    w.ForgetSettled: lambda about, op: about.rids.update(op.rids),
    w.KeepScript: _keep_script,
    w.ForgetScript: lambda about, op: about.clients.add(op.client),
    w.KeepAddress: lambda about, op: about.told.add(op.address.user),
    w.ForgetAddress: lambda about, op: about.told.add(op.user),
    w.Remind: _remind,
    w.KeepFeed: lambda about, op: about.followed.add(op.feed.user),
    w.ForgetFeed: lambda about, op: about.followed.add(op.user),
    w.KeepShare: lambda about, op: about.shared.add(op.share.reservation),
    w.ForgetShare: lambda about, op: about.shared.add(op.reservation),
    w.PostNotice: lambda about, op: about.told.add(op.notice.user),
    w.MakeDeliveries: _make_deliveries,
    DeliveriesDone: lambda about, op: about.deliveries.update(op.ids),
    w.KeepCard: _listed_sites,
    w.JoinSite: _listed_sites,
    w.LeaveSite: _listed_sites,
    w.UnlistSite: _listed_sites,
}
