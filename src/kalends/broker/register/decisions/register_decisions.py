"""One decision for each kind of write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register import writes as w
from kalends.broker.register.decisions import (
    feeds,
    listed_sites,
    lives,
    notices,
    recovery,
    requests,
    scripts,
    shares,
    starts,
)
from kalends.broker.register.rows import Rows
from kalends.notices.delivery import DeliveriesDone

DECISIONS: Final[dict[type, Callable[[Rows, Any], w.Result]]] = {
    r.Begin: requests.begin,
    r.Note: requests.note,
    r.Raise: requests.raise_attempt,
    r.Commit: requests.commit,
    r.CommitSeries: requests.commit_series,
    r.Close: requests.close,
    r.Cancel: requests.cancel,
    r.Finish: requests.finish,
    r.Adopt: requests.adopt,
    r.Read: requests.read,
    r.Examine: requests.examine,
    r.Ask: requests.ask,
    r.Permit: starts.permit,
    r.NoteEnd: starts.note_end,
    r.Assemble: starts.assemble,
    r.GiveUp: starts.give_up,
    r.NoteBegan: starts.note_began,
    r.NoteNodes: starts.note_nodes,
    r.Recover: recovery.recover,
    r.Remember: lives.remember,
    Live: lives.live,
    w.LeaseRenewal: lives.renew,
    w.Retire: lives.retire,
    w.Resign: lives.resign,
    w.PutBack: lives.put_back,
    w.MadeGood: lives.made_good,
    w.ForgetSettled: requests.forget_settled,
    w.KeepScript: scripts.keep_script,
    w.ForgetScript: scripts.forget_script,
    w.KeepAddress: notices.keep_address,
    w.ForgetAddress: notices.forget_address,
    w.Remind: notices.remind,
    w.KeepFeed: feeds.keep_feed,
    w.ForgetFeed: feeds.forget_feed,
    w.KeepShare: shares.keep_share,
    w.ForgetShare: shares.forget_share,
    w.PostNotice: notices.post_notice,
    w.MakeDeliveries: notices.make_deliveries,
    DeliveriesDone: notices.end_deliveries,
    w.KeepCard: listed_sites.announce,
    w.JoinSite: listed_sites.join,
    w.LeaveSite: listed_sites.leave,
    w.UnlistSite: listed_sites.unlist,
}


def decide(rows: Rows, write: w.Write) -> w.Result:
    """Do `write` on `rows`, and return its result.

    Looks at no row, and changes none, but those that `touched.touched` names for it. The result may be
    believed once the rows are durable.
    """
    result = DECISIONS[type(write)](rows, write)
    if isinstance(write, r.Telling) and isinstance(result, r.Registered) and result.won:
        notices.tell(rows, write)
    return result
