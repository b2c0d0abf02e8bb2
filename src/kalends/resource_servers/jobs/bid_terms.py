"""Hints in a bid: the price by the owner's prices or tariff, the load, and whether nodes are shared.

"get_scheds returns the set of possible machine schedules, when they are available, whether the machine is
shared, and the cost." (Weissman and Grimshaw 1996, section 4.2.)
"""

from __future__ import annotations

from msgspec import structs

from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.contract import messages as m
from kalends.core.money import CREDIT
from kalends.serving.configuration import MachineConfiguration

HOUR_S = 3_600


def with_terms(offer: m.PlaceOffer, rules: MachineConfiguration, queue: BatchQueue) -> m.PlaceOffer:
    """Return `offer` as its owner completes it."""
    return structs.replace(
        offer,
        undisclosed=not rules.disclosed,
        shared=rules.shared,
        load=load_of(queue),
        price=credits_of(queue, queue.job(offer.job), offer.nodes * (offer.end - offer.start)),
    )


def load_of(queue: BatchQueue) -> int:
    """Return the percentage of the nodes in service that jobs have now, other bids not counted."""
    room = queue.flow.room
    out = room.scheduler.cluster.out_nodes
    busy = {
        node for job in queue.flow.table if job.on_nodes and not job.offered for node in job.nodes
    } - out
    return -(-100 * len(busy) // max(room.nodes - len(out), 1))


def credits_of(queue: BatchQueue, job: BatchJob, node_s: int) -> float:
    """Return the credits that the job costs at most: as reserved, or for `node_s` by the tariff."""
    if job.pays is not None:
        return job.pays.most / CREDIT
    terms = queue.flow.terms
    return terms.tariff.get(job.request.priority or terms.default_class, 0) * node_s / HOUR_S
