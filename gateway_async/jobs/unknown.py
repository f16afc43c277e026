"""What is unknown of a job: looked up, and then succeeded, new again, or held for a person."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.results import BatchResult
from gateway_async.journal import OrderState
from gateway_async.journal.orders import ANYWHERE, Orders
from gateway_async.journal.rows import Known, known_of
from gateway_async.journal.states import DECISIONS, Proof
from gateway_async.models.orders import count_statuses, reference_of
from gateway_async.models.records import RefundRecord
from gateway_async.outcomes import ListedOutcomes
from gateway_async.recovery.recover import Recovery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.batching.runner import BatchRunner
    from gateway_async.journal.leases import Lease
    from gateway_async.journal.orders import Finding
    from gateway_async.journal.rows import JobOrder
    from gateway_async.outcomes import Outcome


async def look_up(
    run: "BatchRunner", lease: "Lease", page: "Sequence[JobOrder]", *, hold: bool
) -> "list[Finding]":
    """Look some unknown orders of a job up; return what was found out, transaction by transaction.

    What must be known besides goes with them: a control refund, and the other orders of their
    transactions, also those of other jobs, which may claim a refund. If one of these changes
    meanwhile, another may claim it.

    Args:
        run: The batch, which counts the requests.
        lease: Under which the orders are read.
        page: The unknown orders.
        hold: Whether what stays unclear is held for a person; else it stays unknown.
    """
    names = {each.order.transaction_id for each in page}
    seen: dict[str, dict[int, OrderState]] = defaultdict(dict)
    known = {each.index: each for each in page}
    for each in await lease.read(lambda orders: orders.orders_of(names)):
        known[each.index] = each
        seen[each.order.transaction_id][each.index] = each.state
    if (control := await lease.read(Orders.control_refund)) is not None:
        known[control.index] = control
    others = await lease.read(lambda orders: orders.made_by_others(names))
    made = [each for each in others if each.state is OrderState.SUCCEEDED]
    rivals = [each.order for each in others if each.state is not OrderState.SUCCEEDED]
    known |= {ANYWHERE.stop + number: each for number, each in enumerate(made)}
    listed = ListedOutcomes(
        tuple(
            attrs.evolve(known[index].outcome(taken_at=lease.taken_at), index=index)
            for index in sorted(known)
        )
    )
    given = BatchResult[Any, Any](counts=count_statuses(listed.statuses), chunks=(listed,))
    # The job resends by itself: it records an intent first.
    recovery = run.session.recovery
    session = attrs.evolve(run.session, recovery=attrs.evolve(recovery, resend_absent=False))
    result = await Recovery(session, run.policy, rivals).recover(given)
    run.results.requests += result.requests
    run.results.retries += result.retries
    if others != await lease.read(lambda orders: orders.made_by_others(names)):
        return []
    wanted = {each.index for each in page}
    found: dict[str, dict[int, Known]] = defaultdict(dict)
    for outcome in result:
        name, index = outcome.order.transaction_id, outcome.index
        if index in wanted and seen[name].get(index) is OrderState.UNKNOWN:
            one = _found(outcome, hold=hold, resend=recovery.resend_absent)
            if one is not None:
                found[name][index] = one
    return [(found[name], seen[name]) for name in found]


def _found(outcome: "Outcome[Any, Any]", *, hold: bool, resend: bool) -> Known | None:
    """Return what the journal keeps of an order that was looked up; None where it stays as it is.

    Args:
        outcome: What the look-up says of it.
        hold: Whether what stays unclear is held for a person.
        resend: Whether what was proved not to be done is new again.
    """
    found = known_of(DECISIONS[outcome.status], outcome.error)
    if found.state == OrderState.SUCCEEDED and isinstance(outcome.record, RefundRecord):
        return found._replace(reference=reference_of(outcome.record))
    if found.state == OrderState.NEW and not resend:
        found = found._replace(state=OrderState.HELD, proof=Proof.NOT_DONE)
    return found if hold or found.state != OrderState.HELD else None


def held_for_a_person(job_order: "JobOrder") -> "Finding":
    """Return that an unknown order is held which no look-up shows: a payout, or a review."""
    operation = job_order.operation
    name = getattr(job_order.order, operation.identity_field)
    text = (
        f"ask the gateway about {operation.identity_field} {name!r}, since a {operation} cannot be "
        f"looked up, and decide (`resolve`); {job_order.known.text}"
    )
    held = job_order.known._replace(state=OrderState.HELD, text=text)
    return {job_order.index: held}, {job_order.index: OrderState.UNKNOWN}
