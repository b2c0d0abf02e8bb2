"""Queues of batch jobs: waiting rooms, policies and predicted starts. Pure; used live and simulated alike.

A policy of your own needs only these names: see docs/policies.md.
"""

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job, NodeRequest
from kalends.scheduling.policies.ordered.queue import QueuePolicy
from kalends.scheduling.policy import Policy
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler

__all__ = [
    "Cluster",
    "Job",
    "NodeRequest",
    "Policy",
    "QueuePolicy",
    "Reservation",
    "Scheduler",
    "policy_maker",
]
