"""The table of the calls of users and programs to brokers and sites, and the names of their types.

`OPERATIONS` is the single source of the HTTP routes, of the session calls, of the OpenAPI document
and of the client: name, method, path, types of body and answer, and required scope. A field of the body that
appears in the path as ``{field}`` is taken from the path.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kalends.contract.agent_calls import (
    AgentRef,
    Agents,
    AgentView,
    ListAgents,
    ListRuns,
    RunRef,
    Runs,
    RunView,
    TellAgent,
    UploadAgent,
)
from kalends.contract.bodies import Answer, Body, Call, CallFrame, Reply, UnreadCall
from kalends.contract.fields import WaitMs
from kalends.contract.history_calls import HistoryPage, ReadHistory, ReadSlots, SlotPage
from kalends.contract.job_calls import (
    ChangeJob,
    FindDelays,
    FindGaps,
    JobNews,
    JobOutput,
    JobRef,
    Jobs,
    JobView,
    ListJobs,
    MachineDelays,
    MachineGaps,
    MachineLoad,
    MachinePlan,
    MovedJobs,
    NewPlan,
    ReadOutput,
    Replan,
    ServeNodes,
    SetPolicy,
    ShowPlan,
    ShowUsage,
    SubmitJob,
    SubmitJobs,
    Submitted,
    SubmittedJobs,
    UsageView,
    WatchJob,
    WatchJobs,
)
from kalends.contract.notice_calls import (
    AddNoticeAddress,
    ListNoticeAddresses,
    NoticeAddresses,
    NoticeAddressRef,
    NoticeAddressView,
)
from kalends.contract.operator_calls import (
    Audit,
    AuditClaim,
    Audited,
    AuditRecord,
    Bidders,
    BidderView,
    Drain,
    ListBidders,
    LostReservation,
    Reconcile,
    Reconciled,
    SiteReconciled,
)
from kalends.contract.owner_calls import (
    Approvals,
    ApprovalView,
    DecideApproval,
    ListApprovals,
    ListReclaims,
    Reclaim,
    ReclaimRef,
    Reclaims,
    ReclaimView,
)
from kalends.contract.placing_calls import PlacedEnd, PlacedJob, PlaceElsewhere, PlaceJob
from kalends.contract.request_calls import (
    Book,
    ById,
    ByKey,
    Change,
    Event,
    Events,
    Finish,
    ListRequests,
    Patience,
    Requests,
    Story,
    Watch,
)
from kalends.contract.request_views import (
    AgentNote,
    ClaimView,
    RequestState,
    RequestView,
    RequestViews,
    UnitsOut,
    Waiting,
    marked_state,
)
from kalends.contract.resource_calls import (
    CalendarView,
    Candidate,
    Find,
    Found,
    ListResources,
    Obstacle,
    PollPoint,
    PollView,
    Price,
    Resources,
    ShowCalendar,
    SiteStatus,
)
from kalends.contract.server_calls import AskSitePass, CallerView, Health, Nothing, Role, SitePass

__all__ = [
    "API_VERSION", "OPERATION", "OPERATIONS", "AgentNote", "AgentRef", "AgentView", "Agents",
    "Audit", "AuditClaim", "AuditRecord", "Audited", "BidderView", "Bidders", "Book", "ById",
    "ByKey", "CalendarView", "Call", "CallFrame", "CallerView", "Candidate", "Change", "Changes",
    "ClaimView", "Drain", "Event", "Events", "Find", "Finish", "Found", "Health", "ListAgents",
    "ListBidders", "ListRequests", "ListResources", "ListRuns", "LostReservation", "Nothing",
    "Obstacle", "Operation", "Patience", "PlaceElsewhere", "PlaceJob", "PlacedEnd", "PlacedJob",
    "PollPoint", "PollView", "Price", "Reconcile", "Reconciled", "Reply", "RequestState",
    "RequestView", "RequestViews", "Requests", "Resources", "Role", "RunRef", "RunView", "Runs",
    "Scope", "ShowCalendar", "SiteReconciled", "SiteStatus", "Story", "TellAgent", "UnitsOut",
    "UnreadCall", "UploadAgent", "WaitMs", "Waiting", "Watch", "marked_state",
]  # fmt: skip

API_VERSION = 1

Scope = Literal["", "any", "use", "audit", "admin", "broker"]
"""The scope that a call needs: "" is open to all, "any" to every accepted token, "use" to users.

"broker" vouches for users.
"""

Changes = Literal["nothing", "something", "request"]
"""The kind of change by a call, which decides what a lost answer means.

"nothing": the call changes nothing. "something": the change may have been carried out. "request": likewise,
and the call `by_key` finds the outcome by the key.
"""


class Operation(msgspec.Struct, frozen=True):
    """One call: `name` on sessions and in the client, `method` and `path` over HTTP."""

    name: str
    changes: Changes
    method: Literal["GET", "POST"]
    path: str
    body: type[Body]
    answer: type[Answer]
    scope: Scope
    roles: tuple[Role, ...]
    summary: str


_BROKER: tuple[Role, ...] = ("broker",)
_SITE: tuple[Role, ...] = ("site",)
_BOTH: tuple[Role, ...] = ("site", "broker")
_ALL: tuple[Role, ...] = ("site", "broker", "virtual")
_BROKER_OR_VIRTUAL: tuple[Role, ...] = ("broker", "virtual")


OPERATIONS: tuple[Operation, ...] = (
    Operation("health", "nothing", "GET", "/healthz", Nothing, Health, "", _ALL,
              "Report the health of the server"),
    Operation("whoami", "nothing", "GET", "/v1/whoami", Nothing, CallerView, "any", _ALL,
              "Show the caller's identity at the server"),
    Operation("resources", "nothing", "GET", "/v1/resources", ListResources, Resources, "use", _BOTH,
              "List the resources that the caller may see"),
    Operation("calendar", "nothing", "POST", "/v1/calendar", ShowCalendar, CalendarView, "use", _BOTH,
              "Show the slots of a resource, taken and free for the caller"),
    Operation("find", "nothing", "POST", "/v1/find", Find, Found, "use", _BROKER,
              "Find possible starts of a request; book nothing"),
    Operation("book", "request", "POST", "/v1/requests", Book, RequestView, "use", _BROKER,
              "Book or hold every part of a request, or nothing"),
    Operation("job_place", "request", "POST", "/v1/requests/jobs", PlaceJob, RequestView, "use", _BROKER,
              "Submit a job to the site that bids the earliest end"),
    Operation("job_place_elsewhere", "request", "POST", "/v1/requests/{id}/elsewhere", PlaceElsewhere,
              RequestView, "use", _BROKER, "Find another site for a job"),
    Operation("by_key", "nothing", "POST", "/v1/requests/by-key", ByKey, RequestView, "use", _BROKER,
              "Look up a request by its idempotency key, to resolve an unknown outcome"),
    Operation("list", "nothing", "POST", "/v1/requests/list", ListRequests, Requests, "use", _BROKER,
              "List the caller's requests, newest first"),
    Operation("show", "nothing", "GET", "/v1/requests/{id}", ById, RequestView, "use", _BROKER,
              "Show a request"),
    Operation("why", "nothing", "GET", "/v1/requests/{id}/why", ById, Story, "use", _BROKER,
              "Explain what happened to a request, and which rules refused it"),
    Operation("lock", "something", "POST", "/v1/requests/{id}/lock", Finish, RequestView, "use", _BROKER,
              "Lock all slots that a request holds, or none"),
    Operation("release", "something", "POST", "/v1/requests/{id}/release", Finish, RequestView, "use",
              _BROKER, "Release all slots that a request holds"),
    Operation("cancel", "something", "POST", "/v1/requests/{id}/cancel", Finish, RequestView, "use", _BROKER,
              "Cancel a reservation at all its sites"),
    Operation("change", "request", "POST", "/v1/requests/{id}/change", Change, RequestView, "use", _BROKER,
              "Move, extend or shrink a reservation; if refused, it stays as it was"),
    Operation("watch", "nothing", "POST", "/v1/watch", Watch, Events, "use", _BROKER,
              "Follow the events of the caller's requests"),
    Operation("notify_list", "nothing", "GET", "/v1/notices", ListNoticeAddresses, NoticeAddresses, "use",
              _BROKER, "List the caller's addresses for notices"),
    Operation("notify_add", "something", "POST", "/v1/notices", AddNoticeAddress, NoticeAddressView, "use",
              _BROKER, "Add a mail address or a webhook for the caller's notices"),
    Operation("notify_remove", "something", "POST", "/v1/notices/remove", NoticeAddressRef,
              NoticeAddressView, "use", _BROKER, "Remove an address for the caller's notices"),
    Operation("notify_test", "something", "POST", "/v1/notices/test", NoticeAddressRef, NoticeAddressView,
              "use", _BROKER, "Send a test notice to an address of the caller"),
    Operation("site_pass", "nothing", "POST", "/v1/passes", AskSitePass, SitePass, "use", _BROKER,
              "Give the caller a pass for a site, instead of the caller's own token"),
    Operation("agent_upload", "something", "POST", "/v1/agents", UploadAgent, AgentView, "use", _BROKER,
              "Check a script and store it under a name"),
    Operation("agent_list", "nothing", "GET", "/v1/agents", ListAgents, Agents, "use", _BROKER,
              "List the caller's scripts"),
    Operation("agent_show", "nothing", "GET", "/v1/agents/{name}", AgentRef, AgentView, "use", _BROKER,
              "Show a script of the caller, with its source"),
    Operation("agent_delete", "something", "POST", "/v1/agents/{name}/delete", AgentRef, AgentView, "use",
              _BROKER, "Delete a script; open requests still use it"),
    Operation("agent_tell", "something", "POST", "/v1/requests/{id}/agent", TellAgent, RequestView, "use",
              _BROKER, "Send a message to a request's agent, or replace the agent"),
    Operation("agent_runs", "nothing", "POST", "/v1/runs", ListRuns, Runs, "use", _SITE,
              "List the runs of the caller's scripts at this site, newest first"),
    Operation("agent_run", "nothing", "GET", "/v1/runs/{run}", RunRef, RunView, "use", _SITE,
              "Show a run, with the record that replays it"),
    Operation("audit", "nothing", "POST", "/v1/audit", Audit, Audited, "audit", _BOTH,
              "List all claims or decisions, and every violated invariant"),
    Operation("bidders", "nothing", "GET", "/v1/bidders", ListBidders, Bidders, "audit", _BROKER_OR_VIRTUAL,
              "Show statistics of the sites' bids"),
    Operation("drain", "something", "POST", "/v1/drain", Drain, Health, "admin", _BOTH,
              "Refuse new claims, or accept them again"),
    Operation("reconcile", "something", "POST", "/v1/reconcile", Reconcile, Reconciled, "admin", _BOTH,
              "Compare a broker with its sites, and repair differences"),
    Operation("reclaim", "something", "POST", "/v1/reclaims", Reclaim, ReclaimView, "admin", _SITE,
              "Reclaim a period for the owner; its reservations are moved or cancelled"),
    Operation("reclaims", "nothing", "GET", "/v1/reclaims", ListReclaims, Reclaims, "admin", _SITE,
              "List the reclaimed periods, and the reservations still in them"),
    Operation("approvals", "nothing", "GET", "/v1/approvals", ListApprovals, Approvals, "admin", _SITE,
              "List the requests that need the owner's approval"),
    Operation("approval_decide", "something", "POST", "/v1/approvals/{id}", DecideApproval, ApprovalView,
              "admin", _SITE, "Approve a request, or decline it"),
    Operation("job_submit", "something", "POST", "/v1/jobs", SubmitJob, Submitted, "use", _SITE,
              "Submit a job, or an array of jobs, to a machine's queue"),
    Operation("jobs_submit", "something", "POST", "/v1/jobs/many", SubmitJobs, SubmittedJobs, "use", _SITE,
              "Submit many jobs to a machine's queue"),
    Operation("jobs", "nothing", "POST", "/v1/jobs/list", ListJobs, Jobs, "use", _SITE,
              "List jobs, with the predicted starts of waiting ones"),
    Operation("job", "nothing", "POST", "/v1/jobs/show", JobRef, JobView, "use", _SITE, "Show one job"),
    Operation("job_watch", "nothing", "POST", "/v1/jobs/watch", WatchJob, JobNews, "use", _SITE,
              "Wait for a change of a job"),
    Operation("jobs_watch", "nothing", "POST", "/v1/jobs/moved", WatchJobs, MovedJobs, "use", _SITE,
              "Wait for a change of any of the caller's jobs"),
    Operation("job_change", "something", "POST", "/v1/jobs/change", ChangeJob, JobView, "use", _SITE,
              "Hold, release or kill a job"),
    Operation("job_output", "nothing", "POST", "/v1/jobs/output", ReadOutput, JobOutput, "use", _SITE,
              "Read the output of a job"),
    Operation("job_usage", "nothing", "POST", "/v1/jobs/usage", ShowUsage, UsageView, "use", _SITE,
              "Sum up the node-seconds used, by user and project"),
    Operation("slots", "nothing", "POST", "/v1/slots", ReadSlots, SlotPage, "use", _SITE,
              "List reservations of a batch system, with their use by jobs"),
    Operation("job_history", "nothing", "POST", "/v1/jobs/history", ReadHistory, HistoryPage, "use", _SITE,
              "List ended jobs, with all that they used"),
    Operation("machine_plan", "nothing", "POST", "/v1/machines/plan", ShowPlan, MachinePlan, "use", _SITE,
              "Show the schedule of a machine, with its free nodes"),
    Operation("machine_gaps", "nothing", "POST", "/v1/machines/gaps", FindGaps, MachineGaps, "use", _SITE,
              "List the gaps in which a job would start on a machine at once"),
    Operation("machine_delays", "nothing", "POST", "/v1/machines/delays", FindDelays, MachineDelays, "use",
              _SITE, "List the waiting jobs that a reservation would delay"),
    Operation("machine_nodes", "something", "POST", "/v1/machines/nodes", ServeNodes, MachineLoad, "admin",
              _SITE, "Drain, fail or resume nodes of a machine"),
    Operation("machine_policy", "something", "POST", "/v1/machines/policy", SetPolicy, MachineLoad, "admin",
              _SITE, "Switch the policy of a machine's queue"),
    Operation("machine_replan", "something", "POST", "/v1/machines/replan", Replan, NewPlan, "admin", _SITE,
              "Recompute the plan of a machine's queue"),
    Operation("reclaim_end", "something", "POST", "/v1/reclaims/{key}/end", ReclaimRef, ReclaimView, "admin",
              _SITE, "Withdraw a reclaim; the period can be booked again"),
)  # fmt: skip


OPERATION: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}
